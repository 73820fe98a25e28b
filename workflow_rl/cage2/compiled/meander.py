"""RedMeander's program without its draws: what the agent may do next, and what it then notes.

The simulator adds the draws; Blue's hypotheses follow every draw that fits. Both are records
with the fields `meander_*`, `known_*`, `red_*` and `error` of `state.STATE`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from workflow_rl.cage2.compiled.jit import compiled
from workflow_rl.cage2.compiled.state import CYBORG_FAILS, NONE
from workflow_rl.cage2.compiled.tables import (
    DISCOVER_SERVICES,
    DISCOVER_SYSTEMS,
    ESCALATE,
    EXPLOIT,
    FALSE,
    GROUPS_OF_MEANDER,
    IMPACT,
    N_SUBNETS,
    OT_HOST,
    RED_SLEEP,
    SUBNETS_BY_HOST,
    TRUE,
)


@compiled
def meanders_options(s: Any) -> tuple[np.int64, np.int64]:
    """Return the kind of the next action, and the mask of the hosts or the subnet to choose from.

    RED_SLEEP means that CybORG's agent has nothing left to do and fails.
    """
    # All are signed: numba turns a mixture of signed and unsigned integers into a float.
    if s.meander_escalated >> OT_HOST & 1:
        return np.int64(IMPACT), np.int64(1 << OT_HOST)
    for i in range(N_SUBNETS):
        subnet = np.int64(SUBNETS_BY_HOST[i])
        if (s.known_subnets & ~s.meander_subnets) >> subnet & 1:
            return np.int64(DISCOVER_SYSTEMS), np.int64(1 << subnet)
    hosts = np.int64(s.known_addresses & ~s.meander_scanned)
    if hosts != 0:
        return np.int64(DISCOVER_SERVICES), hosts
    lost = s.meander_mapped & ~s.meander_exploited
    hosts = np.int64(s.known_hostnames & ~s.meander_escalated & ~lost)
    if hosts != 0:
        return np.int64(ESCALATE), hosts
    hosts = np.int64(s.known_addresses & ~s.meander_exploited)
    if hosts != 0:
        return np.int64(EXPLOIT), hosts
    return np.int64(RED_SLEEP), np.int64(0)


@compiled
def act_as_meander(s: Any, kind: int, target: int) -> None:
    """Choose this action, and note it in the agent's lists."""
    if kind == DISCOVER_SYSTEMS:
        s.meander_subnets |= 1 << target
    elif kind == DISCOVER_SERVICES:
        s.meander_scanned |= 1 << target
    elif kind == EXPLOIT:
        s.meander_exploited |= 1 << target
        s.meander_last_address = target
    else:
        s.meander_escalated |= 1 << target
        s.meander_last_host = target
    s.red_kind = kind
    s.red_target = target


@compiled
def learn_as_meander(s: Any) -> None:
    """`RedMeanderAgent._process_success` and `_process_failed_ip`."""
    if s.meander_last_address != NONE:
        bit = 1 << int(s.meander_last_address)
        if s.red_success == TRUE:
            s.meander_mapped |= bit
        else:
            s.meander_exploited &= ~bit
            for group in GROUPS_OF_MEANDER:
                given_up = s.meander_escalated & group
                if given_up != 0:
                    if given_up & ~(s.meander_mapped & s.meander_exploited):
                        s.error = CYBORG_FAILS
                    s.meander_escalated &= ~given_up
                    s.meander_exploited &= ~given_up
                    break
        s.meander_last_address = NONE
    if s.meander_last_host != NONE:
        bit = 1 << int(s.meander_last_host)
        if s.red_success == FALSE:
            s.meander_escalated &= ~bit
            s.meander_exploited &= ~(bit & s.meander_mapped)
        s.meander_last_host = NONE
