from typing import Any, ClassVar

import numpy as np

from tests.altered import altered
from tests.tiny_teams import Doors, ShiftEnv, Shifts, tables_of
from workflow_rl import TrainConfig, load_agent, train
from workflow_rl.agents.team import ABSENT, BUSY
from workflow_rl.environments.agent_player import Team
from workflow_rl.environments.episode import episode_spec
from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment


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


def test_an_agent_whose_mask_rules_out_all_is_busy():
    environments = [GymnasiumEnvironment("team", {}, env) for env in (ShiftEnv, Idle)]
    layout = environments[0].spaces().team
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
    # Masks that do not count make nobody busy.
    unmasked = GymnasiumEnvironment("team", {}, Idle, False).make_envs(1)
    Idle.given.clear()
    unmasked.reset([0], [episode_spec(0, 0)])
    for _ in range(8):
        unmasked.step([0], np.array([[1, 2]]))
    assert set(Idle.given) == {2}


def still_shown(env: Any, answer: Any) -> Any:
    obs, *others = answer
    return {"late": np.zeros(3, np.float32), **obs}, *others


def test_an_agent_that_has_ended_and_is_shown_still_is_absent():
    environment = GymnasiumEnvironment("team", {}, altered(ShiftEnv, still_shown))
    layout, envs = environment.spaces().team, environment.make_envs(1)
    envs.reset([0], [episode_spec(0, 0)])
    answers = [envs.step([0], np.array([[1, 2]])) for _ in range(8)]
    rows = np.array([answer.obs[0] for answer in answers])
    late = layout.status(rows[:, : layout.obs_dim])[:, layout.agents.index("late")]
    assert late[5] != ABSENT
    assert (late[6:] == ABSENT).all()


def test_a_team_of_ones_own_loop_gets_the_first_action_where_nothing_is_possible(tmp_path):
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


def test_who_declares_entities():
    for env, expected in (
        (Doors, [tables_of(3)["features"], tables_of(3)["features"], tables_of(4)["features"]]),
        (DescribedShifts, [[[0], [1]], [[0], [1], [2]]]),
        (Mapped, []),
        (ShiftEnv, []),
    ):
        team = GymnasiumEnvironment("team", {}, env).spaces().team
        assert [tables["features"] for tables in team.entities] == expected
