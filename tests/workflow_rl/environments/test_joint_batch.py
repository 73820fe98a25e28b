"""Teams that step together: their rows are those of single environments, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from gymnasium import spaces

from tests.altered import altered
from tests.tiny_teams import ShiftEnv, Shifts, StatedShift
from tests.workflow_rl.conftest import assert_same_trajectories
from workflow_rl.agents.policies.numpy_policy import PolicyParameters
from workflow_rl.agents.policies.team_policy import TeamParameters
from workflow_rl.collection.player import play_episodes
from workflow_rl.commands.check_env import check_env
from workflow_rl.environments.env_batch import EpisodeError
from workflow_rl.environments.episode import EpisodeSpec, episode_spec
from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment
from workflow_rl.errors import ConfigError

SPEC = EpisodeSpec(7, "", 2**32 - 1, 3)


def played(environment: GymnasiumEnvironment, n_envs: int) -> list[Any]:
    layout = environment.spaces().team
    members = {
        name: PolicyParameters(
            (np.linspace(-1, 1, d * a, dtype=np.float32).reshape(d, a),),
            (np.zeros(a, np.float32),),
            "tanh",
            masked=True,
        )
        for name, d, a in zip(layout.agents, layout.obs_sizes, layout.n_actions, strict=True)
    }
    policies = {name: (k,) for k, name in enumerate(layout.agents)}
    actor = TeamParameters(layout, policies, members).actor()
    envs = environment.make_envs(n_envs)
    specs = [episode_spec(1, i) for i in range(5)]
    episodes = (one for block in play_episodes(envs, actor, specs) for one in block)
    return sorted(episodes, key=lambda one: one.episode)


class StatedShifts(Shifts):
    """StatedShift, many at once."""

    state_space = spaces.Box(0, 8, (1,), np.int64)

    def states(self, indices: Any) -> Any:
        return (self.length - self._steps[indices])[:, None]


@pytest.mark.parametrize(
    ("single", "batched"),
    [(ShiftEnv, Shifts), (StatedShift, StatedShifts)],
    ids=["plain", "stated"],
)
def test_rows_are_those_of_single_environments(single, batched):
    alone, together = (GymnasiumEnvironment("team", {}, make) for make in (single, batched))
    assert together.spaces() == alone.spaces()
    assert together.steps_together
    expected = played(alone, 1)
    for n_envs in (1, 4):
        assert_same_trajectories(played(together, n_envs), expected)
    assert all(one.truncated for one in expected)
    layout = alone.spaces().team
    if single is StatedShift:
        for one in expected:
            assert layout.state(one.obs).ravel().tolist() == [8, 7, 6, 5, 4, 3, 2, 1]
            assert layout.state(one.last_obs[None]).tolist() == [[0]]


class SharedBits(Shifts):
    """Shows bits, and pays the sum of the rewards to both."""

    shared_reward = True

    def __init__(self, n_envs: int) -> None:
        super().__init__(n_envs)
        self.observation_spaces = {
            name: spaces.Box(0, 1, space.shape, np.int8)
            for name, space in self.observation_spaces.items()
        }

    def step(self, indices: Any, actions: Any) -> Any:
        answer = super().step(indices, actions)
        return answer._replace(reward=answer.reward.sum(axis=1))


def test_bits_and_a_shared_reward_make_small_rows():
    bits, plain = (GymnasiumEnvironment("team", {}, make) for make in (SharedBits, Shifts))
    for ours, theirs in zip(played(bits, 2), played(plain, 2), strict=True):
        assert ours.obs.dtype == np.uint8
        assert ours.obs[:, :7].tolist() == theirs.obs[:, :7].tolist()
        assert ours.obs[:, 7:].tolist() == theirs.obs[:, 9:].tolist()
        assert ours.reward.tolist() == theirs.reward.tolist()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"obs": np.zeros((1, 4), np.float32)}, ["observations", "(1, 4)", "(1, 5)"]),
        ({"status": np.full((1, 2), 0.5)}, ["status holds", "0.5"]),
        ({"status": np.full((1, 2), 4)}, ["status holds", "4"]),
        ({"status": np.full((1, 3), 1)}, ["status", "(1, 3)", "(1, 2)"]),
        ({"reward": np.zeros(1)}, ["reward", "(1,)", "(1, 2)"]),
        ({"truncated": np.zeros(1)}, ["truncated", "float64", "bool"]),
    ],
)
def test_an_answer_that_breaks_the_contract_ends_the_run(answer, words):
    wrong = altered(Shifts, lambda envs, right: right._replace(**answer))
    envs = GymnasiumEnvironment("wrong", {}, wrong).make_envs(1)
    envs.reset([0], [SPEC])
    with pytest.raises(EpisodeError) as error:
        envs.step([0], np.zeros((1, 2), np.int64))
    assert all(word in str(error.value.__cause__) for word in words)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"action_spaces": {"early": spaces.Discrete(2)}}, r"\['early', 'late'\] by observations"),
        (
            {"observation_spaces": {n: spaces.Box(0, 1, (1, 2)) for n in ("early", "late")}},
            r"\(D,\) of one dtype",
        ),
        (
            {"action_spaces": {n: spaces.Discrete(2, start=1) for n in ("early", "late")}},
            "begin with 0",
        ),
        ({"action_spaces": {n: spaces.Box(0, 1) for n in ("early", "late")}}, "Discrete is"),
    ],
)
def test_spaces_that_the_contract_does_not_allow_are_refused(changes, words):
    class Odd(Shifts):
        def __init__(self, n_envs: int) -> None:
            super().__init__(n_envs)
            vars(self).update(changes)

    with pytest.raises(ConfigError, match=words):
        GymnasiumEnvironment("odd", {}, Odd).spaces()


Leaking = altered(
    Shifts, lambda envs, answer: answer._replace(reward=answer.reward + envs._shown.sum())
)
"""Its rewards depend on the environments beside."""


def test_check_env_plays_one_team_among_others():
    sound = CliRunner().invoke(check_env, ["tests.tiny_teams:Shifts", "--steps", "50"])
    assert sound.exit_code == 0, sound.output
    leaking = CliRunner().invoke(check_env, [f"{__name__}:Leaking", "--steps", "50"])
    assert leaking.exit_code == 1
    assert "seeds         fail" in leaking.output
