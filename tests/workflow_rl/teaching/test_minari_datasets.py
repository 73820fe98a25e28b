"""Datasets of Minari's: its library reads what we write, and we read what it writes."""

import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from tests.any_envs import PuzzleEnv
from tests.tiny_runs import run, same_weights
from tests.workflow_rl.runs.small_runs import config_of
from workflow_rl import record
from workflow_rl.errors import ConfigError, UserError
from workflow_rl.runs.copy_teacher import teacher_of
from workflow_rl.teaching import minari_datasets
from workflow_rl.teaching.episode_files import read_episodes

minari = pytest.importorskip("minari")
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:minari")
CART_POLE: dict[str, Any] = {"env": "CartPole-v1", "env_args": {"max_episode_steps": 30}}


@pytest.fixture(autouse=True)
def datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    return tmp_path / "datasets"


def push(obs: Any) -> int:
    return int(obs[1] + 10 * obs[2] + 3 * obs[3] > 0)


def pull(obs: Any) -> Any:
    return np.array([2 * obs[1]], np.float32)


def lamp(obs: Any) -> tuple[int, int]:
    return 1 + int(obs["lamps"][0]), 0


class Ordered(gymnasium.Env[Any, Any]):
    """Its entries are in no alphabetical order."""

    observation_space = spaces.Dict(z=spaces.Box(0, 1), a=spaces.Box(0, 1))
    action_space = spaces.Dict(turn=spaces.Discrete(3, start=1), by=spaces.Box(-1, 1, (2,)))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._n_steps = 0
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._n_steps += 1
        return self._seen(), float(action["by"][0]), self._n_steps == 3, False, {}

    def _seen(self) -> dict[str, Any]:
        return {name: self.np_random.random(1, np.float32) for name in ("z", "a")}


def turned(obs: Any) -> dict[str, Any]:
    # Floats of 64 bits, which the space would not contain.
    return {"turn": 2, "by": np.array([obs["z"][0], -obs["a"][0]], np.float64)}


@pytest.mark.parametrize(
    ("function", "more"),
    [
        (turned, {"env": Ordered}),
        (push, CART_POLE),
        (pull, {"env": "Pendulum-v1", "env_args": {"max_episode_steps": 20}}),
        (lamp, {"env": PuzzleEnv}),
    ],
)
def test_what_is_written_is_read(function, more, tmp_path):
    file = record(function, tmp_path / "x.npz", 4, n_workers=1, **more)
    record(function, "minari:ours/tried-v0", 4, n_workers=1, **more)
    ours, theirs = read_episodes(file), read_episodes(Path("minari:ours/tried-v0"))
    assert ours.spaces == {**theirs.spaces, "masked": ours.spaces["masked"]}
    for one, other in zip(ours.trajectories, theirs.trajectories, strict=True):
        size = other.obs.shape[1]  # A dataset has no masks.
        assert np.array_equal(one.obs[:, :size], other.obs)
        assert np.array_equal(one.last_obs[:size], other.last_obs)
        for name in ("action", "reward", "terminated", "truncated"):
            assert np.array_equal(getattr(one, name), getattr(other, name)), name


def test_minari_reads_what_the_environment_showed():
    record(lamp, "minari:puzzle-v0", 3, env=PuzzleEnv, n_workers=1)
    dataset = minari.load_dataset("puzzle-v0")
    assert dataset.total_episodes == 3
    space = dataset.observation_space
    assert isinstance(space, spaces.Dict)
    for episode in dataset.iterate_episodes():
        assert len(episode.observations["lamps"]) == len(episode.rewards) + 1
        assert {int(action[1]) for action in np.stack(episode.actions)} == {0}
        assert bool(episode.terminations[-1] or episode.truncations[-1])


def test_a_copy_of_a_dataset_is_a_copy_of_the_file(tmp_path):
    file = record(push, tmp_path / "x.npz", 6, n_workers=1, **CART_POLE)
    record(push, "minari:pole-v0", 6, n_workers=1, **CART_POLE)
    for name, teacher in {"file": str(file), "dataset": "minari:pole-v0"}.items():
        lessons = {"teacher": teacher, "teacher_epochs": 2}
        run(tmp_path / name, config_of(**CART_POLE, **lessons))
    assert same_weights(tmp_path / "file", tmp_path / "dataset")
    told = json.loads((tmp_path / "dataset" / "teacher.json").read_text())
    assert told["sha256"] == minari_datasets.digest_of_dataset("pole-v0")


