import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests import guises
from tests.guises import ARRAYS, FLAGS, NUMBERS, SHAPES
from workflow_rl.collection.player import play_episodes
from workflow_rl.collection.rollout import what_is_not_finite
from workflow_rl.environments.env_batch import EpisodeError
from workflow_rl.environments.episode import episode_spec
from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment
from workflow_rl.errors import ConfigError, ElsewhereError, ObservationError
from workflow_rl.teaching.teachers import actor_of, as_sampled

HERE = ("Single", "Together", "InTurn", "AtOnce", "Many", "ManyTeams")
ELSEWHERE = ("Single", "Together", "InTurn", "AtOnce")
WORTH = {"bool": 1, "int8": 100, "float16": 60_000, "float32": 2**24 - 1}
"""The largest reward that such a number holds. The sum of several does not fit."""
GUISES = {
    "obs": {*ARRAYS} - {"bool"},
    "reward": NUMBERS,
    "flag": FLAGS,
    "mask": {*ARRAYS} - {"None"},  # Without one, there are no masks.
}
# CI plays few: a long run sets more.
EXAMPLES = int(os.environ.get("DRAWN_TYPES", "150"))


def first(obs: Any, mask: Any = None) -> int:
    return 0 if mask is None else int(mask.argmax())


def played(kind: str, python: str, args: Mapping[str, Any]) -> list[Any] | str:
    factory = None if python else getattr(guises, kind)
    environment = GymnasiumEnvironment(f"tests.guises:{kind}", args, factory, python=python)
    found, envs = [], None
    try:
        environment.spaces()
        envs = environment.make_envs(2)
        specs = [episode_spec(0, number) for number in range(2)]
        for ended in play_episodes(envs, actor_of(first, environment), specs):
            for one in ended:
                if (what := what_is_not_finite([one])) is not None:
                    return what
                arrays = one.obs, one.action, one.reward, one.last_obs
                told = [(array.dtype, array.tolist()) for array in arrays]
                found.append((one.episode, told, one.terminated, one.truncated))
    except ConfigError as error:
        return str(error)
    except EpisodeError as error:
        if not isinstance(error.__cause__, ObservationError | ElsewhereError):
            raise
        return str(error.__cause__)
    finally:
        if envs is not None:
            envs.close()
    return sorted(found)


def require_plain(kind: str, python: str, shape: str, drawn: Mapping[str, str]) -> None:
    args = {"shape": shape, "worth": WORTH.get(drawn.get("reward", ""), 200)}
    plain, guised = (played(kind, python, {**args, **more}) for more in ({}, drawn))
    assert isinstance(plain, list), plain
    if isinstance(guised, str):
        assert guised
        assert "\n" not in guised
        assert "cannot be played" not in guised or "cannot cross between" in guised
    else:
        assert guised == plain


drawn_guises = st.fixed_dictionaries(
    {}, optional={part: st.sampled_from(sorted(names)) for part, names in GUISES.items()}
)


@pytest.mark.filterwarnings("ignore")  # NumPy tells of casts that are refused.
@settings(max_examples=EXAMPLES, deadline=None)
@given(kind=st.sampled_from(HERE), shape=st.sampled_from(sorted(SHAPES)), drawn=drawn_guises)
@example(kind="Together", shape="vector", drawn={"reward": "uint8"})
@example(kind="Together", shape="vector", drawn={"reward": "float16"})
@example(kind="AtOnce", shape="vector", drawn={"reward": "uint8"})
@example(kind="ManyTeams", shape="vector", drawn={"reward": "uint8"})
@example(kind="Single", shape="table", drawn={"obs": "transposed"})
@example(kind="Together", shape="named", drawn={"obs": "transposed"})
def test_other_types_change_nothing_or_are_refused(
    kind: str, shape: str, drawn: dict[str, str]
) -> None:
    require_plain(kind, "", shape, drawn)


@pytest.fixture(scope="module")
def interpreter() -> Iterator[str]:
    """An interpreter that goes on while an environment of it is open."""
    there = GymnasiumEnvironment(
        "tests.guises:Single", {"shape": "vector", "worth": 1}, python=sys.executable
    )
    env = there.make_env()
    yield sys.executable
    env.close()


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=EXAMPLES // 3, deadline=None)
@given(kind=st.sampled_from(ELSEWHERE), shape=st.sampled_from(sorted(SHAPES)), drawn=drawn_guises)
@example(kind="AtOnce", shape="vector", drawn={"reward": "uint8"})
def test_other_types_cross_between_interpreters(
    interpreter: str, kind: str, shape: str, drawn: dict[str, str]
) -> None:
    require_plain(kind, interpreter, shape, drawn)


ACTIONS: dict[str, tuple[spaces.Space[Any], Any]] = {
    "choice": (spaces.Discrete(5, start=-2), -1),
    "choices": (spaces.MultiDiscrete([2, 3]), [1, 2]),
    "bits": (spaces.MultiBinary(3), [1, 0, 1]),
    "table": (spaces.Box(-4, 4, (2, 3), np.float32), [[1, 2, 3], [0, -1, -2]]),
    "whole": (spaces.Box(-2, 3, (2,), np.int16), [-2, 3]),
    "both": (spaces.Tuple([spaces.Discrete(3), spaces.Box(-4, 4, (2,))]), (2, [1, 3])),
    "named": (spaces.Dict(a=spaces.Discrete(3), b=spaces.Box(-4, 4, (2,))), {"a": 2, "b": [1, 3]}),
}


@pytest.mark.filterwarnings("ignore")
@settings(deadline=None)
@given(name=st.sampled_from(sorted(ACTIONS)), guise=st.sampled_from(sorted({*ARRAYS} - {"bool"})))
@example(name="table", guise="transposed")
def test_a_functions_actions_are_the_same_in_other_types_or_are_refused(
    name: str, guise: str
) -> None:
    space, plain = ACTIONS[name]
    if guise.startswith("uint"):
        plain = np.abs(plain).tolist() if isinstance(plain, list) else plain
        space, plain = (spaces.Discrete(5), 1) if name == "choice" else (space, plain)
    expected = as_sampled(space, guises.guised(space, plain, ""))
    try:
        found = as_sampled(space, guises.guised(space, plain, guise))
    except ValueError as error:
        if "is no action of" not in str(error):
            raise
        return
    assert found.dtype == expected.dtype
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("space", "action"),
    [
        (spaces.MultiBinary(2), np.array([256, 1])),
        (spaces.Discrete(5, start=-2), np.uint64(2**64 - 1)),
        (spaces.Box(0, 3, (1,), np.uint8), np.array([257])),
    ],
)
def test_an_action_that_would_wrap_around_is_no_action(space: Any, action: Any) -> None:
    with pytest.raises(ValueError, match="is no action of"):
        as_sampled(space, action)
