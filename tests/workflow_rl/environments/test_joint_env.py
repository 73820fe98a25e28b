"""A team that breaks PettingZoo's contract is refused with one clear line."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner

from tests.tiny_teams import ShiftEnv
from workflow_rl.commands.check_env import check_env


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


def test_a_sound_team_is_not_refused() -> None:
    result = CliRunner().invoke(check_env, ["tests.tiny_teams:ShiftEnv", "--steps", "50"])
    assert result.exit_code == 0, result.output
