"""Recorded episodes are those that a teacher plays: a copy of either is the same, bit for bit."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.any_envs import PuzzleEnv
from tests.tiny_runs import run, same_weights
from tests.workflow_rl.runs.small_runs import PPO, config_of
from workflow_rl import TrainConfig, record, train
from workflow_rl.collection.messages import TooManyFailuresError
from workflow_rl.errors import ConfigError
from workflow_rl.runs.copy_teacher import teacher_of
from workflow_rl.teaching.episode_files import read_episodes

LESSONS = {"teacher_episodes": 12, "teacher_epochs": 2}


@pytest.fixture
def puzzler(undisturbed: Any) -> Path:
    return undisturbed("Puzzle")


def test_a_copy_of_a_file_is_a_copy_of_the_live_teacher(puzzler, tmp_path):
    file = record(puzzler, tmp_path / "episodes.npz", 12, seed=3, n_workers=1)
    run(tmp_path / "live", config_of("Puzzle", teacher=str(puzzler), **LESSONS))
    run(tmp_path / "file", config_of("Puzzle", teacher=str(file), teacher_epochs=2))
    assert same_weights(tmp_path / "live", tmp_path / "file")
    live, of_file = (
        json.loads((tmp_path / name / "teacher.json").read_text()) for name in ("live", "file")
    )
    other = dict.fromkeys(("teacher", "sha256", "copy"))
    assert {**live, **other} == {**of_file, **other}


CAGE2: dict[str, Any] = {
    **{"simulator": "compiled", "observation": "belief", "actions": "by-host"},
    **{"red_agent": "attackers", "max_steps": 20},
}


@pytest.mark.parametrize("teacher", ["decoys", "champion"])
def test_a_scripted_agent_and_a_policy_of_another_view_too(teacher, tmp_path):
    def weights(path: Path, **lessons: Any) -> Path:
        fields = {"total_episodes": 2, "episodes_per_update": 2, "seed": 7, "env_args": CAGE2}
        settings = {"hidden_sizes": (8,), "epochs": 1}
        return train(TrainConfig("async", 4, settings=settings, **fields, **lessons), path)

    env = "workflow_rl/CAGE2-v0"
    file = record(teacher, tmp_path / "x.npz", 4, env=env, env_args=CAGE2, seed=7)
    live = weights(tmp_path / "live", teacher=teacher, teacher_episodes=4, teacher_epochs=1)
    of_file = weights(tmp_path / "file", teacher=str(file), teacher_epochs=1)
    assert same_weights(live, of_file)


def test_a_file_does_not_depend_on_the_number_of_workers(puzzler, tmp_path):
    files = [record(puzzler, tmp_path / f"{n}.npz", 10, n_workers=n) for n in (1, 3)]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert record(puzzler, tmp_path / "x", 10, seed=1).read_bytes() != files[0].read_bytes()


def test_a_policy_plays_as_its_run_says(tmp_path):
    run(tmp_path / "greedy", config_of("Puzzle"))
    run(tmp_path / "drawn", config_of("Puzzle", play="sampled"))
    assert same_weights(tmp_path / "greedy", tmp_path / "drawn")
    greedy, drawn = (
        read_episodes(record(tmp_path / name, tmp_path / f"{name}.npz", 1)).trajectories[0].action
        for name in ("greedy", "drawn")
    )
    assert not np.array_equal(greedy, drawn)


def test_a_file_tells_what_was_played(puzzler, tmp_path):
    args = {"shortest": 4, "longest": 9}
    recorded = read_episodes(record(puzzler, tmp_path / "x.npz", 5, env_args=args, seed=2))
    env = {"env": "tests.any_envs:PuzzleEnv", "env_args": args}
    assert recorded.about == {"agent": str(puzzler), "seed": 2, **env}
    assert [one.episode for one in recorded.trajectories] == list(range(5))
    assert all(one.length >= 4 for one in recorded.trajectories)


def lamp(obs: Any) -> tuple[int, int]:
    return 1 + int(obs["lamps"][0]), 0


def failing(obs: Any) -> None:
    raise ArithmeticError("no idea")


def test_a_function_plays_and_is_copied(tmp_path):
    file = record(lamp, tmp_path / "x.npz", 200, env=PuzzleEnv)
    first, *_ = read_episodes(file).trajectories
    lamps = first.obs[:, -3]
    assert np.array_equal(first.action, np.stack([lamps, 0 * lamps], axis=1))
    learn = PPO.changed(hidden_sizes=(32,), minibatch_size=64)
    run(tmp_path / "run", config_of("Puzzle", teacher=str(file), teacher_epochs=10, settings=learn))
    assert json.loads((tmp_path / "run" / "teacher.json").read_text())["agreement"] > 0.9


def test_who_cannot_be_recorded(puzzler, tmp_path):
    file = tmp_path / "x.npz"
    with pytest.raises(TooManyFailuresError, match="ArithmeticError: no idea"):
        record(failing, file, 2, env=PuzzleEnv)
    with pytest.raises(ConfigError, match="no checkpoint at nobody"):
        record("nobody", file, 2, env="CartPole-v1")
    with pytest.raises(ConfigError, match="other observations or actions"):
        record(puzzler, file, 2, env="CartPole-v1")
    with pytest.raises(ConfigError):
        record(lamp, file, 2, env="no_such_module:Env")
    assert not file.exists()
    record(lamp, file, 2, env=PuzzleEnv)
    with pytest.raises(ConfigError, match="holds recorded episodes"):
        record(file, tmp_path / "y.npz", 2)


def test_a_file_of_another_opening_or_action_set_is_refused_naming_both(tmp_path):
    args = {"simulator": "compiled", "max_steps": 5, "observation": "belief", "actions": "by-host"}
    env = "workflow_rl/CAGE2-v0"
    file = record("decoys", tmp_path / "x.npz", 2, env=env, env_args=args, n_workers=1)
    others = {"opening": ("DecoyTomcat User2",), "actions": "by-host-timed"}
    for name, other in others.items():
        config = TrainConfig("async", 1, env_args={**args, name: other}, teacher=str(file))
        said = rf"has {name} .*, and this run has \S*(Dec|by-host-t)"
        with pytest.raises(ConfigError, match=said):
            teacher_of(config)


@pytest.mark.parametrize("kind", ["text", "length", "all names", "link", "pipe"])
def test_no_other_file_is_replaced(kind, tmp_path):
    path, names = tmp_path / "notes.npz", ["length"]
    if kind == "text":
        path.write_text("mine")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        ours = record(lamp, tmp_path / "ours.npz", 1, env=PuzzleEnv)
        if kind == "link":
            path.symlink_to(ours)
        else:
            with np.load(ours) as arrays:
                names = [*arrays] if kind == "all names" else names
            np.savez(path, **dict.fromkeys(names, np.arange(3)))
    before = path.lstat()
    with pytest.raises(OSError, match=r"holds no episodes: it is left as it is|is a link"):
        record(lamp, path, 2, env=PuzzleEnv)
    after = path.lstat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert {one.name for one in tmp_path.iterdir()} <= {"notes.npz", "ours.npz"}


@pytest.mark.parametrize(
    ("env", "episodes", "said"),
    [("CartPole", 2, r"obs_dim 15, and this run has 4"), ("Puzzle", 1, "1 episode")],
)
def test_a_file_that_teaches_nothing_here(env, episodes, said, tmp_path):
    file = record(lamp, tmp_path / "x.npz", episodes, env=PuzzleEnv)
    with pytest.raises(ConfigError, match=said):
        run(tmp_path / "run", config_of(env, teacher=str(file)))
    assert not (tmp_path / "run").exists()
