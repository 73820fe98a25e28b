"""Any Gymnasium environment as what a run needs: spaces, ids, and what is refused."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from tests.any_envs import PuzzleEnv, TargetEnv
from tests.lying_envs import Liar
from workflow_rl.agents.policies.distributions import Categorical, Distribution
from workflow_rl.agents.policies.further_distributions import DiagonalGaussian, MultiCategorical
from workflow_rl.agents.policies.numpy_policy import NumpyPolicy, PolicyParameters
from workflow_rl.cage2.scenario2 import ENV_ID
from workflow_rl.collection.env_positions import first_positions
from workflow_rl.collection.player import play_episode, player_at
from workflow_rl.environments.environment import described
from workflow_rl.environments.episode import episode_spec
from workflow_rl.environments.flat_env import FlatEnv
from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment
from workflow_rl.environments.source import make_environment
from workflow_rl.errors import ConfigError


@pytest.mark.parametrize(
    ("env_id", "args", "made", "obs_dim", "distribution"),
    [
        ("CartPole-v1", {}, "CartPoleEnv", 4, Categorical(2)),
        ("Pendulum-v1", {"g": 5.0}, "PendulumEnv", 3, DiagonalGaussian(1, (0.0,), (2.0,))),
        ("FrozenLake-v1", {"map_name": "8x8"}, "FrozenLakeEnv", 64, Categorical(4)),
        ("tests.any_envs:tests/Target-v0", {"length": 3}, "TargetEnv", 2, DiagonalGaussian(2)),
        ("tests.any_envs:PuzzleEnv", {}, "PuzzleEnv", 15, MultiCategorical([3, 2])),
        ("tests.any_envs:sized_target", {"length": 3}, "TargetEnv", 2, DiagonalGaussian(2)),
    ],
)
def test_an_environment_by_its_id(
    env_id: str, args: dict[str, Any], made: str, obs_dim: int, distribution: Distribution
) -> None:
    environment = make_environment(env_id, args)
    assert isinstance(environment, GymnasiumEnvironment)
    assert environment.spaces()[:2] == (obs_dim, distribution)
    env = environment.make_env()
    assert type(env.unwrapped).__name__ == made
    env.close()


def test_the_bounds_of_its_actions() -> None:
    assert GymnasiumEnvironment("Pendulum-v1").spaces().bounds == ((-2.0,), (2.0,))
    assert GymnasiumEnvironment("CartPole-v1").spaces().bounds is None


@pytest.mark.parametrize(
    ("space", "bits"),
    [
        (spaces.MultiBinary(2000), True),
        (spaces.Discrete(5), True),
        (spaces.Box(0, 1, (3,), np.int64), True),
        (spaces.Dict({"a": spaces.Discrete(2), "b": spaces.MultiBinary(3)}), True),
        (spaces.Box(0, 255, (3,), np.uint8), False),
        (spaces.Box(-1, 1, (3,), np.int8), False),
        (spaces.Box(0, 1, (3,), np.float32), False),
        (spaces.Tuple([spaces.Discrete(2), spaces.Box(0, 1, (1,))]), False),
    ],
)
def test_whether_its_observations_are_bits(space: spaces.Space[Any], bits: bool) -> None:
    def env() -> Any:
        env = TargetEnv()
        env.observation_space = space  # type: ignore[assignment]
        return env

    assert GymnasiumEnvironment("an env", {}, env).spaces().bits is bits


def test_its_arguments_reach_it() -> None:
    for env_id in ("tests.any_envs:tests/Target-v0", "tests.any_envs:sized_target"):
        env: Any = make_environment(env_id, {"length": 3}).make_env()  # type: ignore[attr-defined]
        assert env.unwrapped._length == 3
    pendulum: Any = GymnasiumEnvironment("Pendulum-v1", {"g": 5.0}).make_env()
    assert pendulum.unwrapped.g == 5.0


def test_a_function_in_a_module_where_the_command_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "module_beside_me.py").write_text(
        "from tests.any_envs import TargetEnv\nmake_mine = TargetEnv\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    environment = GymnasiumEnvironment("module_beside_me:make_mine", {"length": 2})
    assert environment.spaces().obs_dim == 2


def test_a_function_itself_of_which_the_id_is_only_a_name() -> None:
    environment = GymnasiumEnvironment("anything at all", {"longest": 4}, PuzzleEnv)
    assert environment.spaces()[:4] == (10, MultiCategorical([3, 2]), None, False)


@pytest.mark.parametrize(
    ("env_id", "args", "parts"),
    [
        ("NoSuchEnv-v0", {}, ["NoSuchEnv-v0 cannot be made", "NameNotFound", "doesn't exist"]),
        ("tests/any_envs.py", {}, ["NotFound", ": any_envs:MyEnv"]),
        ("./tests/any_envs.py", {}, ["Malformed", ": any_envs:MyEnv"]),
        ("./mine.py:Mine", {}, ["./mine.py:Mine names a file: give mine:Mine, in the folder of"]),
        ("tests.any_envs:BrokenEnw", {}, ["NameNotFound", "mean tests.any_envs:BrokenEnv?"]),
        ("CartPole-v77", {}, ["CartPole-v77 cannot be made", "VersionNotFound"]),
        ("no_such_module:make", {}, ["ModuleNotFoundError", "no_such_module"]),
        ("tests.any_envs:no_such_name", {}, ["no_such_name"]),
        ("tests.any_envs:BrokenEnv", {}, ["BrokenEnv cannot be made", "OSError", "licence"]),
        ("tests.any_envs:tests/Broken-v0", {}, ["cannot be made", "OSError", "licence"]),
        ("CartPole-v1", {"wheels": 3}, ["CartPole-v1 cannot be made", "TypeError", "wheels"]),
        ("tests.any_envs:no_env", {}, ["no_env made a str", "gymnasium.Env"]),
        ("tests.any_envs:TextEnv", {}, ["observation space", "Text", "is not supported"]),
        ("tests.any_envs:NamedActionEnv", {}, ["action space Text", "is not supported"]),
        ("", {}, ["cannot be made"]),
        (".", {}, ["cannot be made"]),
        ("a" * 5000, {}, ["cannot be made"]),
    ],
)
@pytest.mark.parametrize("ask", [GymnasiumEnvironment.spaces, GymnasiumEnvironment.check])
def test_one_line_for_an_environment_that_cannot_be_used(
    ask: Callable[[GymnasiumEnvironment], Any], env_id: str, args: dict[str, Any], parts: list[str]
) -> None:
    with pytest.raises(ConfigError) as refused:
        ask(GymnasiumEnvironment(env_id, args))
    message = str(refused.value)
    assert refused.value.field_name == "env"
    assert "\n" not in message
    for part in parts:
        assert part in message


def test_an_environment_that_can_be_made_but_not_reset() -> None:
    environment = GymnasiumEnvironment("tests.any_envs:FailingResetEnv")
    assert environment.spaces().obs_dim == 2
    with pytest.raises(ConfigError, match="cannot be played: OSError: the map"):
        environment.check()


class _Seedless(PuzzleEnv):
    def reset(self) -> Any:  # type: ignore[override]
        return super().reset()


class _Alone(PuzzleEnv):
    def reset(self, **options: Any) -> Any:
        return super().reset(**options)[0]


class _FourValues(PuzzleEnv):
    def step(self, action: Any) -> Any:
        return super().step(action)[:4]


class _Nothing(PuzzleEnv):
    def step(self, action: Any) -> Any:
        return None


@pytest.mark.parametrize(
    ("env", "problem"),
    [
        (_Seedless, "unexpected keyword argument 'seed'"),
        (_Alone, "reset gave an object of type \\w+, not an observation and an info"),
        (_FourValues, "step 1 gave 4 values, not an observation, a reward"),
        (_Nothing, "step 1 gave an object of type NoneType, not"),
    ],
)
def test_an_answer_of_another_form_is_named(env: type[PuzzleEnv], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        GymnasiumEnvironment("mine", factory=env).check()


@pytest.mark.parametrize(
    ("env_id", "label"),
    [
        ("CartPole-v1", "CartPole-v1"),
        ("tests.any_envs:tests/Target-v0", "tests.any_envs-tests-Target-v0"),
        ("a module:f.<locals>.<lambda>", "a-module-f.-locals-.-lambda-"),
    ],
)
def test_the_label_is_a_file_name(env_id: str, label: str) -> None:
    assert GymnasiumEnvironment(env_id).label == label


def test_a_guest_is_found_by_its_id_and_described_with_its_arguments() -> None:
    guest = make_environment(ENV_ID, {"max_steps": 7})
    assert not isinstance(guest, GymnasiumEnvironment)
    assert guest.args["max_steps"] == 7
    pendulum = GymnasiumEnvironment("Pendulum-v1", {"g": 5.0, "mass": 2})
    assert described(pendulum) == "Pendulum-v1 (g=5.0, mass=2)"
    assert described(pendulum, without=["g", "mass"]) == "Pendulum-v1"


def test_a_pickled_environment_is_the_same_even_after_it_was_asked_for_its_spaces() -> None:
    environment = GymnasiumEnvironment("tests.any_envs:TargetEnv", {"length": 3})
    before = environment.spaces()
    again = pickle.loads(pickle.dumps(environment))
    assert again == environment
    assert again.spaces() == before


def test_envs_step_with_sampled_actions_and_give_vectors() -> None:
    envs = GymnasiumEnvironment("tests.any_envs:PuzzleEnv", {"shortest": 5}).make_envs(2)
    first = envs.reset([0, 1], [episode_spec(0, number) for number in range(2)])
    assert first.shape == (2, 15)
    assert first.dtype == np.float32
    answer = envs.step([0, 1], np.array([[2, 1], [0, 0]]))
    assert answer.obs.shape == (2, 15)
    assert answer.reward.dtype == np.float64
    assert answer.terminated.dtype == answer.truncated.dtype == bool
    envs.close()


@pytest.mark.parametrize("env_id", ["CartPole-v1", "tests.any_envs:PuzzleEnv", "Pendulum-v1"])
def test_unrolls_are_the_pieces_of_whole_episodes(env_id: str) -> None:
    """As long as nothing is learned in between: its random numbers go on too."""
    environment = GymnasiumEnvironment(env_id)
    obs_dim, distribution, *_ = environment.spaces()
    parameters = PolicyParameters(
        (np.zeros((obs_dim, distribution.n_outputs), np.float32),),
        (np.zeros(distribution.n_outputs, np.float32),),
        "tanh",
        log_std=np.zeros(distribution.n_outputs, np.float32) if distribution.has_log_std else None,
        distribution=distribution,
    )
    slots = first_positions(0, (), n_envs=2)
    player = player_at(environment.make_envs(2), slots)
    unrolls = [player.unroll(NumpyPolicy(parameters), 5) for _ in range(8)]
    for episode in (0, 1):
        pieces = [t for unroll in unrolls for t in unroll if t.episode == episode]
        whole = play_episode(environment.make_envs(1), NumpyPolicy(parameters), slots[episode].spec)
        n_steps = sum(piece.length for piece in pieces)
        assert pieces[-1].ended == (n_steps == whole.length)
        for name in ("obs", "action", "log_prob", "reward"):
            together = np.concatenate([getattr(piece, name) for piece in pieces])
            assert together.tobytes() == getattr(whole, name)[:n_steps].tobytes()


def test_a_time_limit_of_gymnasiums_truncates() -> None:
    env = FlatEnv(GymnasiumEnvironment("Pendulum-v1", {"max_episode_steps": 3}).make_env())
    env.reset(seed=0)
    ends = [env.step(np.zeros(1, np.float32))[2:4] for _ in range(3)]
    assert ends == [(False, False), (False, False), (False, True)]


@pytest.mark.parametrize(
    ("declared", "shown"),
    [
        (spaces.Box(0, 255, (1,), np.uint8), np.array([0.7])),
        (spaces.Box(0, 100, (1,), np.int64), np.array([300])),
        (spaces.Box(-1, 1, (4,)), np.zeros(5, np.float32)),
        (spaces.Box(-np.inf, np.inf, (1,)), np.array([1e300])),
        (spaces.Discrete(3), -1),
    ],
)
def test_observations_that_the_space_does_not_hold_are_refused(declared: Any, shown: Any) -> None:
    environment = GymnasiumEnvironment("liar", {}, lambda: Liar(declared, shown))
    with pytest.raises(ConfigError, match="wrong answer"):
        environment.check()


def test_observations_of_every_step_that_is_tried_have_to_be_of_the_space() -> None:
    environment = GymnasiumEnvironment("tests.lying_envs:LaterLyingEnv")
    with pytest.raises(ConfigError, match=r"wrong answer.* of step 3 holds 300"):
        environment.check()


def test_an_id_that_only_the_callers_script_registered_reaches_the_workers() -> None:
    gymnasium.register("OnlyHere-v0", lambda: gymnasium.make("CartPole-v1").unwrapped)
    try:
        sent = cloudpickle.dumps(GymnasiumEnvironment("OnlyHere-v0"))
    finally:
        del gymnasium.registry["OnlyHere-v0"]
    try:
        assert cloudpickle.loads(sent).spaces().obs_dim == 4
    finally:
        gymnasium.registry.pop("OnlyHere-v0", None)


@pytest.mark.parametrize("things", [["a wall"], {"player": 3}, []])
def test_entities_of_another_kind_are_no_declaration(things: Any) -> None:
    class World(PuzzleEnv):
        def __init__(self) -> None:
            super().__init__()
            self.entities = things

    assert GymnasiumEnvironment("world", {}, World).spaces().entities is None
