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
from hypothesis import given
from hypothesis import strategies as st

from agents.policies.distributions import (
    Categorical,
    DiagonalGaussian,
    Distribution,
    MultiCategorical,
)
from agents.policies.numpy_policy import NumpyPolicy, PolicyParameters
from tests.any_envs import PuzzleEnv, TargetEnv
from workflow_rl.cage2.registration import ENV_ID
from workflow_rl.collection.env_positions import first_positions, player_at
from workflow_rl.collection.player import play_episode
from workflow_rl.environments.env_batch import ObservationError
from workflow_rl.environments.environment import (
    InvalidEnvironmentError,
    described,
    make_environment,
)
from workflow_rl.environments.episode import episode_spec
from workflow_rl.environments.flat_env import (
    FlatEnv,
    distribution_over,
    flat_space,
    flattener,
    unflattener,
)
from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment

OBSERVATIONS: list[tuple[spaces.Space[Any], Any, list[float], Any]] = [
    (spaces.Box(-1, 1, (2, 2), np.float32), [[0.5, 0], [1, -1]], [0.5, 0, 1, -1], np.float32),
    (spaces.Box(-1, 1, (2,), np.float64), [0.1, 0], [0.1, 0], np.float32),
    (spaces.Box(0, 1, (), np.float32), 0.25, [0.25], np.float32),
    (spaces.Box(0, 255, (1, 2), np.uint8), [[7, 255]], [7, 255], np.uint8),
    (spaces.Box(0, 9, (2,), np.int64), [3, 9], [3, 9], np.uint8),
    (spaces.Box(-1, 9, (2,), np.int64), [-1, 9], [-1, 9], np.int64),
    (spaces.Box(0, 256, (2,), np.int32), [0, 256], [0, 256], np.int32),
    (spaces.Discrete(4), 2, [0, 0, 1, 0], np.uint8),
    (spaces.Discrete(3, start=-1), 1, [0, 0, 1], np.uint8),
    (spaces.MultiBinary([2, 2]), [[1, 0], [0, 1]], [1, 0, 0, 1], np.uint8),
    (spaces.MultiDiscrete([2, 3]), [1, 0], [0, 1, 1, 0, 0], np.uint8),
    (spaces.MultiDiscrete([2, 3], start=[5, 1]), [5, 3], [1, 0, 0, 0, 1], np.uint8),
    (
        spaces.Dict({"b": spaces.Discrete(2), "a": spaces.Box(-2, 2, (2,), np.float64)}),
        {"b": 1, "a": [1.5, -2]},
        [1.5, -2, 0, 1],
        np.float32,
    ),
    (
        spaces.Tuple([spaces.MultiBinary(2), spaces.Tuple([spaces.Discrete(2)])]),
        ([0, 1], (0,)),
        [0, 1, 1, 0],
        np.uint8,
    ),
]


