"""Small searches for settings, and trials that come to what is given."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.tiny_runs import config_of

optuna = pytest.importorskip("optuna")
from workflow_rl.studies.search import Search  # noqa: E402

RANGES = {"learning_rate": (1e-5, 1e-1), "discount": (0.9, 0.999), "epochs": (1, 5)}
COMPLETE, PRUNED = optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED


def search_in(path: Path, n_finalists: int = 2) -> Search:
    path.mkdir(exist_ok=True)
    return Search(config_of(), RANGES, 2, n_finalists, path, quiet=True)


class Asked(NamedTuple):
    name: str
    seeds: list[int]
    settings: dict[str, Any]


def answered(monkeypatch: pytest.MonkeyPatch, answer: Callable[[Asked], Any]) -> list[Asked]:
    """Trials and finals train nothing, and come to the answer with each seed. Return them all."""
    all_asked: list[Asked] = []

    def train(self: Search, settings: Any, seeds: Any, name: str, trial: Any) -> list[float]:
        all_asked.append(Asked(name, list(seeds), dict(settings)))
        return [answer(all_asked[-1])] * len(seeds)

    monkeypatch.setattr(Search, "_train", train)
    return all_asked


def replay(monkeypatch: pytest.MonkeyPatch, results: dict[str, list[float]]) -> list[str]:
    """Trials come to what is given by their name, report by report, and train nothing."""
    played: list[str] = []

    def train(self: Search, settings: Any, seeds: Any, name: str, trial: Any) -> list[float]:
        played.append(name)
        reports = results[name]
        if trial is not None:
            for number, one in enumerate(reports):
                trial.report(one, number + 1)
                if trial.should_prune():
                    raise optuna.TrialPruned
        return reports[-1:] * len(seeds) if trial else reports[: len(seeds)]

    monkeypatch.setattr(Search, "_train", train)
    return played
