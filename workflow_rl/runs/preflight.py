"""Check what can be checked of a run before it begins."""

from __future__ import annotations

import logging

from agents import algorithm
from workflow_rl import portable
from workflow_rl.environments.environment import InvalidEnvironmentError
from workflow_rl.runs.config import ConfigError, TrainConfig

_log = logging.getLogger(__name__)


def warn_if_results_vary(config: TrainConfig) -> None:
    """Try the processor and the environment, and log why results may differ from run to run.

    Raises ConfigError if the processor or the environment cannot be used.
    """
    if not portable.is_native():
        if not portable.is_supported():
            raise ConfigError(
                "device",
                "this processor lacks AVX2 with FMA, without which its weights would differ from "
                f"other processors' weights: {portable.NATIVE}=1 trains with what it has",
            )
        if departures := portable.departures():
            _log.warning(
                "the weights may differ from another processor's: %s", "; ".join(departures)
            )
    try:
        spaces = config.environment.spaces()
        algorithm.find(config.algorithm).distribution(spaces, config.settings)
        difference = config.environment.check()
    except InvalidEnvironmentError as error:
        raise ConfigError(error.argument, str(error)) from None
    if difference is not None:
        _log.warning(
            "%s is not determined by its seed: %s. Runs of it will vary, and so will one that is "
            "resumed or loses a worker",
            config.env,
            difference,
        )
