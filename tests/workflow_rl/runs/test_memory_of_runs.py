"""A run's files of steps: whole at any moment, and beside the checkpoints of others."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.tiny_runs import all_of, remembering_agent
from tests.workflow_rl.runs.remembered import CONFIG, checkpoint_of, experience, saved_run
from workflow_rl.agents.mbpo.agent import MBPOAgent
from workflow_rl.errors import UserError
from workflow_rl.runs import checkpoint_file
from workflow_rl.runs.checkpoint import load_checkpoint
from workflow_rl.runs.learner import make_agent
from workflow_rl.runs.run_dir import RunDir


def test_killed_at_any_moment_it_leaves_a_checkpoint_with_all_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, moments = tmp_path / "run", tmp_path / "moments"
    agent = saved_run(path)
    before, n_moments = all_of(agent), 0

    def watched(name: str) -> Callable[..., Any]:
        call = getattr(os, name)

        def watching(*arguments: Any, **options: Any) -> Any:
            keep_moment()
            result = call(*arguments, **options)
            keep_moment()
            return result

        return watching

    def keep_moment() -> None:
        nonlocal n_moments
        shutil.copytree(path, moments / str(n_moments))
        n_moments += 1

    with RunDir(path, CONFIG, load_checkpoint(path / "checkpoint.safetensors")) as run:
        # All of the old files go: what they hold is part of larger ones, or was imagined long ago.
        for _ in range(2):
            experience(agent, 35, 4)
        for name in ("fsync", "replace", "unlink"):
            monkeypatch.setattr(os, name, watched(name))
        run.save("checkpoint.safetensors", checkpoint_of(agent, 2), agent.memory())
        monkeypatch.undo()
    assert n_moments >= 20
    states = [all_of(remembering_agent(moments / str(n))) for n in range(n_moments)]
    versions = [state[0]["policy_version"] for state in states]
    assert set(versions) == {1, 2}
    assert sorted(versions) == versions
    for version, state in zip(versions, states, strict=True):
        assert state == (before if version == 1 else all_of(agent))
    with RunDir(
        moments / "0", CONFIG, load_checkpoint(moments / "0" / "checkpoint.safetensors")
    ) as run:
        again = remembering_agent(moments / "0")
        run.save("checkpoint.safetensors", checkpoint_of(again, 1), again.memory())
    names = {
        part.name for part in load_checkpoint(moments / "0" / "checkpoint.safetensors").memory or ()
    }
    assert {file.name for file in (moments / "0" / "memory").iterdir()} == names


def test_all_that_is_left_of_a_save_that_was_killed_is_removed_by_the_next(tmp_path: Path) -> None:
    agent = saved_run(tmp_path)
    folder = tmp_path / "memory"
    for name in ("real-000000070-000000090.npy", "imagined-000000001-000000002.npy"):
        (folder / name).write_bytes(b"half")
    (folder / ".0123456789abcdef.writing").write_bytes(b"half")
    (folder / "notes.txt").write_text("the user's own")
    with RunDir(tmp_path, CONFIG, load_checkpoint(tmp_path / "checkpoint.safetensors")) as run:
        experience(agent, 20)
        run.save("checkpoint.safetensors", checkpoint_of(agent, 2), agent.memory())
    names = {file.name for file in folder.iterdir()} - {"notes.txt"}
    assert names == {
        part.name for part in load_checkpoint(tmp_path / "checkpoint.safetensors").memory or ()
    }
    assert (folder / "notes.txt").exists()
    assert all_of(remembering_agent(tmp_path)) == all_of(agent)


def test_other_checkpoints_of_the_run_have_no_steps(tmp_path: Path) -> None:
    agent = saved_run(tmp_path)
    sizes = []
    with RunDir(tmp_path, CONFIG, load_checkpoint(tmp_path / "checkpoint.safetensors")) as run:
        for _ in range(2):
            run.save("best.safetensors", checkpoint_of(agent, 1))
            sizes.append((tmp_path / "best.safetensors").stat().st_size)
            experience(agent, 5000, 500)
    # The numbers of the losses in the file have a few digits more or less.
    assert abs(sizes[0] - sizes[1]) < 100
    assert load_checkpoint(tmp_path / "best.safetensors").memory is None
    assert all_of(remembering_agent(tmp_path))  # Whose files are still there.
    shutil.copy(tmp_path / "best.safetensors", tmp_path / "checkpoint.safetensors")
    with pytest.raises(UserError, match=r"saved without the steps .*--init-from"):
        remembering_agent(tmp_path)


def test_the_steps_may_be_larger_than_any_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = make_agent(CONFIG)
    assert isinstance(agent, MBPOAgent)
    experience(agent, 5000)
    with RunDir(tmp_path, CONFIG) as run:
        run.save("checkpoint.safetensors", checkpoint_of(agent, 1), agent.memory())
    (part,) = load_checkpoint(tmp_path / "checkpoint.safetensors").memory or ()
    monkeypatch.setattr(
        checkpoint_file, "MOST_BYTES", (tmp_path / "checkpoint.safetensors").stat().st_size
    )
    assert (tmp_path / "memory" / part.name).stat().st_size > 5 * checkpoint_file.MOST_BYTES
    assert all_of(remembering_agent(tmp_path)) == all_of(agent)
