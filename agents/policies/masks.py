"""Masks: which actions are possible, as the last numbers of an observation.

An observation with a mask is [D + A]: D numbers, which the network sees, and then A numbers, 1 for
each possible action and 0 for each impossible one. A is the number of the distribution's outputs:
the masks of several choices follow one another. The outputs of impossible actions become minus
infinity, so that their probability is 0 in acting, in learning, in entropies and in KL divergences.
A mask is a part of the observation, so it goes wherever the observation goes. Imports no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.distributions import FloatArray

if TYPE_CHECKING:
    from torch import Tensor


def masked(outputs: FloatArray, mask: NDArray[Any]) -> FloatArray:
    """Return outputs [N, A] with minus infinity where the mask [N, A] is 0."""
    return np.where(mask > 0, outputs, np.float32(-np.inf))


def torch_masked(outputs: Tensor, mask: Tensor) -> Tensor:
    """Return outputs [B, A] with minus infinity where the mask [B, A] is 0. No gradient flows to
    them."""
    return outputs.masked_fill(mask <= 0, -float("inf"))
