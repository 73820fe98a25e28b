"""A team that breaks PettingZoo's contract is refused with one clear line."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from click.testing import CliRunner

from tests.tiny_teams import Doors, ShiftEnv, Shifts, tables_of
from workflow_rl import TrainConfig, load_agent, train
from workflow_rl.agents.team import ABSENT, BUSY
from workflow_rl.commands.check_env import check_env
from workflow_rl.environments.agent_player import Team
from workflow_rl.environments.episode import episode_spec
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


class Idle(ShiftEnv):
    """`late` can do nothing at some steps, which its mask tells. The env wants an action then."""

    given: ClassVar[list[int]] = []

    def step(self, actions: dict[str, int]) -> Any:
        assert set(actions) == set(self.agents)
        busy = [one for one in self.agents if self._busy(one)]
        self.given.extend(actions.pop(one) for one in busy)
        return super().step(actions)

    def _infos(self) -> dict[str, Any]:
        infos = super()._infos()
        for info in infos.values():
            if info.pop("busy_steps"):
                info["action_mask"] = np.zeros(4, np.int8)
        return infos


def test_an_agent_whose_mask_rules_out_all_is_busy() -> None:
    environments = [GymnasiumEnvironment("team", {}, env) for env in (ShiftEnv, Idle)]
    layout = environments[0].spaces().team
    assert layout is not None
    assert environments[1].check() is None
    Idle.given.clear()
    rows = []
    for environment in environments:
        envs = environment.make_envs(1)
        rows.append([envs.reset([0], [episode_spec(0, 0)])])
        for _ in range(8):
            rows[-1].append(envs.step([0], np.array([[1, 2]])).obs)
    assert np.array_equal(*rows)
    assert BUSY in layout.status(np.array(rows[0])[:, 0, : layout.obs_dim])
    assert set(Idle.given) == {0}


class Shown(ShiftEnv):
    """Shows `late` after its end, too."""

    def step(self, actions: dict[str, int]) -> Any:
        obs, *others = super().step(actions)
        return {"late": np.zeros(3, np.float32), **obs}, *others


def test_an_agent_that_has_ended_and_is_shown_still_is_absent() -> None:
    environment = GymnasiumEnvironment("team", {}, Shown)
    layout, envs = environment.spaces().team, environment.make_envs(1)
    assert layout is not None
    envs.reset([0], [episode_spec(0, 0)])
    answers = [envs.step([0], np.array([[1, 2]])) for _ in range(8)]
    rows = np.array([answer.obs[0] for answer in answers])
    late = layout.status(rows[:, : layout.obs_dim])[:, layout.agents.index("late")]
    assert late[5] != ABSENT
    assert (late[6:] == ABSENT).all()


def test_masks_that_do_not_count_make_nobody_busy() -> None:
    envs = GymnasiumEnvironment("team", {}, Idle, False).make_envs(1)
    Idle.given.clear()
    envs.reset([0], [episode_spec(0, 0)])
    for _ in range(8):
        envs.step([0], np.array([[1, 2]]))
    assert set(Idle.given) == {2}


def test_a_team_of_ones_own_loop_gets_the_first_action_where_nothing_is_possible(
    tmp_path: Path,
) -> None:
    config = TrainConfig(mode="sync", env="tests.tiny_teams:ShiftEnv", total_episodes=8)
    train(config, tmp_path / "run")
    team = load_agent(tmp_path / "run")
    assert isinstance(team, Team)
    seen = {"late": np.eye(3, dtype=np.float32)[0]}
    assert team.act(seen, {"late": {"action_mask": np.zeros(4)}}) == {"late": 0}
    assert team.act(seen, {"late": {"action_mask": np.array([0, 0, 0, 1])}}) == {"late": 3}


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
