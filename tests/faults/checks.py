"""What must hold of a run whatever faults have struck it."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.tiny_runs import assert_nothing_missing
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.folder import is_finished, read_config, read_metrics
from workflow_rl.runs.read_checkpoint import load_checkpoint

DEPENDS_ON_TIME = {
    *("wall_seconds", "collect_seconds", "update_seconds", "seconds_per_update", "eps"),
    *("learner_idle_seconds", "worker_idle_seconds", "worker_utilisation"),
    *("worker_utilisation_run", "episodes_per_second", "env_steps_per_second", "queue_length"),
    "workers_restarted",
}
"""The columns of metrics.csv in which runs that promise the same may differ."""
END_OF_PNG = b"IEND\xaeB`\x82"


def assert_counted_once(path: Path, config: TrainConfig, learned: Sequence[Any]) -> None:
    """What a finished run in `path` has learned from, trajectories or pieces of them, is every
    step of its episodes once; and it has counted them so."""
    steps = [
        (piece.episode, step)
        for piece in learned
        for step in range(piece.steps_before, piece.steps_before + piece.length)
    ]
    assert len(set(steps)) == len(steps)
    if config.num_steps_per_env is not None:
        assert_nothing_missing(list(learned), config.n_envs)
    else:
        numbers = {piece.episode for piece in learned}
        assert max(numbers) + 1 - len(numbers) <= _at_work_at_the_end(config)
    rows = read_metrics(path)
    assert [row["update"] for row in rows] == list(range(1, len(rows) + 1))
    assert rows[-1]["episodes"] == sum(piece.ended for piece in learned)
    assert (
        load_checkpoint(path / "checkpoint.safetensors").training.episodes == rows[-1]["episodes"]
    )


def _at_work_at_the_end(config: TrainConfig) -> int:
    """Episodes that may be missing among the numbers learned from: of workers that the others
    were ahead of, and of batches that waited."""
    if config.batching != "first-come":
        return 0
    assert config.episodes_per_update is not None
    waiting = (config.num_batches_to_accumulate + 1) * config.episodes_per_update
    return config.n_workers * config.envs_per_worker + waiting


def assert_same_history(one: Path, other: Path) -> None:
    """All that training saw, evaluations included, and the best agent."""

    def history(path: Path) -> list[dict[str, float]]:
        return [
            {name: value for name, value in row.items() if name not in DEPENDS_ON_TIME}
            for row in read_metrics(path)
        ]

    # As text: what is not a number is as it should be where it is one in the other too.
    assert repr(history(one)) == repr(history(other))
    bests = [load_checkpoint(path / "best.safetensors").training for path in (one, other)]
    assert bests[0].updates == bests[1].updates
    assert bests[0].best_score == bests[1].best_score


def assert_whole(files: Iterable[Path]) -> None:
    for file in files:
        if file.suffix == ".safetensors":
            load_checkpoint(file)
        elif file.suffix == ".json":
            json.loads(file.read_text())
        elif file.suffix == ".png":
            assert file.read_bytes().endswith(END_OF_PNG), file
        elif file.suffix == ".npz":
            with np.load(file) as arrays:
                assert all(arrays[name] is not None for name in arrays.files)
        elif file.name == "metrics.csv":
            read_metrics(file.parent)


def assert_sound(path: Path, finished: bool) -> None:
    """No file of the run's folder is half written, but for the last line of metrics.csv of a run
    that was killed; nor is there anything temporary in that of a finished run."""
    assert_whole(path.rglob("*"))
    read_config(path)
    rows = read_metrics(path)
    assert [row["update"] for row in rows] == list(range(1, len(rows) + 1))
    if finished:
        assert is_finished(path)
        assert len((path / "metrics.csv").read_text().splitlines()) == 1 + len(rows)
        assert not list(path.rglob(".*")), "a temporary file is left"
