import enum
import multiprocessing
import os
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from tests.any_envs import TargetEnv
from tests.cli import said_by
from tests.hostile_envs import Harmless
from tests.tiny_runs import same_weights
from workflow_rl import TrainConfig, evaluate, load_agent, train
from workflow_rl.collection import try_in_worker
from workflow_rl.environments.flat_env import flattener
from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment
from workflow_rl.environments.gymnasium_versions import MultiDiscrete
from workflow_rl.environments.making import plain_facts
from workflow_rl.errors import ConfigError

SETTINGS: dict[str, Any] = {
    **{"n_envs": 2, "n_workers": 1, "total_steps": 40, "steps_per_update": 20, "device": "cpu"},
    "settings": {"hidden_sizes": (4,)},
}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


WATCHED = """
import os
import numpy as np
from gymnasium import spaces
from tests import hostile_envs, tiny_teams

def note():
    with open("processes", "a") as file:
        print(os.getpid(), file=file)

class Box(spaces.Box):
    pass

class Env(hostile_envs.Harmless):
    observation_space = Box(-1, 1, (2,), np.float32)

    def __init__(self):
        note()

class Team(tiny_teams.ShiftEnv):
    def __init__(self):
        note()
        super().__init__()

note()
"""


@pytest.mark.parametrize("name", ["Env", "Team"])
def test_the_main_process_neither_imports_nor_makes_the_environment(name):
    module = f"watched_{name.lower()}"
    Path(f"{module}.py").write_text(WATCHED)
    env = f"{module}:{name}"
    for mode in ("async", "sync"):
        train(TrainConfig(mode, env=env, **SETTINGS), mode)  # type: ignore[arg-type]
    train(TrainConfig("async", env=env, **{**SETTINGS, "total_steps": 60}), "async", resume=True)
    said_by("check-env", env, "--steps 5")
    evaluate("async", 2, n_workers=1, trust=True)
    agent: Any = load_agent("async")
    assert agent.agents if name == "Team" else agent.act([0.5, -0.5]) in (0, 1, 2)
    assert module not in sys.modules
    assert str(os.getpid()) not in Path("processes").read_text().split()


def test_a_script_whose_workers_would_train_again_is_refused():
    Path("unguarded.py").write_text(
        "from tests.hostile_envs import Harmless as Env\n"
        "from workflow_rl import TrainConfig, train\n"
        "train(TrainConfig('async', env='unguarded:Env'))\n"
    )
    config = TrainConfig("async", env="unguarded:Env", **SETTINGS)
    with pytest.raises(ValueError, match='if __name__ == "__main__"') as refused:
        train(config)
    assert "\n" not in str(refused.value)
    assert not Path("runs").exists()


def test_an_environment_may_ask_for_spaces_in_a_worker():
    """As one does that loads an opponent."""

    class WithOpponent(Harmless):
        def __init__(self) -> None:
            opponent = GymnasiumEnvironment("CartPole-v1")
            try_in_worker.learn_facts(opponent)
            assert opponent.spaces().obs_dim == 4

    environment = GymnasiumEnvironment("opponent", {}, WithOpponent)
    assert try_in_worker.check(environment) is None
    assert environment.spaces().obs_dim == 2


def _train_harmless(path: str) -> None:
    train(TrainConfig("async", env="harmless", **SETTINGS), path, env=Harmless)


def test_a_process_of_a_pool_trains():
    _train_harmless("alone")
    with multiprocessing.get_context("fork").Pool(1) as pool:
        pool.apply_async(_train_harmless, ("pooled",)).get(60)
    assert same_weights(Path("alone"), Path("pooled"))


def test_a_slow_environment_is_told_of_and_has_the_deadline_for_each_call(monkeypatch, caplog):
    monkeypatch.setattr(try_in_worker, "SLOW_SECONDS", 0.1)
    environment = GymnasiumEnvironment("tests.any_envs:SlowResetEnv", {"seconds": 0.4})
    try_in_worker.check(environment, timeout=1.5)  # There are four resets at the least.
    assert [record.getMessage().split()[0] for record in caplog.records] == [environment.env_id]
    hanging = GymnasiumEnvironment(environment.env_id, {"seconds": 30.0})
    with pytest.raises(ConfigError, match=r"sign of life for 0\.2 s.* --worker-timeout"):
        try_in_worker.check(hanging, 0.2)


