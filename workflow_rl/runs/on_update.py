"""The argument of a user's function after each update: see `on_update` of `train`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from workflow_rl.runs.config import TrainConfig
    from workflow_rl.runs.learner import Learner
    from workflow_rl.runs.saved_agent import Agent, Team


@dataclass(frozen=True)
class Update:
    """A run after an update, whose row is in metrics.csv. These members do not change the learning.

    number: the update's number, from 1. path: the run's folder. config: the run's config. metrics:
    the row of metrics.csv, by column. agent: returns a copy of the agent, in the form of
    `load_agent`, which plays as the config's `play` says. log: adds a number under a name to the
    run's TensorBoard events, for this update. stop: ends the run after this update, for a reason in
    a few words. The run then counts as finished, and may be resumed.
    """

    number: int
    path: Path
    config: TrainConfig
    metrics: Mapping[str, float]
    agent: Callable[[], Agent | Team]
    log: Callable[[str, float], None]
    stop: Callable[[str], None]


OnUpdate: TypeAlias = Callable[[Update], object]
"""A function that is called after every update. Its exception ends the run with a checkpoint."""


def seen_by_user(learner: Learner, row: Mapping[str, float]) -> Update:
    """Return the argument of the user's function. row: the update's metrics."""
    number = learner.state.updates

    def agent() -> Agent | Team:
        from workflow_rl.runs.saved_agent import agent_of

        return agent_of(learner.player(), learner.config.environment)

    def log(name: str, value: float) -> None:
        learner.run.log_of_hook(name, value, number)

    def stop(reason: str) -> None:
        learner.stopped = reason

    metrics = MappingProxyType(dict(row))
    return Update(number, learner.path, learner.config, metrics, agent, log, stop)
