from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pettingzoo.classic.tictactoe.tictactoe import env as tic_tac_toe
from pettingzoo.utils import aec_to_parallel, parallel_to_aec

from tests.altered import altered
from tests.cli import said_by
from tests.tiny_teams import Doors, ShiftEnv, Shifts, tables_of
from tests.tiny_turns import Told, WrongTurn
from workflow_rl import TrainConfig, load_agent, train
from workflow_rl.agents.team import ABSENT, ACTS, BUSY, CUT_OFF, split
from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.environments.agent_player import Team
from workflow_rl.environments.episode import episode_spec
from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment
from workflow_rl.environments.joint_env import JointEnv
from workflow_rl.errors import ObservationError


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


GAME = "pettingzoo.classic.tictactoe_v3:env"


def joint_of(env: JointEnv, choice: int = 1) -> Trajectory:
    rows, rewards = [env.reset(seed=0)[0]], []
    ended = False
    while not ended:
        row, reward, terminated, truncated, _ = env.step([choice] * env.layout.n_agents)
        rows.append(row)
        rewards.append(reward)
        ended = terminated or truncated
    obs, paid = np.array(rows), np.array(rewards)
    chosen = np.full((len(paid), env.layout.n_agents), choice)
    ends = obs[-1], terminated, truncated
    return Trajectory(0, "", 0, obs[:-1], chosen, np.zeros(chosen.shape, np.float32), paid, *ends)


def learned(env: JointEnv, discount: float = 1.0) -> dict[str, Trajectory]:
    policies = {agent: (k,) for k, agent in enumerate(env.layout.agents)}
    return dict(split(joint_of(env), env.layout, policies, discount))


def test_rewards_that_come_while_others_act_follow_from_an_agents_last_decision():
    rewards = [{"a": 1.0, "c": 50.0}, {"a": 2.0}, {"a": 4.0, "b": 8.0}, {"b": 16.0}, {"c": 32.0}]
    of = learned(JointEnv(Told(rewards)), discount=0.5)
    # The turns are a, b, c, a, b. Nothing that c gets before its first turn follows from c.
    assert of["a"].reward.tolist() == [1 + 2 / 2 + 4 / 4, 0]
    assert of["b"].reward.tolist() == [8 / 2 + 16 / 4, 0]
    assert of["c"].reward.tolist() == [32 / 4]
    durations = {agent: trajectory.durations.tolist() for agent, trajectory in of.items()}  # type: ignore[union-attr]
    assert durations == {"a": [3, 2], "b": [3, 1], "c": [3]}
    assert all(trajectory.truncated for trajectory in of.values())


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(-3, 3)), min_size=6))
def test_agents_learn_from_what_pettingzoo_pays_them(rewards):
    env, paid = Told(rewards), {agent: [] for agent in "abc"}
    env.reset()
    for agent in env.agent_iter():
        _, reward, *ends, _ = env.last()
        paid[agent].append(reward)
        env.step(None if any(ends) else 1)
    of = learned(JointEnv(Told(rewards)))
    assert {agent: trajectory.reward.tolist() for agent, trajectory in of.items()} == {
        agent: given[1:] for agent, given in paid.items()
    }


def test_who_has_no_turn_is_busy_and_who_has_ended_is_gone():
    told = Told(dies={1: "a", 4: "b"})
    env = JointEnv(told)
    joint = joint_of(env)
    status = env.layout.status(np.vstack([joint.obs, joint.last_obs[None]]))
    assert status.tolist() == [
        [ACTS, BUSY, BUSY],
        [BUSY, ACTS, BUSY],
        [ABSENT, BUSY, ACTS],
        [ABSENT, ACTS, BUSY],
        [ABSENT, BUSY, ACTS],
        [ABSENT, ABSENT, ACTS],
        [ABSENT, ABSENT, CUT_OFF],
    ]
    assert [agent for agent, _ in told.played] == ["a", "b", "c", "b", "c", "c"]
    assert joint.truncated
    ended = learned(JointEnv(Told(is_cut_off=False)))
    assert all(trajectory.terminated for trajectory in ended.values())


def test_pettingzoos_own_conversion_is_used_where_agents_act_at_the_same_time():
    env = parallel_to_aec(Shifted())
    rows = []
    for one in (env, aec_to_parallel(parallel_to_aec(Shifted()))):
        joint = joint_of(JointEnv(one), 0)
        rows.append(np.vstack([joint.obs, joint.last_obs[None]]))
    assert np.array_equal(*rows)
    assert len(rows[0]) == 9


class Shifted(ShiftEnv):
    """Nobody is busy, comes late or leaves early."""

    metadata: dict[str, Any] = {"name": "shifted", "is_parallelizable": True}  # noqa: RUF012
    render_mode = None

    def _busy(self, agent: str) -> bool:
        return False

    def _obs(self) -> dict[str, Any]:
        obs = super()._obs()
        self.agents = [*self.possible_agents]
        return {**obs, "late": np.eye(3, dtype=np.float32)[self._shown["late"]]}


def test_a_turn_of_nobody_is_told():
    env = JointEnv(WrongTurn())
    env.reset(seed=0)
    env.step([0, 0, 0])
    with pytest.raises(ObservationError, match="turn of 'nobody', who has ended or is not in"):
        env.step([0, 0, 0])


def test_a_game_is_checked():
    said = said_by("check-env", GAME, "--steps 20 --seconds 1")
    assert "36 numbers observed by 2 agents, 9 x 9 actions" in said
    assert "its agents' action_mask rules actions out" in said
    assert "seeds         ok" in said


SMALL = {"hidden_sizes": (16,), "minibatch_size": 64, "epochs": 2}


@pytest.mark.system
def test_a_team_plays_a_game_by_its_rules(tmp_path):
    length = {"total_episodes": 24, "episodes_per_update": 12, "n_envs": 3}
    config = TrainConfig("async", env=GAME, n_workers=1, settings=SMALL, **length)
    team = load_agent(train(config, tmp_path / "run"), env=tic_tac_toe)
    assert isinstance(team, Team)
    env = tic_tac_toe()
    env.reset(seed=0)
    for agent in env.agent_iter():
        obs, _, *ends, _ = env.last()
        env.step(None if any(ends) else team.act({agent: obs})[agent])  # Illegal moves raise.
    assert not env.agents
