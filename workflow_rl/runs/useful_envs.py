"""Find out how many envs keep the learner busy, and say so where a run has more."""

from __future__ import annotations

import logging
import math

from workflow_rl.collection.rollout import Rollout
from workflow_rl.runs.checkpoint import TrainingState
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.metrics import Seconds

MEASURED_SECONDS = 5.0
"""The measurement contains at least this much of the learner's work."""

_log = logging.getLogger(__name__)


class UsefulEnvs:
    """Measures a run's first updates that learn anything. Says at most one sentence.

    The measurement lasts for as many env steps as a new run plays before the first update that
    learns. So in a new run it contains the first fit of a model. During a long fit collecting
    pauses, so the learner may need one env more than the sentence says.
    """

    def __init__(self, config: TrainConfig) -> None:
        self._n_envs = config.n_envs
        self._before = config.plug_in.steps_before_learning(config.settings)
        self._is_known = False
        self._working = self._playing = self._held = 0.0

    def count(self, state: TrainingState, rollout: Rollout, seconds: Seconds) -> None:
        """Count an update that learned from this rollout. state: before the update."""
        env_steps = state.env_steps + rollout.env_steps
        if self._is_known or env_steps < self._before:
            return
        self._working += seconds.total - seconds.waiting
        self._playing += rollout.busy_seconds / rollout.n_workers
        self._held += rollout.held_seconds
        if self._working < MEASURED_SECONDS or env_steps < 2 * self._before:
            return
        self._is_known = True
        if not self._held:
            return
        useful = max(1, math.ceil(self._n_envs * self._playing / self._working))
        if useful < self._n_envs:
            _log.warning(
                "the learner can use about %d of the %d envs: collecting waits for the learner. "
                "With --n-envs %d, actions come from newer weights",
                *(useful, self._n_envs, useful),
            )
