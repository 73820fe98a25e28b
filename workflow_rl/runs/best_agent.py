"""Choose the best agent of a finished run, if its environment knows how to."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workflow_rl.environments.guests import guests
from workflow_rl.runs.checkpoint import CheckpointError
from workflow_rl.runs.config import TrainConfig

_log = logging.getLogger(__name__)


def choose_best(
    run_path: Path, config: TrainConfig, summary: Mapping[str, Any], quiet: bool = True
) -> str | None:
    """Have a guest make best.pt the best of the run's candidates. Return what to tell the user.

    Nothing is chosen, and None returned, if evaluations in the run (eval_every) have chosen.
    """
    guest = guests.get(config.env)
    if guest is None or (config.eval_every and summary["best_score"] is not None):
        return None
    try:
        return guest.choose_best(run_path, quiet)
    except (CheckpointError, OSError) as error:
        _log.warning("best.pt stays as training left it: %s", error)
        return None
