"""Blue's reward."""

from __future__ import annotations

from typing import Any

from workflow_rl.cage2.compiled.jit import compiled
from workflow_rl.cage2.compiled.tables import (
    N_HOSTS,
    RESTORE,
    RESTORE_COST,
    WORTH,
    WORTH_OF_OT_SERVICE,
)


@compiled
def reward(s: Any, kind: int) -> float:
    """`HybridAvailabilityConfidentialityRewardCalculator` and the cost of Blue's action.

    CybORG sums floats and rounds to tenths. Counting tenths gives the same number; as in CybORG,
    0.0 is never negative.
    """
    tenths = RESTORE_COST if kind == RESTORE else 0
    if not s.ot_running:
        tenths += WORTH_OF_OT_SERVICE
    for host in range(N_HOSTS):
        tenths += (s.is_owned >> host & 1) * WORTH[host]
    return -tenths / 10.0
