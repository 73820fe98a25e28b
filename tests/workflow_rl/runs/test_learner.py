"""A learner's run is kept whatever becomes of its picture."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from tests.tiny_runs import config_of, on_counting_envs
from workflow_rl.reporting.learning_curve import plot_learning_curve
from workflow_rl.runs import loop
from workflow_rl.runs.checkpoint import load_checkpoint
from workflow_rl.runs.folder import is_finished
from workflow_rl.runs.run_dir import NotWrittenError


@pytest.mark.parametrize("error", [ValueError("no such\nglyph"), MemoryError(), KeyError("x")])
def test_a_picture_that_cannot_be_drawn_is_only_a_warning(
    error: Exception,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    _train(tmp_path / "run", _raising(error))
    assert is_finished(tmp_path / "run")
    (said,) = [one.message for one in caplog.records if "is not drawn" in one.message]
    assert f"learning_curve.png is not drawn: {type(error).__name__}" in said
    assert "\n" not in said


def test_a_picture_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NotWrittenError, match=r"learning_curve\.png cannot be written: full"):
        _train(tmp_path / "run", _raising(OSError(28, "full")))


def test_a_run_folder_may_have_any_name(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "from_$5_to_$9"
    _train(path, plot_learning_curve)
    assert (path / "learning_curve.png").exists()
    assert not caplog.records


def test_a_quiet_run_leaves_the_handlers_of_logging_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs may overlap in several threads: each would put back what it has found."""
    mine, seen = logging.StreamHandler(), list[list[logging.Handler]]()
    monkeypatch.setattr(logging.getLogger(), "handlers", [mine])
    _train(tmp_path / "run", lambda *_: seen.append(list(logging.getLogger().handlers)))
    assert seen == [[mine]]


def test_without_a_score_an_extended_run_leaves_a_guest_the_best_of_before(tmp_path: Path) -> None:
    """Which the guest compares with the last."""
    resumed = None
    for total in (6, 12):
        with on_counting_envs():
            config = config_of(total_episodes=total, n_workers=1)
            loop.train_policy(config, tmp_path, resumed, quiet=True)
        best, resumed = (
            load_checkpoint(tmp_path / name)
            for name in ("best.safetensors", "checkpoint.safetensors")
        )
        assert best.training.episodes == 6


def _raising(error: Exception) -> Any:
    def draw(*arguments: Any) -> None:
        raise error

    return draw


def _train(path: Path, draw: Any) -> None:
    with on_counting_envs():
        loop.train_policy(config_of(total_episodes=6, n_workers=1), path, quiet=True, draw=draw)
