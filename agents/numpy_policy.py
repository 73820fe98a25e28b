"""The actor without torch: what a worker needs to choose actions, and nothing more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]

REMEMBERED_OBSERVATIONS = 16_384


def relu(x: FloatArray) -> FloatArray:
    """max(x, 0), elementwise."""
    return np.maximum(x, np.float32(0))


ACTIVATIONS: dict[str, Callable[[FloatArray], FloatArray]] = {"tanh": np.tanh, "relu": relu}


class Actor(Protocol):
    """Whatever plays blue, in any number of envs at once.

    What it does in one of them depends on the seed and the observations there, and on nothing else.
    """

    policy_version: int

    def reset(self, seed: int, env: int = 0, n_acted: int = 0) -> None:
        """Begin an episode in env number `env`, whose random choices follow from `seed`.

        Or go on with one in which another actor has acted `n_acted` times.
        """

    def act(
        self, obs: NDArray[Any], envs: Sequence[int] = (0,)
    ) -> tuple[NDArray[np.int64], FloatArray]:
        """Actions int64 [M] and their log-probabilities float32 [M] in `envs`, one for each of the
        observations [M, D]."""


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

    That also lets it remember what it made of an observation: CAGE-2's repeat, so that most need no
    forward pass.
    """

    def __init__(
        self, parameters: PolicyParameters, policy_version: int = 0, greedy: bool = False
    ) -> None:
        self.parameters = parameters
        self.policy_version = policy_version
        self.greedy = greedy
        self._randoms = {0: np.random.default_rng(0)}
        self._known = _Distributions(len(parameters.biases[-1]))

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_known": _Distributions(self._known.n_actions)}

    def logits(self, obs: NDArray[Any]) -> FloatArray:
        """Unnormalised log-probabilities [N, A] of observations [N, D]."""
        weights, biases, activation = self.parameters
        # In C order, whatever the order of `obs`: strided rows would be summed in another order.
        hidden = np.ascontiguousarray(obs, np.float32)[:, None, :]
        for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
            hidden = ACTIVATIONS[activation](hidden @ weight + bias)
        logits: FloatArray = (hidden @ weights[-1] + biases[-1])[:, 0, :]
        return logits

    def act_batch(
        self, obs: NDArray[Any], randoms: Sequence[np.random.Generator]
    ) -> tuple[NDArray[np.int64], FloatArray]:
        """Actions int64 [N] and log-probabilities float32 [N] for observations [N, D].

        Row `n` draws one number from `randoms[n]` (inverse transform sampling), so each episode
        has a random stream of its own.
        """
        rows = self._known.rows(obs, self.logits)
        if self.greedy:
            action = self._known.likeliest[rows]
        else:
            cumulative = self._known.cumulative[rows]
            drawn = np.array([random.random() for random in randoms], np.float32)
            threshold = drawn[:, None] * cumulative[:, -1:]
            # Rounding can put the threshold at the total itself: hence the minimum.
            action = (cumulative <= threshold).sum(axis=1)
            action = np.minimum(action, self._known.n_actions - 1)
        return action, self._known.log_prob[rows, action]

    def reset(self, seed: int, env: int = 0, n_acted: int = 0) -> None:
        """Begin an episode, or go on with one: see Actor."""
        self._randoms[env] = np.random.default_rng(seed)
        self._randoms[env].random(n_acted)

    def act(
        self, obs: NDArray[Any], envs: Sequence[int] = (0,)
    ) -> tuple[NDArray[np.int64], FloatArray]:
        """Actions and log-probabilities in these envs: see Actor."""
        return self.act_batch(obs, [self._randoms[env] for env in envs])


class _Distributions:
    """A policy's action distributions for the observations it has met, a row each.

    cumulative: float32 [U, A], sums of the probabilities up to each action, unnormalised.
    log_prob: float32 [U, A]. likeliest: int64 [U], the action of the greatest logit.
    """

    def __init__(self, n_actions: int) -> None:
        self.n_actions = n_actions
        self.likeliest = np.empty(0, np.int64)
        self.cumulative = self.log_prob = np.empty((0, n_actions), np.float32)
        self._row_of: dict[bytes, int] = {}

    def rows(
        self, obs: NDArray[Any], logits_of: Callable[[NDArray[Any]], FloatArray]
    ) -> NDArray[np.int64]:
        """The row of each observation [N, D]; those not met before are added."""
        obs = np.ascontiguousarray(obs)
        keys = obs.view(np.dtype((np.void, obs.itemsize * obs.shape[1])))[:, 0].tolist()
        new = {key: n for n, key in enumerate(keys) if key not in self._row_of}
        if len(self._row_of) + len(new) > REMEMBERED_OBSERVATIONS:
            self._row_of.clear()
            new = {key: n for n, key in enumerate(keys)}
        if new:
            self._add(list(new), logits_of(obs[list(new.values())]))
        return np.fromiter(map(self._row_of.__getitem__, keys), np.int64, len(keys))

    def _add(self, keys: Sequence[bytes], logits: FloatArray) -> None:
        start = len(self._row_of)
        end = start + len(keys)
        if end > len(self.cumulative):
            self.cumulative = _grown(self.cumulative, 2 * end)
            self.log_prob = _grown(self.log_prob, 2 * end)
            self.likeliest = _grown(self.likeliest, 2 * end)
        self.likeliest[start:end] = logits.argmax(axis=1)
        logits = logits - logits.max(axis=1, keepdims=True)
        cumulative = np.exp(logits).cumsum(axis=1)
        self.cumulative[start:end] = cumulative
        self.log_prob[start:end] = logits - np.log(cumulative[:, -1:])
        self._row_of.update(zip(keys, range(start, end), strict=True))


def _grown(rows: NDArray[Any], size: int) -> NDArray[Any]:
    larger = np.empty((size, *rows.shape[1:]), rows.dtype)
    larger[: len(rows)] = rows
    return larger
