"""Records of Blue's observations. Compiled code and CybORG fill equal records."""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage2.scenario.scenario import Scenario

ACTION_CHARACTERS = 64
"""A record cuts Red's action at this length. All actions of CAGE-2's red agents are shorter."""


@functools.cache  # Envs make records at every step.
def record_of(network: Scenario) -> np.dtype[Any]:
    """Return the type of a record: the bits after a step, the hosts on which CybORG noticed a
    suspicious process in the step, and Red's action. Blue agents do not read Red's action; result
    files need it."""
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
    """Return M records. obs: `[M, 4 H]`. caught: masks of hosts, `[M, H]`. red_actions: `[M]`, or
    one action for all records."""
    shown = np.empty(len(obs), record_of(network))
    shown["obs"] = obs
    shown["suspicious"] = caught
    shown["red_action"] = [action.encode("ascii", "replace") for action in red_actions]
    return shown