def element(space: spaces.Space[Any], plain: Any) -> Any:
    """A space's element of plain numbers."""
    if isinstance(space, spaces.Dict):
        return {name: element(part, plain[name]) for name, part in space.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(element(part, one) for part, one in zip(space, plain, strict=True))
    return plain if isinstance(space, spaces.Discrete) else np.array(plain, space.dtype)


@pytest.mark.parametrize(("space", "plain", "flat", "dtype"), OBSERVATIONS, ids=str)
def test_observations_are_vectors_of_float32_or_uint8_where_that_holds_them(
    space: spaces.Space[Any], plain: Any, flat: list[float], dtype: Any
) -> None:
    obs = element(space, plain)
    assert space.contains(obs), "or else this tests nothing"
    flattened = flattener(space)(obs)
    assert flattened.dtype == flat_space(space).dtype == dtype
    np.testing.assert_array_equal(flattened, np.array(flat, dtype))
    assert flat_space(space).shape == (len(flat),)


@pytest.mark.parametrize("space", [space for space, *_ in OBSERVATIONS], ids=str)
def test_every_observation_is_in_the_flat_space(space: spaces.Space[Any]) -> None:
    space.seed(0)
    flat, flatten = flat_space(space), flattener(space)
    samples = [flatten(space.sample()) for _ in range(50)]
    assert all(flat.contains(sample) for sample in samples)
    assert len({sample.tobytes() for sample in samples}) > 1


def test_unbounded_observations() -> None:
    flat = flat_space(spaces.Box(-np.inf, np.inf, (2,), np.float64))
    assert flat.low.tolist() == [-np.inf] * 2
    assert flat.high.tolist() == [np.inf] * 2


@pytest.mark.parametrize(
    ("space", "distribution", "sampled", "action"),
    [
        (spaces.Discrete(4), Categorical(4), 3, 3),
        (spaces.Discrete(3, start=-1), Categorical(3), 0, -1),
        (spaces.MultiDiscrete([3, 2]), MultiCategorical([3, 2]), [2, 0], [2, 0]),
        (spaces.MultiDiscrete([3, 2], start=[1, 5]), MultiCategorical([3, 2]), [2, 0], [3, 5]),
        (
            spaces.MultiDiscrete([[3, 2], [4, 5]]),
            MultiCategorical([3, 2, 4, 5]),
            [2, 1, 3, 4],
            [[2, 1], [3, 4]],
        ),
        (spaces.Box(-1, 1, (2,)), DiagonalGaussian(2), [0.5, -0.5], [0.5, -0.5]),
        (spaces.Box(-1, 1, (2,)), DiagonalGaussian(2), [-3, 1.5], [-1, 1]),
        (
            spaces.Box(np.array([0, -2.0]), np.array([1, np.inf]), dtype=np.float64),
            DiagonalGaussian(2),
            [-1, 1e9],
            [0, 1e9],
        ),
        (spaces.Box(-1, 1, (2, 1)), DiagonalGaussian(2), [0.5, 2], [[0.5], [1]]),
        (spaces.Box(-1, 1, ()), DiagonalGaussian(1), [0.5], 0.5),
    ],
    ids=lambda one: type(one).__name__ if hasattr(one, "n_outputs") else str(one),
)
def test_actions_are_shaped_shifted_and_clipped(
    space: spaces.Space[Any], distribution: Distribution, sampled: Any, action: Any
) -> None:
    assert distribution_over(space) == distribution
    is_float = distribution.has_log_std
    given_action = np.array(sampled, np.float32 if is_float else np.int64)
    made = unflattener(space)(given_action)
    assert space.contains(made)
    np.testing.assert_array_equal(made, action)
    assert isinstance(made, int) == isinstance(space, spaces.Discrete)


@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=3, max_size=3))
def test_whatever_a_gaussian_samples_the_action_is_in_its_space(sampled: list[float]) -> None:
    for dtype in (np.float32, np.float64):
        low, high = np.array([-0.1, 0.3, -1e3]), np.array([0.7, 0.9, 1e3])
        space = spaces.Box(low.astype(dtype), high.astype(dtype), dtype=dtype)
        assert space.contains(unflattener(space)(np.array(sampled, np.float32)))


@pytest.mark.parametrize(
    "space",
    [
        spaces.Text(5),
        spaces.Sequence(spaces.Discrete(2)),
        spaces.Graph(spaces.Discrete(2), None),
        spaces.OneOf([spaces.Discrete(2), spaces.Discrete(3)]),
    ],
    ids=lambda space: type(space).__name__,
)
def test_observation_spaces_that_are_not_supported(space: spaces.Space[Any]) -> None:
    inside = spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Tuple([space])})
    for whole in (space, inside):
        for make in (flat_space, flattener):
            with pytest.raises(InvalidEnvironmentError) as refused:
                make(whole)
            message = str(refused.value)
            assert f"its observation space {space}" in message
            assert (f"within {whole}" in message) == (whole is inside)
            assert "is not supported" in message
            assert "\n" not in message
            assert refused.value.argument == "env"


