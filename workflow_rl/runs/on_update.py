"""What a user's function sees of a run after each update: see `on_update` of `train`."""

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
    """A run after an update, which is in metrics.csv. Nothing here changes what is learned.

    number: of the update, from 1. path: the run's folder. config: the run's config. metrics: the
    row of metrics.csv by column. agent: makes a copy of the agent, as `load_agent` returns it. The
    copy chooses the likeliest actions. log: add a number under a name to the run's TensorBoard
    events, for this update. stop: end the run after this update, for a reason in a few words. The
    run then counts as finished, and may be resumed.
    """

    number: int
    path: Path
    config: TrainConfig
    metrics: Mapping[str, float]
    agent: Callable[[], Agent | Team]
    log: Callable[[str, float], None]
    stop: Callable[[str], None]


OnUpdate: TypeAlias = Callable[[Update], object]
"""Called after every update. An error in it ends the run, with a checkpoint saved."""


def seen_by_user(learner: Learner, row: Mapping[str, float]) -> Update:
    """Return what a user's function sees of a learner. row: the update's metrics."""
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
