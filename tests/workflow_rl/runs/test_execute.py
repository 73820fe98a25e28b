"""When an environment chooses the best of a run's agents."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from workflow_rl.errors import UserError
from workflow_rl.runs import execute
from workflow_rl.runs.config import TrainConfig

ENV = "CartPole-v1"


def chosen(path: Path, quiet: bool) -> str:
    if not path.name:
        raise UserError("there is none")
    return f"of {path}"


@pytest.fixture(autouse=True)
def guest(monkeypatch: pytest.MonkeyPatch) -> None:
    guests = {ENV: SimpleNamespace(choose_best=chosen)}
    monkeypatch.setattr(execute, "guests", guests)


def choose(eval_every: int, best_score: float | None, **changes: Any) -> str | None:
    config = TrainConfig("async", **{"env": ENV, "eval_every": eval_every, **changes})
    return execute.choose_best(Path("run"), config, {"best_score": best_score})


def test_it_does_unless_the_runs_evaluations_have_chosen():
    assert choose(0, None) == choose(0, 3.0) == choose(5, None) == "of run"
    assert choose(5, 3.0) is None
    assert choose(5, 0.0) is None


def test_other_environments_do_not():
    assert choose(0, None, env="Acrobot-v1") is None


def test_candidates_that_cannot_be_read_leave_the_best_as_it_is(caplog):
    config = TrainConfig("async", env=ENV)
    assert execute.choose_best(Path(), config, {"best_score": None}) is None
    assert "there is none" in caplog.text
