import pickle
import sys
from typing import Any

import cloudpickle
import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from tests.any_envs import PuzzleEnv, TargetEnv
from workflow_rl.agents.policies.distributions import Categorical
from workflow_rl.agents.policies.further_distributions import DiagonalGaussian, MultiCategorical
from workflow_rl.cage2.scenario2 import ENV_ID
from workflow_rl.environments.environment import described
from workflow_rl.environments.flat_env import FlatEnv
from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment
from workflow_rl.environments.gymnasium_versions import attribute_of
from workflow_rl.environments.source import make_environment
from workflow_rl.errors import ConfigError

TARGET = (2, DiagonalGaussian(2), ((-1.0, -1.0), (1.0, 1.0)))


@pytest.mark.parametrize(
    ("env_id", "args", "made", "expected"),
    [
        ("CartPole-v1", {}, "CartPoleEnv", (4, Categorical(2), None)),
        (
            *("Pendulum-v1", {"g": 5.0}, "PendulumEnv"),
            (3, DiagonalGaussian(1, (0.0,), (2.0,)), ((-2.0,), (2.0,))),
        ),
        ("FrozenLake-v1", {"map_name": "8x8"}, "FrozenLakeEnv", (64, Categorical(4), None)),
        ("tests.any_envs:tests/Target-v0", {"length": 3}, "TargetEnv", TARGET),
        ("tests.any_envs:PuzzleEnv", {}, "PuzzleEnv", (15, MultiCategorical([3, 2]), None)),
        ("tests.any_envs:sized_target", {"length": 3}, "TargetEnv", TARGET),
    ],
)
def test_an_environment_by_its_id(env_id, args, made, expected):
    environment = make_environment(env_id, args)
    assert isinstance(environment, GymnasiumEnvironment)
    assert environment.spaces()[:3] == expected
    env: Any = environment.make_env()
    assert type(env.unwrapped).__name__ == made
    told = {"length": "_length", "g": "g"}
    for name in told.keys() & args.keys():
        assert getattr(env.unwrapped, told[name]) == args[name]
    env.close()


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
def test_whether_its_observations_are_bits(space, bits):
    def env() -> Any:
        env = TargetEnv()
        env.observation_space = space  # type: ignore[assignment]
        return env

    assert GymnasiumEnvironment("an env", {}, env).spaces().bits is bits


def test_a_function_in_a_module_where_the_command_is_called(tmp_path, monkeypatch):
    (tmp_path / "module_beside_me.py").write_text(
        "from tests.any_envs import TargetEnv\nmake_mine = TargetEnv\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    environment = GymnasiumEnvironment("module_beside_me:make_mine", {"length": 2})
    assert environment.spaces().obs_dim == 2


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
def test_one_line_for_an_environment_that_cannot_be_used(ask, env_id, args, parts):
    with pytest.raises(ConfigError) as refused:
        ask(GymnasiumEnvironment(env_id, args))
    message = str(refused.value)
    assert refused.value.field_name == "env"
    assert "\n" not in message
    for part in parts:
        assert part in message


@pytest.mark.parametrize(
    ("env_id", "label"),
    [
        ("CartPole-v1", "CartPole-v1"),
        ("tests.any_envs:tests/Target-v0", "tests.any_envs-tests-Target-v0"),
        ("a module:f.<locals>.<lambda>", "a-module-f.-locals-.-lambda-"),
    ],
)
def test_the_label_is_a_file_name(env_id, label):
    assert GymnasiumEnvironment(env_id).label == label


def test_a_guest_is_found_by_its_id_and_described_with_its_arguments():
    guest = make_environment(ENV_ID, {"max_steps": 7})
    assert not isinstance(guest, GymnasiumEnvironment)
    assert guest.args["max_steps"] == 7
    pendulum = GymnasiumEnvironment("Pendulum-v1", {"g": 5.0, "mass": 2})
    assert described(pendulum) == "Pendulum-v1 (g=5.0, mass=2)"
    assert described(pendulum, without=["g", "mass"]) == "Pendulum-v1"


def test_a_pickled_environment_is_the_same_even_after_it_was_asked_for_its_spaces():
    environment = GymnasiumEnvironment("tests.any_envs:TargetEnv", {"length": 3})
    before = environment.spaces()
    again = pickle.loads(pickle.dumps(environment))
    assert again == environment
    assert again.spaces() == before


def test_a_time_limit_of_gymnasiums_truncates():
    env = FlatEnv(GymnasiumEnvironment("Pendulum-v1", {"max_episode_steps": 3}).make_env())
    env.reset(seed=0)
    ends = [env.step(np.zeros(1, np.float32))[2:4] for _ in range(3)]
    assert ends == [(False, False), (False, False), (False, True)]


def test_an_id_that_only_the_callers_script_registered_reaches_the_workers():
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
def test_entities_of_another_kind_are_no_declaration(things):
    class World(PuzzleEnv):
        def __init__(self) -> None:
            super().__init__()
            self.entities = things

    assert GymnasiumEnvironment("world", {}, World).spaces().entities is None


class Answering(gymnasium.Wrapper[Any, Any, Any, Any]):
    def __getattr__(self, name: str) -> Any:
        if name == "lamps":
            return 3
        raise AttributeError(name)


class Plain(gymnasium.Wrapper[Any, Any, Any, Any]):
    pass


@pytest.mark.parametrize(
    ("name", "value"), [("lamps", 3), ("inner", 1), ("outer", 2), ("none", None)]
)
def test_the_first_that_has_an_attribute_tells_it(name, value):
    inner: Any = TargetEnv()
    inner.inner, inner.outer = 1, 1
    env: Any = Plain(Answering(inner))
    env.outer = 2
    assert attribute_of(env, name) == value
