"""The actor without torch: what a worker needs to choose actions, and nothing more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]


def relu(x: FloatArray) -> FloatArray:
    """max(x, 0), elementwise."""
    return np.maximum(x, np.float32(0))


ACTIVATIONS: dict[str, Callable[[FloatArray], FloatArray]] = {"tanh": np.tanh, "relu": relu}


class Actor(Protocol):
    """Whatever plays blue in an episode. Its choices depend on the seed and the observations."""

    policy_version: int

    def reset(self, seed: int) -> None:
        """Begin an episode whose random choices follow from `seed`."""

    def act(self, obs: NDArray[np.generic]) -> tuple[int, float]:
        """Action for one observation [D], and its log-probability."""


class PolicyParameters(NamedTuple):
    """An actor MLP's layers: weights [in, out] and biases [out], float32, first to last."""

    weights: tuple[FloatArray, ...]
    biases: tuple[FloatArray, ...]
    activation: str


class NumpyPolicy:
    """A categorical policy over logits from an MLP.

    The same observation gives the same logits bit for bit, alone or in any batch: every row is its
    own vector-matrix product. A plain [N, in] @ [in, out] would let the BLAS sum in another order
    for another N, and then a run would depend on how many envs share a forward pass.
    """

    def __init__(
        self, parameters: PolicyParameters, policy_version: int = 0, greedy: bool = False
    ) -> None:
        self.parameters = parameters
        self.policy_version = policy_version
        self.greedy = greedy
        self._random = np.random.default_rng(0)

    def logits(self, obs: NDArray[np.generic]) -> FloatArray:
        """Unnormalised log-probabilities [N, A] of observations [N, D]."""
        weights, biases, activation = self.parameters
        # In C order, whatever the order of `obs`: strided rows would be summed in another order.
        hidden = np.ascontiguousarray(obs, np.float32)[:, None, :]
        for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
            hidden = ACTIVATIONS[activation](hidden @ weight + bias)
        logits: FloatArray = (hidden @ weights[-1] + biases[-1])[:, 0, :]
        return logits

    def act_batch(
        self, obs: NDArray[np.generic], randoms: Sequence[np.random.Generator]
    ) -> tuple[NDArray[np.int64], FloatArray]:
        """Actions int64 [N] and log-probabilities float32 [N] for observations [N, D].

        Row `n` draws one number from `randoms[n]` (inverse transform sampling), so each episode
        has a random stream of its own.
        """
        logits = self.logits(obs)
        logits -= logits.max(axis=1, keepdims=True)
        cumulative = np.exp(logits).cumsum(axis=1)
        total = cumulative[:, -1:]
        if self.greedy:
            action = logits.argmax(axis=1)
        else:
            threshold = np.array([[random.random()] for random in randoms], np.float32) * total
            # Rounding can put the threshold at the total itself: hence the minimum.
            action = np.minimum((cumulative <= threshold).sum(axis=1), logits.shape[1] - 1)
        log_prob = np.take_along_axis(logits, action[:, None], axis=1) - np.log(total)
        return action, log_prob[:, 0]

    def reset(self, seed: int) -> None:
        """Begin an episode: its action sampling follows from `seed`."""
        self._random = np.random.default_rng(seed)

    def act(self, obs: NDArray[np.generic]) -> tuple[int, float]:
        """Action for one observation [D], and its log-probability."""
        action, log_prob = self.act_batch(obs[None], [self._random])
        return int(action[0]), float(log_prob[0])
