"""Files of steps that are not as they were saved, or were never saved by this package."""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.tiny_runs import remembering_agent
from tests.workflow_rl.runs.remembered import (
    CONFIG,
    an_agent,
    checkpoint_of,
    experience,
    numbered,
    saved_run,
)
from workflow_rl.agents.mbpo.agent import MBPOAgent
from workflow_rl.agents.replay import Transitions
from workflow_rl.errors import UserError
from workflow_rl.runs import replay_files
from workflow_rl.runs.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from workflow_rl.runs.learner import make_agent
from workflow_rl.runs.run_dir import RunDir
from workflow_rl.runs.training_state import TrainingState


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)


def replaced_by_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def replaced_by_what_never_ends(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def grown_beyond_all_memory(path: Path) -> None:
    os.truncate(path, 2**43)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (Path.unlink, "No such file"),
        (flipped, "is damaged"),
        (lambda path: os.truncate(path, 100), "is damaged"),
        (replaced_by_a_pipe, "is no file"),
        (replaced_by_what_never_ends, "is no file"),
        (grown_beyond_all_memory, "this machine has"),
    ],
)
@pytest.mark.parametrize("kind", ["real", "imagined"])
def test_a_file_that_is_not_as_it_was_saved(
    kind: str, spoil: Callable[[Path], None], says: str, tmp_path: Path
) -> None:
    saved_run(tmp_path)
    file = next((tmp_path / "memory").glob(f"{kind}-*"))
    spoil(file)
    with pytest.raises(UserError, match=f"memory.*{says}") as caught:
        remembering_agent(tmp_path)
    assert "\n" not in str(caught.value)


ROWS = 70
RIGHT = numbered(0, ROWS, 52)


def as_saved(steps: Any) -> np.ndarray:
    row = [(name, column.dtype, column.shape[1:]) for name, column in steps._asdict().items()]
    rows = np.empty(ROWS, row)
    for name, column in steps._asdict().items():
        rows[name] = column
    return rows


class Hostile:
    def __reduce__(self) -> Any:
        return os.system, ("touch ran",)


@pytest.mark.parametrize(
    "content",
    [
        as_saved(RIGHT)[:-1],
        as_saved(RIGHT)[:, None],
        as_saved(RIGHT)[["obs", "action", "reward", "next_obs"]],
        as_saved(RIGHT._replace(obs=np.zeros((ROWS, 51), np.float32))),
        as_saved(RIGHT._replace(obs=np.zeros((ROWS, 52), "U1"))),
        as_saved(RIGHT._replace(obs=np.zeros((ROWS, 52), complex))),
        as_saved(RIGHT._replace(action=np.full(ROWS, 145))),
        as_saved(RIGHT._replace(action=np.full(ROWS, -1))),
        as_saved(RIGHT._replace(action=np.zeros(ROWS))),
        as_saved(RIGHT._replace(reward=np.zeros((ROWS, 2)))),
        as_saved(RIGHT._replace(reward=np.zeros(ROWS, np.datetime64))),
        as_saved(RIGHT._replace(terminated=np.zeros(ROWS))),
        np.array([Hostile()] * ROWS),
        np.zeros(ROWS),
        b"",
        b"\x93NUMPY\x01\x00v\x00{'descr': __import__('os').system('touch ran')}",
        b"PK\3\4",
        pickle.dumps(Hostile()),
    ],
)
def test_a_file_with_something_else_in_it(
    content: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = make_agent(CONFIG)
    assert isinstance(agent, MBPOAgent)
    monkeypatch.chdir(tmp_path)
    part = replay_files.Part("real", 0, ROWS, "")
    path = tmp_path / part.name
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        np.save(path, content, allow_pickle=True)
    part = part._replace(digest=hashlib.sha256(path.read_bytes()).hexdigest())
    with pytest.raises(ValueError, match=r"holds no steps|another environment"):
        replay_files.read_parts(tmp_path, [part], agent.memory())
    assert not (tmp_path / "ran").exists()


def test_files_that_are_not_all_there_is(tmp_path: Path) -> None:
    agent = saved_run(tmp_path)
    with RunDir(tmp_path, CONFIG, load_checkpoint(tmp_path / "checkpoint.safetensors")) as run:
        experience(agent, 7, 3)
        run.save("checkpoint.safetensors", checkpoint_of(agent, 2), agent.memory())
    checkpoint = load_checkpoint(tmp_path / "checkpoint.safetensors")
    parts = checkpoint.memory or []
    assert [part[:3] for part in parts] == [
        *[("real", 0, 70), ("real", 70, 77)],
        *[("imagined", 0, 9), ("imagined", 9, 12)],
    ]
    for some in (parts[1:], parts[::-1], parts[:3], [*parts, parts[-1]]):
        with pytest.raises(ValueError, match="not all of its agent's steps"):
            replay_files.read_parts(tmp_path / "memory", some, agent.memory())


@pytest.mark.parametrize(
    "memory_of",
    [
        "real",
        [["real", 0, 5]],
        [["../real", 0, 5, "0" * 64]],
        [["real", 5, 5, "0" * 64]],
        [["real", -1, 5, "0" * 64]],
        [["real", 0, 2**53, "0" * 64]],
        [["real", 0, 5.0, "0" * 64]],
        [["real", "../../0", 5, "0" * 64]],
        [["real", 0, 5, "0" * 63]],
        [["real", 0, 5, 7]],
    ],
)
def test_a_checkpoint_that_names_no_files(memory_of: Any, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.safetensors"
    save_checkpoint(path, Checkpoint({}, {}, TrainingState(), memory=memory_of))
    with pytest.raises(UserError, match="not a checkpoint of this package"):
        load_checkpoint(path)


def test_steps_that_the_agent_does_not_remember(tmp_path: Path) -> None:
    parts = replay_files.parts_of([["other", 0, 5, "0" * 64]])
    with pytest.raises(ValueError, match="other"):
        replay_files.read_parts(tmp_path, parts, an_agent().memory())


def test_steps_of_no_bytes_are_none(tmp_path):
    rows = np.zeros(5, [(name, "f4", (0,)) for name in Transitions._fields])
    path = tmp_path / replay_files.Part("real", 0, 5, "").name
    np.save(path, rows)
    part = replay_files.Part("real", 0, 5, hashlib.sha256(path.read_bytes()).hexdigest())
    with pytest.raises(ValueError, match="holds no steps"):
        replay_files.read_parts(tmp_path, [part], an_agent().memory())