def test_a_dataset_of_others(tmp_path):
    buffer = minari.data_collector.EpisodeBuffer(
        observations=np.zeros((3, 4)),
        actions=np.array([0, 1]),
        rewards=[1.0, 2.0],
        terminations=[False, False],
        truncations=[False, False],  # It just ends.
    )
    minari.create_dataset_from_buffers(
        "zeros-v0",
        [buffer, buffer],
        observation_space=spaces.Box(-1, 1, (4,), np.float64),
        action_space=spaces.Discrete(2),
    )
    first, second = read_episodes(Path("minari:zeros-v0")).trajectories
    assert first.obs.dtype == np.float32
    assert (first.terminated, first.truncated, second.length) == (False, True, 2)
    assert first.episode_return == 3
    teacher_of(config_of("CartPole-v1", teacher="minari:zeros-v0"))
    with pytest.raises(ConfigError, match="has obs_dim 4, and this run has 3"):
        teacher_of(config_of("Pendulum-v1", teacher="minari:zeros-v0"))


def test_an_entry_that_minari_takes_for_two_is_refused(datasets):
    class Slash(Ordered):
        observation_space = spaces.Dict({"z/a": spaces.Box(0, 1)})

        def _seen(self) -> dict[str, Any]:
            return {"z/a": np.zeros(1, np.float32)}

    def turn(obs: Any) -> dict[str, Any]:
        return {"turn": 1, "by": np.zeros(2)}

    with pytest.raises(UserError, match="slash: 'z/a'"):
        record(turn, "minari:cut-v0", 2, env=Slash, n_workers=1)
    assert not (datasets / "cut-v0").exists()


def test_what_cannot_be_used_is_one_line(datasets):
    def refused(name: str, why: str) -> None:
        with pytest.raises(ValueError, match=why) as caught:
            read_episodes(Path(f"minari:{name}"))
        assert "\n" not in str(caught.value)

    refused("nobody/ever-v0", "no dataset at")
    refused("../../etc", "no id of Minari's")
    record(push, "minari:pole-v0", 2, n_workers=1, **CART_POLE)
    with pytest.raises(FileExistsError, match="give another id"):
        record(push, "minari:pole-v0", 2, n_workers=1, **CART_POLE)
    told = datasets / "pole-v0" / "data" / "metadata.json"
    metadata = json.loads(told.read_text())
    # A stranger's file names an environment, which Minari would make to learn the spaces.
    del metadata["observation_space"]
    told.write_text(json.dumps(metadata))
    refused("pole-v0", "does not tell its spaces")
    told.write_text("[")
    refused("pole-v0", "cannot be read")


def test_a_registered_environment_is_recovered_with_its_arguments():
    swing = {"env": "Pendulum-v1", "env_args": {"g": 5.0, "max_episode_steps": 20}}
    record(push, "minari:pole-v0", 2, n_workers=1, **CART_POLE)
    record(pull, "minari:swing-v0", 2, n_workers=1, **swing)
    pole, swung = (
        minari.load_dataset(name).recover_environment() for name in ("pole-v0", "swing-v0")
    )
    assert (pole.spec.id, pole.spec.max_episode_steps) == ("CartPole-v1", 30)
    assert pole.reset(seed=0)[0].shape == (4,)
    assert (swung.unwrapped.g, swung.spec.max_episode_steps) == (5.0, 20)
    # What is made by a class is in no registry.
    record(lamp, "minari:puzzle-v0", 2, n_workers=1, env=PuzzleEnv)
    assert minari.load_dataset("puzzle-v0").env_spec is None


def test_an_environment_that_a_module_registers_is_recovered(tmp_path, monkeypatch):
    (tmp_path / "my_pole.py").write_text(
        "import gymnasium\n"
        "gymnasium.register('MyPole-v0', 'gymnasium.envs.classic_control:CartPoleEnv',\n"
        "                   max_episode_steps=9)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    record(push, "minari:mine-v0", 2, n_workers=1, env="my_pole:MyPole-v0")
    assert minari.load_dataset("mine-v0").recover_environment().spec.max_episode_steps == 9
    gymnasium.registry.pop("MyPole-v0")