@pytest.mark.parametrize(
    "space",
    [
        spaces.MultiBinary(3),
        spaces.Box(0, 5, (2,), np.int64),
        spaces.Dict({"a": spaces.Discrete(2)}),
        spaces.Tuple([spaces.Discrete(2)]),
        spaces.Text(5),
    ],
    ids=lambda space: type(space).__name__,
)
def test_action_spaces_that_are_not_supported(space: spaces.Space[Any]) -> None:
    with pytest.raises(InvalidEnvironmentError) as refused:
        distribution_over(space)
    assert str(refused.value).startswith(f"its action space {space} is not supported")
    assert "\n" not in str(refused.value)
    assert refused.value.argument == "env"


@pytest.mark.parametrize(
    ("env_id", "args", "made", "obs_dim", "distribution"),
    [
        ("CartPole-v1", {}, "CartPoleEnv", 4, Categorical(2)),
        ("Pendulum-v1", {"g": 5.0}, "PendulumEnv", 3, DiagonalGaussian(1)),
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
    assert environment.spaces() == (10, MultiCategorical([3, 2]), None, False)


@pytest.mark.parametrize(
    ("env_id", "args", "parts"),
    [
        ("NoSuchEnv-v0", {}, ["NoSuchEnv-v0 cannot be made", "NameNotFound", "doesn't exist"]),
        ("tests/any_envs.py", {}, ["NotFound", ": any_envs:MyEnv"]),
        ("tests.any_envs:BrokenEnw", {}, ["NameNotFound", "mean tests.any_envs:BrokenEnv?"]),
        ("CartPole-v77", {}, ["CartPole-v77 cannot be made", "VersionNotFound"]),
        ("no_such_module:make", {}, ["ModuleNotFoundError", "no_such_module"]),
        ("tests.any_envs:no_such_name", {}, ["no_such_name"]),
        ("tests.any_envs:BrokenEnv", {}, ["BrokenEnv cannot be made", "OSError", "licence"]),
        ("tests.any_envs:tests/Broken-v0", {}, ["cannot be made", "OSError", "licence"]),
        ("CartPole-v1", {"wheels": 3}, ["CartPole-v1 cannot be made", "TypeError", "wheels"]),
        ("tests.any_envs:no_env", {}, ["no_env made a str", "gymnasium.Env"]),
        ("tests.any_envs:TextEnv", {}, ["observation space", "Text", "is not supported"]),
        ("tests.any_envs:BinaryActionEnv", {}, ["action space MultiBinary(4) is not supported"]),
        ("", {}, ["cannot be made"]),
        (".", {}, ["cannot be made"]),
        ("a" * 5000, {}, ["cannot be made"]),
    ],
)
@pytest.mark.parametrize("ask", [GymnasiumEnvironment.spaces, GymnasiumEnvironment.check])
def test_one_line_for_an_environment_that_cannot_be_used(
    ask: Callable[[GymnasiumEnvironment], Any], env_id: str, args: dict[str, Any], parts: list[str]
) -> None:
    with pytest.raises(InvalidEnvironmentError) as refused:
        ask(GymnasiumEnvironment(env_id, args))
    message = str(refused.value)
    assert refused.value.argument == "env"
    assert "\n" not in message
    for part in parts:
        assert part in message


def test_an_environment_that_can_be_made_but_not_reset() -> None:
    environment = GymnasiumEnvironment("tests.any_envs:FailingResetEnv")
    assert environment.spaces().obs_dim == 2
    with pytest.raises(InvalidEnvironmentError, match="cannot be played: OSError: the map"):
        environment.check()


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
    env = GymnasiumEnvironment("Pendulum-v1", {"max_episode_steps": 3}).make_flat_env()
    env.reset(seed=0)
    ends = [env.step(np.zeros(1, np.float32))[2:4] for _ in range(3)]
    assert ends == [(False, False), (False, False), (False, True)]


def test_a_flat_env_is_an_env_of_flat_observations() -> None:
    env = FlatEnv(PuzzleEnv())
    obs, _ = env.reset(seed=1)
    assert env.observation_space.contains(obs)
    assert isinstance(env, gymnasium.Env)
    with pytest.raises(InvalidEnvironmentError, match="Text"):
        FlatEnv(_with_text())


def _with_text() -> TargetEnv:
    env = TargetEnv()
    env.observation_space = spaces.Text(3)  # type: ignore[assignment]
    return env


class Liar(gymnasium.Env[Any, Any]):
    """Declares one space and shows something else."""

    def __init__(self, declared: spaces.Space[Any], shown: Any) -> None:
        self.observation_space, self._shown = declared, shown
        self.action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self._shown, {}

    def step(self, action: Any) -> Any:
        return self._shown, 0.0, False, False, {}


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
    with pytest.raises(InvalidEnvironmentError, match="wrong answer"):
        environment.check()


def test_observations_of_every_step_that_is_tried_have_to_be_of_the_space() -> None:
    environment = GymnasiumEnvironment("tests.any_envs:LaterLyingEnv")
    with pytest.raises(InvalidEnvironmentError, match=r"wrong answer.* of step 3 holds 300"):
        environment.check()


PAIR = spaces.Dict({"a": spaces.Box(0, 1, (2,)), "b": spaces.Box(0, 1, (3,))})


@pytest.mark.parametrize(
    ("space", "shown", "how"),
    [
        (spaces.Box(0, 100, (1,), np.int64), np.array([300]), "holds 300, which is no uint8"),
        (spaces.Box(0, 100, (1,), np.int64), [300], "300"),
        (spaces.Box(0, 100, (2,), np.int64), np.array([7, -1]), "holds -1, which is no uint8"),
        (spaces.Box(-9, 9, (1,), np.int8), np.array([200]), "holds 200, which is no int8"),
        (spaces.Box(0, 300, (1,), np.int32), np.array([2**40]), f"holds {2**40}, which is no"),
        (spaces.Box(-1, 300, (1,), np.int64), np.array([2**63], np.uint64), f"holds {2**63}, "),
        (spaces.Box(0, 255, (1,), np.uint8), np.array([0.7]), "holds 0.7, which is no uint8"),
        (spaces.Box(0, 255, (1,), np.uint8), np.array([256.0]), "holds 256.0, which is no uint8"),
        (spaces.Box(0, 255, (1,), np.uint8), np.array([np.nan]), "holds nan, which is no uint8"),
        (spaces.Box(0, 1, (2,)), np.zeros(3), "has shape (3,), not (2,)"),
        (spaces.Box(0, 1, (2,)), np.array(["1", "2"]), "is of <U1, not float32"),
        (
            spaces.Tuple((spaces.Box(0, 1, (1,)), spaces.Box(0, 9, (1,), np.int8))),
            ([0.5], [0.5]),
            "holds 0.5, which is no int8",
        ),
        (spaces.Discrete(3), -1, "holds -1, which is not in Discrete(3)"),
        (spaces.Discrete(3), np.int64(3), "holds 3, which is not in Discrete(3)"),
        (spaces.Discrete(3, start=-1), 2, "holds 2, which is not in Discrete(3, start=-1)"),
        (spaces.Discrete(3), 1.5, "holds 1.5, which is not in Discrete(3)"),
        (spaces.Discrete(3), np.nan, "holds nan, which is not in Discrete(3)"),
        (spaces.Discrete(3), [0, 1], "cannot be used"),
        (spaces.MultiBinary(2), np.array([-1, 0], np.int8), "holds -1, which is no uint8"),
        (spaces.MultiBinary(2), np.array([0, 1, 0], np.int8), "has shape (3,), not (2,)"),
        (spaces.MultiDiscrete([2, 3]), np.array([2, 0]), "holds 2, which is not in MultiDis"),
        (spaces.MultiDiscrete([2, 3]), np.array([0, -1]), "holds -1, which is not in MultiDis"),
        (spaces.MultiDiscrete([2, 3]), np.array([0.5, 1]), "holds 0.5, which is no int64"),
        (spaces.Tuple([spaces.Discrete(2), spaces.Discrete(3)]), (0, 3), "holds 3"),
        (spaces.Tuple([spaces.Discrete(2), spaces.Discrete(3)]), (0, 1, 2), "cannot be used"),
        (spaces.Dict({"a": spaces.Discrete(2)}), {"b": 1}, "cannot be used: KeyError"),
        (
            spaces.Dict({"a": spaces.Box(0, 9, (1,), np.int8), "b": spaces.Box(0, 1, (1,))}),
            {"a": np.array([0.5], np.float32), "b": np.array([0.5])},
            "holds 0.5",
        ),
        # As many numbers as there should be, but not where they should be.
        (PAIR, {"a": np.zeros(3), "b": np.zeros(2)}, "has shape (3,), not (2,)"),
    ],
    ids=str,
)
def test_what_would_become_another_observation_is_refused(
    space: spaces.Space[Any], shown: Any, how: str
) -> None:
    for ask in (FlatEnv(Liar(space, shown)).reset, lambda: flattener(space)(shown)):
        with pytest.raises(ObservationError) as refused:
            ask()
        assert how in str(refused.value)
        assert str(refused.value).endswith(f"; its space is {space}")
        assert "\n" not in str(refused.value)


OF_INTEGERS = [
    spaces.Box(0, 9, (2,), np.int64),
    spaces.Box(-5, 9, (2,), np.int16),
    spaces.Box(0, 255, (2, 1), np.uint8),
    spaces.Discrete(4, start=-1),
    spaces.MultiBinary(3),
    spaces.MultiDiscrete([2, 3], start=[5, 1]),
]


@given(
    st.sampled_from(OF_INTEGERS),
    st.integers(-9, 9) | st.integers(-(2**40), 2**40),
    st.booleans(),
)
def test_any_integer_is_kept_as_it_is_or_refused(
    space: spaces.Space[Any], number: int, is_part: bool
) -> None:
    obs = np.asarray(space.sample()).astype(np.int64)
    obs.flat[0] = number
    shown = int(obs) if isinstance(space, spaces.Discrete) else obs
    chosen = isinstance(space, spaces.Discrete | spaces.MultiDiscrete)
    kept = np.iinfo(flat_space(space).dtype)
    is_held = space.contains(shown) if chosen else kept.min <= number <= kept.max
    env = FlatEnv(Liar(spaces.Tuple([space]), (shown,)) if is_part else Liar(space, shown))
    if is_held:
        expected = spaces.flatten(space, shown) if chosen else obs.ravel()
        assert env.reset()[0].tolist() == expected.tolist()
    else:
        with pytest.raises(ObservationError, match=f"holds {number}, "):
            env.reset()


@pytest.mark.parametrize("space", [space for space, *_ in OBSERVATIONS], ids=str)
def test_flat_observations_are_gymnasiums(space: spaces.Space[Any]) -> None:
    space.seed(0)
    for _ in range(20):
        obs = space.sample()
        expected = np.asarray(spaces.flatten(space, obs)).astype(flat_space(space).dtype)
        assert flattener(space)(obs).tobytes() == expected.tobytes()


def test_a_space_of_nothing_is_refused() -> None:
    for space in (spaces.Box(-1, 1, (0,)), spaces.Dict({}), spaces.Tuple([])):
        with pytest.raises(InvalidEnvironmentError, match="holds no numbers"):
            flat_space(space)
    with pytest.raises(InvalidEnvironmentError, match=r"action space .* holds no numbers"):
        distribution_over(spaces.Box(-1, 1, (0,)))


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
