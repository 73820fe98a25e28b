"""Records of what Blue is shown, which compiled code and CybORG fill alike. No torch."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage2.scenario.scenario import Scenario

ACTION_CHARACTERS = 64
"""The most of Red's action that is kept. Actions of CAGE-2's own red agents are shorter."""


@functools.cache  # Envs make records at every step.
def record_of(network: Scenario) -> np.dtype[Any]:
    """Return the type of a record: the bits after a step, the hosts on which a process was caught
    in it, and Red's action, which no blue agent reads: a trajectory keeps it for result files."""
    return np.dtype(
        [
            ("obs", np.uint8, network.obs_size),
            ("suspicious", np.bool_, len(network.hosts)),
            ("red_action", f"S{ACTION_CHARACTERS}"),
        ]
    )


def records(
    network: Scenario, obs: NDArray[Any], caught: Any = False, red_actions: Sequence[str] = ("",)
) -> NDArray[Any]:
    """Return M records. obs: `[M, 4 H]`. caught: masks of hosts, `[M, H]`. red_actions: M, or one
    for all."""
    shown = np.empty(len(obs), record_of(network))
    shown["obs"], shown["suspicious"] = obs, caught
    shown["red_action"] = [action.encode("ascii", "replace") for action in red_actions]
    return shown
