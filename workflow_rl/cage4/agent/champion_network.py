"""A small network that chooses to wait, or to remove or restore on one of an agent's hosts."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage4.agent.memory import N_CONTEXT, N_FEATURES

HIDDEN = 32
SHAPES = {
    "host": (N_FEATURES, HIDDEN),
    "host_context": (N_CONTEXT, HIDDEN),
    "host_bias": (HIDDEN,),
    "mixed": (HIDDEN, HIDDEN),
    "mixed_pool": (2 * HIDDEN, HIDDEN),
    "mixed_context": (N_CONTEXT, HIDDEN),
    "mixed_bias": (HIDDEN,),
    "act": (HIDDEN, 2),
    "act_bias": (2,),
    "wait": (2 * HIDDEN, HIDDEN),
    "wait_context": (N_CONTEXT, HIDDEN),
    "wait_bias": (HIDDEN,),
    "wait_out": (HIDDEN, 1),
}
"""In the order in which `logits` takes them."""
HOST, HOST_CONTEXT, HOST_BIAS, MIXED, MIXED_POOL, MIXED_CONTEXT, MIXED_BIAS = range(7)
ACT, ACT_BIAS, WAIT, WAIT_CONTEXT, WAIT_BIAS, WAIT_OUT = range(7, 13)
Weights: TypeAlias = tuple[NDArray[np.float32], ...]
POOLED = 8


def logits(
    weights: Weights, hosts: NDArray[np.float32], context: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Return `[1 + 2 h]`: wait, Remove on each of h hosts, Restore on each.

    weights: arrays in the order of SHAPES. hosts: `[h, F]`. context: `[C]`.
    """
    w = dict(zip(SHAPES, weights, strict=True))
    first = np.maximum(hosts @ w["host"] + context @ w["host_context"] + w["host_bias"], 0)
    first *= hosts[:, :1]
    pool = np.concatenate([first.sum(0) / POOLED, first.max(0)])
    mixed = pool @ w["mixed_pool"] + context @ w["mixed_context"] + w["mixed_bias"]
    acts = np.maximum(first @ w["mixed"] + mixed, 0) @ w["act"] + w["act_bias"]
    wait = np.maximum(pool @ w["wait"] + context @ w["wait_context"] + w["wait_bias"], 0)
    return np.concatenate([wait @ w["wait_out"], acts[:, 0], acts[:, 1]])