def test_the_deadline_that_was_asked_for_may_be_longer_than_that_of_a_start(monkeypatch):
    monkeypatch.setattr(try_in_worker, "START_SECONDS", 1.5)
    environment = GymnasiumEnvironment("tests.any_envs:SuspendingEnv", {"seconds": 2.0})
    try_in_worker.learn_facts(environment, timeout=30)
    assert environment.is_known


def test_a_pause_of_the_whole_run_is_not_counted_to_a_call():
    environment = GymnasiumEnvironment(
        "tests.any_envs:SuspendingEnv", {"seconds": 2.0, "pid": os.getpid()}
    )
    try_in_worker.learn_facts(environment, timeout=1.2)
    assert environment.is_known


def test_what_cannot_be_sent_to_a_worker_is_refused_in_a_line():
    held = GymnasiumEnvironment("held", {}, partial(TargetEnv, threading.Lock()))
    with pytest.raises(ConfigError, match="held cannot be sent to a worker"):
        try_in_worker.learn_facts(held)


class OwnSpace(spaces.Discrete):
    """A class of the user's."""


@pytest.mark.parametrize(
    ("space", "value"),
    [
        (OwnSpace(3, start=2), 4),
        (spaces.Box(np.float32([-1, 0]), np.float32([1, np.inf])), np.float32([0.5, 3])),
        (spaces.Box(0, 255, (2, 2), np.uint8), np.full((2, 2), 7, np.uint8)),
        (spaces.MultiBinary([2, 2]), np.eye(2, dtype=np.int8)),
        (MultiDiscrete([3, 2], start=[1, 0]), np.array([3, 1])),
        (
            spaces.Dict([("z", spaces.Discrete(2)), ("a", spaces.Tuple([OwnSpace(2)]))]),
            {"z": 1, "a": (0,)},
        ),
    ],
    ids=str,
)
def test_a_plain_space_flattens_alike(space, value):
    own = plain_facts(space)
    assert type(own).__module__.startswith("gymnasium.")
    assert own == space or isinstance(space, OwnSpace | spaces.Dict)
    assert flattener(own)(value).tobytes() == flattener(space)(value).tobytes()


class Asking(Harmless):
    def __init__(self) -> None:
        self.action_space = spaces.Discrete(int(os.environ["FOR_THE_SIMULATOR"]))


@pytest.mark.parametrize("number", [4, 5])
def test_workers_have_the_variables_of_today(number, monkeypatch):
    monkeypatch.setenv("FOR_THE_SIMULATOR", str(number))
    train(TrainConfig(mode="sync", env="asking", **SETTINGS), f"run-{number}", env=Asking)
    assert load_agent(f"run-{number}", env=Asking).policy.distribution.n_outputs == number


class Name(enum.StrEnum):
    SEEN = "seen"


class Thing(enum.Enum):
    SEEN = 1


class Naming(Harmless):
    def __init__(self, name: Any) -> None:
        self.name, self.observation_space = name, spaces.Dict({name: Harmless.observation_space})

    def _show(self) -> Any:
        return {self.name: super()._show()}


def test_entries_are_named_by_plain_text():
    environment = GymnasiumEnvironment("naming", {"name": Name.SEEN}, Naming)
    assert try_in_worker.learn_facts(environment, plays=True) is None
    assert isinstance(environment.facts.observation, spaces.Dict)
    assert [*map(type, environment.facts.observation.spaces)] == [str]
    with pytest.raises(ConfigError, match="an object of type Thing cannot cross"):
        try_in_worker.learn_facts(GymnasiumEnvironment("naming", {"name": Thing.SEEN}, Naming))


def test_what_cannot_be_sent_is_named():
    def told(tell: Any) -> None:
        tell(1)
        tell(threading.Lock())

    answers = try_in_worker.ask(told, "mine")
    assert next(answers) == 1
    with pytest.raises(ConfigError, match=r"cannot pickle '_thread.lock' object"):
        next(answers)


def test_an_agent_that_learned_without_masks_plays_where_there_are_some_now(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    module = "from tests.hostile_envs import Harmless\nclass Env(Harmless): pass\n"
    (tmp_path / "masked_later.py").write_text(module)
    train(TrainConfig(mode="sync", env="masked_later:Env", **SETTINGS), "run")
    mask = "Env.action_masks = lambda self: [1, 0, 1]\n"
    (tmp_path / "masked_later.py").write_text(module + mask)
    assert len(evaluate("run", 2, trust=True).returns) == 2
    assert load_agent("run", trust=True).act(np.zeros(2, np.float32)) in range(3)
