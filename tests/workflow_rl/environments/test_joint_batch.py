"""Teams that step together: their rows are those of single environments, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from gymnasium import spaces

from tests.tiny_teams import ShiftEnv, Shifts, StatedShift
from workflow_rl import TrainConfig, train
from workflow_rl.agents.policies.numpy_policy import PolicyParameters
from workflow_rl.agents.policies.team_policy import TeamParameters
from workflow_rl.collection.player import play_episodes
from workflow_rl.commands.check_env import check_env
from workflow_rl.environments.env_batch import EpisodeError
from workflow_rl.environments.episode import EpisodeSpec, episode_spec
from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment
from workflow_rl.errors import ConfigError
from workflow_rl.runs.checkpoint import load_checkpoint
from workflow_rl.runs.run_record import weights_digest

SPEC = EpisodeSpec(7, "", 2**32 - 1, 3)
SINGLE = GymnasiumEnvironment("shift", {}, ShiftEnv)
BATCHED = GymnasiumEnvironment("shifts", {}, Shifts)


def played(environment: GymnasiumEnvironment, n_envs: int) -> list[Any]:
    layout = environment.spaces().team
    assert layout is not None
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


def test_rows_are_those_of_single_environments() -> None:
    assert BATCHED.spaces() == SINGLE.spaces()
    assert BATCHED.steps_together
    expected = played(SINGLE, 1)
    for n_envs in (1, 4):
        for ours, theirs in zip(played(BATCHED, n_envs), expected, strict=True):
            assert ours.obs.dtype == theirs.obs.dtype
            for name in ("obs", "action", "log_prob", "reward", "last_obs"):
                assert getattr(ours, name).tobytes() == getattr(theirs, name).tobytes()
            assert (ours.terminated, ours.truncated) == (False, True)


def test_weights_are_those_of_single_environments(tmp_path: Path) -> None:
    digests = set()
    for n, (make, mode) in enumerate([(ShiftEnv, "sync"), (Shifts, "sync"), (Shifts, "async")]):
        settings = {"hidden_sizes": (16,), "minibatch_size": 64, "epochs": 2}
        config = TrainConfig(
            mode, env="shift", n_envs=3, total_episodes=12, episodes_per_update=6, n_workers=1,
            settings=settings,
        )  # fmt: skip
        run = train(config, tmp_path / str(n), env=make)
        digests.add(
            weights_digest(load_checkpoint(run / "checkpoint.safetensors").agent["network"])
        )
    assert len(digests) == 1


class StatedShifts(Shifts):
    """StatedShift, many at once."""

    state_space = spaces.Box(0, 8, (1,), np.int64)

    def states(self, indices: Any) -> Any:
        return (self.length - self._steps[indices])[:, None]


def test_states_are_those_of_single_environments() -> None:
    single, batched = (
        GymnasiumEnvironment("stated", {}, make) for make in (StatedShift, StatedShifts)
    )
    assert batched.spaces() == single.spaces()
    layout = single.spaces().team
    assert layout is not None
    for ours, theirs in zip(played(batched, 3), played(single, 1), strict=True):
        assert ours.obs.tobytes() == theirs.obs.tobytes()
        assert layout.state(ours.obs).ravel().tolist() == [8, 7, 6, 5, 4, 3, 2, 1]
        assert layout.state(ours.last_obs[None]).tolist() == [[0]]


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


def test_bits_and_a_shared_reward_make_small_rows() -> None:
    environment = GymnasiumEnvironment("bits", {}, SharedBits)
    for ours, theirs in zip(played(environment, 2), played(SINGLE, 1), strict=True):
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
def test_an_answer_that_breaks_the_contract_ends_the_run(
    answer: dict[str, Any], words: list[str]
) -> None:
    class Wrong(Shifts):
        def step(self, indices: Any, actions: Any) -> Any:
            return super().step(indices, actions)._replace(**answer)

    envs = GymnasiumEnvironment("wrong", {}, Wrong).make_envs(1)
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
def test_spaces_that_the_contract_does_not_allow_are_refused(changes: Any, words: str) -> None:
    class Odd(Shifts):
        def __init__(self, n_envs: int) -> None:
            super().__init__(n_envs)
            vars(self).update(changes)

    with pytest.raises(ConfigError, match=words):
        GymnasiumEnvironment("odd", {}, Odd).spaces()


class Leaking(Shifts):
    """Whose rewards depend on the environments beside."""

    def step(self, indices: Any, actions: Any) -> Any:
        answer = super().step(indices, actions)
        return answer._replace(reward=answer.reward + self._shown.sum())


def test_check_env_plays_one_team_among_others() -> None:
    sound = CliRunner().invoke(check_env, ["tests.tiny_teams:Shifts", "--steps", "50"])
    assert sound.exit_code == 0, sound.output
    leaking = CliRunner().invoke(check_env, [f"{__name__}:Leaking", "--steps", "50"])
    assert leaking.exit_code == 1
    assert "seeds         fail" in leaking.output
