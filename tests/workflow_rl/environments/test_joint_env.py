"""A team that breaks PettingZoo's contract is refused with one clear line."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from click.testing import CliRunner

from tests.tiny_teams import Doors, ShiftEnv, Shifts, tables_of
from workflow_rl.commands.check_env import check_env
from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment


class Unpaid(ShiftEnv):
    def step(self, actions: dict[str, int]) -> Any:
        obs, rewards, *others = super().step(actions)
        return obs, {one: reward for one, reward in rewards.items() if one != "late"}, *others


class Unseen(ShiftEnv):
    def step(self, actions: dict[str, int]) -> Any:
        obs, *others = super().step(actions)
        return {one: seen for one, seen in obs.items() if one != "late"}, *others


class Staying(ShiftEnv):
    def step(self, actions: dict[str, int]) -> Any:
        agents = self.agents
        answer = super().step(actions)
        self.agents = self.agents or agents
        return answer


class CutOff(ShiftEnv):
    def step(self, actions: dict[str, int]) -> Any:
        obs, *others = super().step(actions)
        return {one: seen for one, seen in obs.items() if one in self.agents}, *others


class Unfit(Doors):
    def __init__(self) -> None:
        super().__init__()
        self.entities["chief"]["features"] = [[9]]


class Undescribed(Doors):
    def __init__(self) -> None:
        super().__init__()
        del self.entities["south"]


@pytest.mark.parametrize(
    ("env", "problem"),
    [
        (Unpaid, "step gave no reward for late, who acted"),
        (Unseen, "no observation of late, who is in `agents`"),
        (CutOff, "no observation of early, who was truncated: give its last observation"),
        (Staying, "early terminated or were truncated, and are still in `agents`: take them out"),
    ],
)
def test_a_broken_team_is_refused(env: type, problem: str) -> None:
    result = CliRunner().invoke(check_env, [f"{__name__}:{env.__name__}", "--steps", "50"])
    assert result.exit_code == 1
    assert problem in result.output


@pytest.mark.parametrize(
    ("env", "problem"),
    [
        (Unfit, "chief: entities: features holds 9, which is not from -1 to 8"),
        (Undescribed, "tables for north, chief, and its agents are north, south, chief"),
    ],
)
def test_entities_that_do_not_fit_the_agents_are_refused(env: type, problem: str) -> None:
    result = CliRunner().invoke(check_env, [f"{__name__}:{env.__name__}"])
    assert result.exit_code == 2
    assert problem in result.output.splitlines()[-1]


def test_a_sound_team_is_not_refused() -> None:
    result = CliRunner().invoke(check_env, ["tests.tiny_teams:ShiftEnv", "--steps", "50"])
    assert result.exit_code == 0, result.output


class Mapped(Doors):
    def __init__(self) -> None:
        super().__init__()
        self.entities = {"doors": [1, 2], "features": {}}


class DescribedShifts(Shifts):
    entities: ClassVar = {
        "early": {"features": [[0], [1]], "actions": [(0, 0), (0, 1)]},
        "late": {"features": [[0], [1], [2]], "actions": [(0, 0), (0, 1), (0, 2), (0, -1)]},
    }


def test_who_declares_entities() -> None:
    for env, expected in (
        (Doors, [tables_of(3)["features"], tables_of(3)["features"], tables_of(4)["features"]]),
        (DescribedShifts, [[[0], [1]], [[0], [1], [2]]]),
        (Mapped, []),
        (ShiftEnv, []),
    ):
        team = GymnasiumEnvironment("team", {}, env).spaces().team
        assert team is not None
        assert [tables["features"] for tables in team.entities] == expected
