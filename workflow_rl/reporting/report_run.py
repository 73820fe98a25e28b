"""The runs of a report, as they are read from their folders."""

import logging
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from workflow_rl.errors import UserError
from workflow_rl.evaluation.measures import BY_STEP, Readings, readings_in
from workflow_rl.output_files import reading, require_numbers, sha256_of
from workflow_rl.runs.folder import (
    begins_with_another,
    distinct_names,
    population_of,
    read_config,
    read_metrics,
    read_summary,
    runs_in,
)

_log = logging.getLogger(__name__)

SEED = "seed"


class Run(NamedTuple):
    """A run's folder as it was read.

    config: the result of `TrainConfig.flat`, and "init_from". summary, evaluation: None if the file
    is missing.
    """

    path: Path
    name: str
    config: Mapping[str, Any]
    metrics: Sequence[Mapping[str, float]]
    summary: Mapping[str, Any] | None
    evaluation: Mapping[str, Any] | None

    @property
    def measured(self) -> Mapping[str, Readings]:
        """The readings of the evaluation's episodes, by the measure's name."""
        return readings_in(self.evaluation or {})

    @property
    def path_from_here(self) -> str:
        """The folder's path from the current folder; only its name if it is outside."""
        path = os.path.relpath(self.path)
        return self.name if path.startswith(os.pardir) else path

    @property
    def last(self) -> Mapping[str, float]:
        return self.metrics[-1]

    @property
    def state(self) -> str:
        if self.summary is not None and self.summary.get("finished"):
            return "finished"
        reason = (self.summary or {}).get("reason")
        return "not finished" if reason is None else f"not finished ({reason})"

    def total(self, column: str) -> float:
        """Return the sum over all updates; NaN without the column."""
        return float(sum(row.get(column, math.nan) for row in self.metrics))


def read_runs(paths: Sequence[Path]) -> list[Run]:
    """Read run folders, and the members of populations, each under a name of its own. Raises
    UserError."""
    folders = runs_in(*dict.fromkeys(paths))
    names = distinct_names(folders)
    begun = [folder for folder in folders if read_metrics(folder)] or folders
    runs = []
    for folder, name in zip(folders, names, strict=True):
        if folder in begun:
            runs.append(read_run(folder)._replace(name=name))
        else:
            _log.warning("%s is left out: no update of it has ended yet", name)
    return runs


def read_run(path: Path) -> Run:
    config = {**read_config(path).flat(), "init_from": begins_with_another(path)}
    metrics = read_metrics(path)
    if not metrics:
        raise UserError(f"{path} has nothing to report yet: no update has ended")
    summary = read_summary(path) if (path / "summary.json").exists() else None
    return Run(path, path.absolute().name, config, metrics, summary, _evaluation(path))


def _evaluation(path: Path) -> Mapping[str, Any] | None:
    """Return the scores that `evaluate` wrote into the folder, if they are of the present agent."""
    from workflow_rl.evaluation.evaluate import are_of, read_scores
    from workflow_rl.runs.saved_agent import saved_path

    file = path / "evaluation.json"
    if not file.exists():
        return _evaluation_of_best(path)
    with reading(file):
        evaluation = read_scores(file)
        cells = evaluation.get("cells")
        samples = [*(cells or ())]
        if cells is None or "mean" in evaluation:
            samples.append(evaluation)
        for sample in samples:
            _require_mean(sample["mean"], sample["interval_95"])
            require_numbers(*sample["returns"])
            if not sample["returns"]:
                raise ValueError("it is of no episodes")
        readings_in(evaluation)
        for figures in evaluation.get(BY_STEP, {}).values():
            for course in figures.values():
                require_numbers(*course["mean"], *course["low"], *course["high"])
                if len({len(course[part]) for part in course}) != 1:
                    raise ValueError("a figure's parts have different numbers of steps")
        for cell in cells or ():
            require_numbers(cell["max_steps"])
            if not isinstance(cell["red_agent"], str):
                raise ValueError("a cell is of no red agent")
        if evaluation.get("official_protocol"):
            _require_mean(evaluation["total"], evaluation["total_interval_95"])
        agent = saved_path(path)
        if not are_of(evaluation, agent):
            _log.warning("%s does not say that it is of %s: it is left out", file, agent)
            return None
        return evaluation


def _evaluation_of_best(path: Path) -> Mapping[str, Any] | None:
    """Return the scores of the population of which this run is the best policy."""
    above = population_of(path)
    if above is None:
        return None
    both = [folder / "best.safetensors" for folder in (above, path)]
    if not all(file.is_file() for file in both):
        return None
    first, second = (sha256_of(file) for file in both)
    return _evaluation(above) if first == second else None


def _require_mean(mean: Any, interval: Any) -> None:
    """Raise TypeError or ValueError for what is no mean. A single episode has no interval."""
    require_numbers(mean)
    if interval is not None:
        require_numbers(interval)
