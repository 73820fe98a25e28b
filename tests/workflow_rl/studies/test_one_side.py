import dataclasses
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from examples.small_games import Matrix
from tests.tiny_teams import ShiftEnv
from workflow_rl.agents.policies.numpy_policy import PolicyParameters
from workflow_rl.agents.policies.policy_file import save_policy
from workflow_rl.agents.policies.team_policy import TeamParameters
from workflow_rl.environments.action_mask import begun
from workflow_rl.environments.environment import weights_of
from workflow_rl.environments.joint_env import JointEnv
from workflow_rl.errors import ConfigError
from workflow_rl.studies.one_side import (
    OneSide,
    SomeAgents,
    text_of_weights,
)

SHIFT, KUHN = "tests.tiny_teams:ShiftEnv", "examples.small_games:Kuhn"


def policy_file(path: Path, env: Any, agents: list[str], action: int, masked: bool = False) -> str:
    """Write a team that always chooses this action, if it may."""
    layout = JointEnv(SomeAgents(env, agents)).layout
    layout = dataclasses.replace(layout, masked=masked)
    parameters = {}
    for agent, size, n in zip(agents, layout.obs_sizes, layout.n_actions, strict=True):
        bias = np.where(np.arange(n) == action, 50.0, 0.0).astype(np.float32)
        weights = np.zeros((size, n), np.float32)
        parameters[agent] = PolicyParameters((weights,), (bias,), "tanh", masked=masked)
    policies = {agent: (k,) for k, agent in enumerate(agents)}
    save_policy(path, TeamParameters(layout, policies, parameters), {"env": "x", "env_args": {}})
    return str(path)


def played(env: OneSide, seed: int, **options: Any) -> list[Any]:
    answers = [env.reset(seed, options or None)]
    while env.agents:
        infos = answers[-1][-1]
        free = [agent for agent in env.agents if not infos[agent].get("busy_steps")]
        answers.append(env.step(dict.fromkeys(free, 0)))
    return answers


def test_weights_are_read_as_they_are_written(tmp_path):
    shares = {"a=b/c.npz": 0.25001, "d": 0.7497, "e": 0.0002, "f": 0.0}
    assert text_of_weights(shares) == "a=b/c.npz=250,d=750"
    assert weights_of(text_of_weights(shares)) == {"a=b/c.npz": 250.0, "d": 750.0}
    assert weights_of("a,b=2") == {"a": 1.0, "b": 2.0}
    (folder := tmp_path / "a,b=2").mkdir()
    assert weights_of(str(folder)) == {str(folder): 1.0}
    with pytest.raises(ConfigError, match="a,b has a comma"):
        text_of_weights({"a,b": 1.0})
    for wrong in ("a=x", "a=0", "a=-1", "a=nan", "", "a,", "=2", "a, b", "a =2"):
        with pytest.raises(ConfigError, match="positive"):
            weights_of(wrong)
    with pytest.raises(ConfigError, match="'a' is named twice"):
        weights_of("a,a=3")


def test_an_episode_draws_its_opponents_by_its_seed_or_takes_those_it_is_told(tmp_path):
    rock, paper = (policy_file(tmp_path / f"{a}.npz", Matrix(), ["second"], a) for a in (0, 1))
    env = OneSide("examples.small_games:Matrix", "first", text_of_weights({rock: 3.0, paper: 1.0}))

    def reward(seed: int, **options: Any) -> float:
        return played(env, seed, **options)[-1][1]["first"]

    drawn = Counter(reward(seed) for seed in range(200))
    assert set(drawn) == {0.0, -1.0}  # Rock against rock, and against paper.
    assert 130 < drawn[0.0] < 170
    assert [reward(seed) for seed in range(20)] == [reward(seed) for seed in range(20)]
    assert {reward(seed, variant=paper) for seed in range(9)} == {-1.0}


def test_opponents_play_as_their_team_would_in_the_whole_environment(tmp_path):
    """The late agent is absent, busy and masked now and then, which ShiftEnv makes sure of."""
    late = policy_file(tmp_path / "late.npz", ShiftEnv(), ["late"], 3, masked=True)
    ours = played(OneSide(SHIFT, "early", late), 5)
    whole = ShiftEnv()
    theirs = whole.reset(5)
    assert all(np.array_equal(ours[0][0][a], theirs[0][a]) for a in ours[0][0])
    for obs, rewards, terminations, truncations, _ in ours[1:]:
        late_acts = "late" in whole.agents and not theirs[-1]["late"]["busy_steps"]
        theirs = whole.step({"early": 0} | ({"late": 0} if late_acts else {}))
        assert set(obs) <= {"early"}
        assert rewards["early"] == theirs[1]["early"]
        assert truncations["early"] == theirs[3]["early"]
        assert not terminations["early"]
    assert not whole.agents


def test_a_side_that_comes_late_and_leaves_early_plays_the_whole_episode():
    one = OneSide(SHIFT, "late")
    answers = played(one, 5)
    assert one.env._steps == one.env.length
    assert [set(obs) for obs, *_ in answers] == [{"late"}] * 5 + [set()]
    assert answers[-1][2] == {"late": True}
    joint = JointEnv(OneSide(SHIFT, "late"))
    joint.reset(seed=5)
    steps = [joint.step([0]) for _ in answers[1:]]
    assert [terminated for _, _, terminated, *_ in steps] == [False] * 4 + [True]


def test_rewards_of_steps_without_a_side_are_kept_and_agents_may_come_back(monkeypatch):
    """The late agent is away in the steps 4 and 5. It gets 200 in each step without it, and after
    its end, when nothing counts any more."""

    class Returning(ShiftEnv):
        def step(self, actions: dict[str, int]) -> Any:
            obs, rewards, *others = super().step(actions)
            return obs, {"late": np.uint8(200), **rewards}, *others

        def _obs(self) -> dict[str, Any]:
            obs = super()._obs()
            if self._steps in (4, 5):
                self.agents = ["early"]
                obs.pop("late")
            return obs

    monkeypatch.setattr("tests.tiny_teams.ShiftEnv", Returning)
    one = OneSide(SHIFT, "late")
    answers = played(one, 5)
    gained = [rewards["late"] for _, rewards, *_ in answers[1:]]
    assert [int(reward // 200) for reward in gained] == [0, 2, 0]
    ended = [terminations.get("late") for _, _, terminations, *_ in answers[1:]]
    assert ended == [False, None, True]


def test_agents_that_play_at_random_know_masks_and_turns():
    for side, env in (("early", SHIFT), ("first", KUHN), ("second", KUHN)):
        one = OneSide(env, side)
        assert [str(played(one, n)) for n in range(9)] == [str(played(one, n)) for n in range(9)]
        assert begun(one, seed=1)[0].keys() <= {side}


def test_what_does_not_fit_is_told(tmp_path):
    with pytest.raises(ConfigError, match="no ParallelEnv"):
        OneSide("CartPole-v1", "first")
    other = policy_file(tmp_path / "other.npz", Matrix(), ["second"], 0)
    for file, message in ((other, "other agents"), (str(tmp_path / "none"), "No such file")):
        with pytest.raises(ConfigError, match=message):
            OneSide(KUHN, "first", file).reset(0)
