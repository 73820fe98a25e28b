"""The functions on the page about logging send every update, whatever the tracker does with it."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.pages import PAGES, blocks
from workflow_rl import api
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.folder import read_metrics

(PAGE,) = (page for page in PAGES if page.name == "logging.md")


class Tracker(ModuleType):
    """A stand-in for either library."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.run: Any = None
        self.began: list[dict[str, Any]] = []
        self.logged: list[tuple[dict[str, float], int]] = []

    def _begin(self, **facts: Any) -> None:
        self.run = SimpleNamespace()
        self.began.append(facts)

    init = start_run = _begin

    def set_experiment(self, name: str) -> None:
        assert self.run is None

    def active_run(self) -> Any:
        return self.run

    def log_params(self, params: dict[str, Any]) -> None:
        assert params["env"] == "CartPole-v1"

    def log(self, metrics: dict[str, float], step: int) -> None:
        self.logged.append((metrics, step))

    log_metrics = log


@pytest.mark.parametrize("library", ["wandb", "mlflow"])
def test_every_update_is_sent_once(
    library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracker = Tracker(library)
    monkeypatch.setitem(sys.modules, library, tracker)
    (text,) = (block.text for block in blocks(PAGE) if block.title == f"{library}_hook.py")
    hook: dict[str, Any] = {}
    exec(text, hook)
    config = TrainConfig("async", 4, env="CartPole-v1", total_steps=600, steps_per_update=200)
    run = api.train(config, tmp_path / "run", on_update=hook["log"])
    rows = read_metrics(run)
    assert len(tracker.began) == 1
    assert [step for _, step in tracker.logged] == list(range(1, len(rows) + 1))
    sent = [metrics["return_mean"] for metrics, _ in tracker.logged]
    assert sent == pytest.approx([row["return_mean"] for row in rows])
