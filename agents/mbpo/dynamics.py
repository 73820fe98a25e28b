"""A learned model of an environment: an ensemble of networks that predict a step's outcome.

Chua et al. 2018, "Deep Reinforcement Learning in a Handful of Trials using Probabilistic Dynamics
Models" (PETS), as used by Janner et al. 2019, "When to Trust Your Model" (MBPO).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from workflow_rl.agents.algorithm import DivergedError
from workflow_rl.agents.mbpo.config import MBPOConfig
from workflow_rl.agents.policies.distributions import Actions, Distribution, FloatArray
from workflow_rl.agents.policies.further_distributions import SquashedGaussian
from workflow_rl.agents.policies.network import MLP
from workflow_rl.agents.policies.recurrent import sigmoid
from workflow_rl.agents.replay import Transitions
from workflow_rl.agents.sac.stacked_mlp import NumpyAdam, StackedMLP, fill_array

LOG_VARIANCE_LIMITS = (-10.0, 0.5)
SMALLEST_SCALE = 1e-6
LEAST_IMPROVEMENT = 1e-3
UNKNOWN = np.finfo(np.float64).max


def encoded(distribution: Distribution, action: Actions) -> FloatArray:
    """Return actions [B] or [B, K] as inputs of a network, float32 [B, A].

    Choices are one-hot encoded. Numbers within bounds are scaled to -1 to 1.
    """
    if isinstance(distribution, SquashedGaussian):
        return distribution.normalised(action)
    return np.eye(distribution.n_outputs, dtype=np.float32)[action]


def softplus(x: FloatArray) -> FloatArray:
    positive: FloatArray = np.maximum(x, np.float32(0)) + np.log1p(np.exp(-np.abs(x)))
    return positive


def bernoulli_loss(logits: FloatArray, bits: FloatArray) -> FloatArray:
    """Return the negative log-likelihood [..., B], in nats, of bits [..., B, D].

    The bits are independent Bernoulli variables.
    """
    loss: FloatArray = (softplus(logits) - bits * logits).sum(axis=-1)
    return loss


def bernoulli_derivatives(logits: FloatArray, bits: FloatArray) -> FloatArray:
    """Return the derivatives of `bernoulli_loss` by the logits, [..., B, D]."""
    return sigmoid(logits) - bits


def gaussian_loss(outputs: FloatArray, value: FloatArray) -> FloatArray:
    """Return the negative log-likelihood [..., B] of values [..., B, D] in nats, without its
    constant.

    The values are independent normal variables. outputs: means, and then unbounded log variances,
    [..., B, 2 D]. The result is half of loss_Gauss in section 4 of Chua et al. 2018.
    """
    squared, log_variance, *_ = _gaussian(outputs, value)
    loss: FloatArray = 0.5 * (squared + log_variance).sum(axis=-1)
    return loss


def gaussian_derivatives(outputs: FloatArray, value: FloatArray) -> FloatArray:
    """Return the derivatives of `gaussian_loss` by the outputs, [..., B, 2 D]."""
    squared, _, slope, of_mean = _gaussian(outputs, value)
    return np.concatenate([of_mean, 0.5 * (1 - squared) * slope], axis=-1)


def _gaussian(outputs: FloatArray, value: FloatArray) -> tuple[FloatArray, ...]:
    """Return the squared error divided by the variance, the log variance, the derivative of its
    bounding, and the error divided by the variance, each [..., B, D]."""
    mean, unbounded = np.split(outputs, 2, axis=-1)
    log_variance, slope = bounded(unbounded)
    precision = np.exp(-log_variance)
    error = mean - value
    return error * error * precision, log_variance, slope, error * precision


def bounded(log_variance: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return log variances, softly limited to LOG_VARIANCE_LIMITS, and the derivative.

    See Chua et al. 2018, appendix A.1.
    """
    low, high = map(np.float32, LOG_VARIANCE_LIMITS)
    capped = high - softplus(high - log_variance)
    slope = sigmoid(high - log_variance) * sigmoid(capped - low)
    return low + softplus(capped - low), slope


class Fit(NamedTuple):
    """How well the ensemble predicts held-out steps after a fit.

    obs_loss: negative log-likelihood of the next observation in nats, mean over the elites. For
    real numbers, observations are scaled, and a constant is left out. reward_error: root mean
    squared error of the reward, mean over the elites. spread: standard deviation of the elites'
    obs_loss. epochs: passes over the steps.
    """

    obs_loss: float
    reward_error: float
    spread: float
    epochs: float


class Rows(NamedTuple):
    """Steps as inputs and targets of the networks, float32.

    seen: [B, D + A], the scaled observation and the encoded action. change: [B, D], the next
    observation's bits, or the scaled change of an observation of real numbers. reward, end: [B, 1].
    """

    seen: FloatArray
    change: FloatArray
    reward: FloatArray
    end: FloatArray

    def at(self, rows: NDArray[np.int64]) -> Rows:
        """Return the steps of these rows. With rows [N, B], each member gets its own steps."""
        return Rows._make(column[rows] for column in self)


class Scales(NamedTuple):
    """The shift of observations, and the divisors of observations, their changes and rewards.

    All float32: [D], [D], [D] and [1].
    """

    obs_mean: FloatArray
    obs: FloatArray
    change: FloatArray
    reward: FloatArray


class Dynamics:
    """An ensemble of models of an environment with observations [D], bits or real numbers.

    Each model has two networks. The first network predicts the next observation. The second network
    predicts the mean reward and the end of the episode, and also sees the next observation. The
    mean reward suffices for learning values, because values are linear in the reward.

    `seed` determines the initial weights. `fit` and `imagine` take their random numbers as
    arguments.
    """

    def __init__(
        self, config: MBPOConfig, obs_dim: int, distribution: Distribution, bits: bool, seed: int
    ) -> None:
        self.config = config
        self.obs_dim = obs_dim
        self.distribution = distribution
        self.bits = bits
        n_values = distribution.n_numbers
        if not isinstance(distribution, SquashedGaussian):
            n_values = distribution.n_outputs
        n_seen = obs_dim + n_values
        n_next = obs_dim if bits else 2 * obs_dim
        generators = [torch.Generator().manual_seed(seed + k) for k in range(config.model_members)]

        def ensemble(n_in: int, n_out: int) -> StackedMLP:
            network = MLP(n_in, config.model_hidden_sizes, n_out, "relu")
            return StackedMLP(network, [network.module(0.1, generator) for generator in generators])

        self.next_obs = ensemble(n_seen, n_next)
        self.outcome = ensemble(n_seen + obs_dim, 2)
        self.optimizers = [
            NumpyAdam(
                networks.flat,
                config.model_learning_rate,
                weight_decay=config.model_weight_decay,
            )
            for networks in (self.next_obs, self.outcome)
        ]
        self.elites = list(range(config.model_elites))
        self.ends_seen = False
        ones = np.ones(obs_dim, np.float32)
        self.scales = Scales(np.zeros_like(ones), ones, ones.copy(), np.ones(1, np.float32))

    def fit(self, steps: Transitions, random: np.random.Generator) -> Fit:
        """Continue learning from these steps. Raises DivergedError.

        Each member learns from its own bootstrap sample of the steps that are not held out. The fit
        stops when no member improves on the held-out steps. Each member then takes its best
        weights, as in Janner et al. 2019, and the best members become the elites.
        """
        config = self.config
        self.scales = self._scales_of(steps)
        self.ends_seen = bool(steps.terminated.any())
        order = random.permutation(steps.n_steps)
        n_held_out = max(1, round(config.model_held_out * steps.n_steps))
        n_held_out = min(n_held_out, max(1, steps.n_steps - 1))
        rows = self._rows(steps)
        held_out, rest = rows.at(order[:n_held_out]), order[n_held_out:]
        bootstraps = random.integers(0, len(rest), (config.model_members, len(rest)))
        ensembles = (self.next_obs, self.outcome)
        best = np.full(config.model_members, UNKNOWN)
        best_losses = np.empty((3, config.model_members), np.float32)
        best_weights = [networks.flat.copy() for networks in ensembles]
        since = epochs = 0
        while epochs < config.model_epochs and since < config.model_patience:
            epochs += 1
            since += 1
            shuffled = random.permuted(bootstraps, axis=1)
            for start in range(0, len(rest), config.model_batch_size):
                self._step(rows.at(rest[shuffled[:, start : start + config.model_batch_size]]))
            losses = np.array(self._losses(held_out))
            scores = losses.sum(axis=0)
            better = scores < best - LEAST_IMPROVEMENT * np.abs(best)
            for k in np.flatnonzero(better):
                best[k], best_losses[:, k] = scores[k], losses[:, k]
                for networks, kept in zip(ensembles, best_weights, strict=True):
                    networks.keep(int(k), kept)
            since *= not better.any()
        if best.max() == UNKNOWN:
            raise DivergedError("all losses of a model were NaN or infinite")
        for networks, kept in zip(ensembles, best_weights, strict=True):
            networks.flat[...] = kept
        obs_loss, reward_loss, end_loss = best_losses
        self.elites = np.argsort(obs_loss + reward_loss + end_loss, kind="stable").tolist()
        self.elites = self.elites[: config.model_elites]
        reward_error = float(np.sqrt(2 * reward_loss[self.elites]).mean())
        return Fit(
            float(obs_loss[self.elites].mean()),
            reward_error * self.scales.reward.item(),
            float(obs_loss[self.elites].std()),
            float(epochs),
        )

    def _step(self, rows: Rows) -> None:
        """Make a gradient step in every member from rows [N, B, ...]."""
        n_steps = np.float32(rows.reward.shape[-2])
        passed = self.next_obs.forward(rows.seen)
        derive = bernoulli_derivatives if self.bits else gaussian_derivatives
        derivatives = derive(passed.outputs, rows.change) / n_steps
        self.optimizers[0].step(self.next_obs.gradient(passed, derivatives))
        passed = self.outcome.forward(np.concatenate([rows.seen, rows.change], axis=-1))
        reward, end = passed.outputs[..., :1], passed.outputs[..., 1:]
        derivatives = np.concatenate(
            [reward - rows.reward, bernoulli_derivatives(end, rows.end)], axis=-1
        )
        self.optimizers[1].step(self.outcome.gradient(passed, derivatives / n_steps))

    def _losses(self, rows: Rows) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return each member's mean losses [N] of the next observation, the reward and the end."""
        loss = bernoulli_loss if self.bits else gaussian_loss
        obs_loss = loss(self.next_obs(rows.seen), rows.change)
        outcome = self.outcome(np.concatenate([rows.seen, rows.change], axis=-1))
        reward_loss = 0.5 * np.square(outcome[..., :1] - rows.reward)
        end_loss = bernoulli_loss(outcome[..., 1:], rows.end)
        return obs_loss.mean(axis=1), reward_loss.mean(axis=(1, 2)), end_loss.mean(axis=1)

    def imagine(
        self, obs: NDArray[Any], action: Actions, random: np.random.Generator
    ) -> tuple[Transitions, NDArray[np.bool_]]:
        """Return imagined steps from observations [B, D]. A random elite predicts each step.

        The steps' `terminated` is the probability of an end, which has less variance than a draw.
        The array [B] says which rollouts end. These ends are drawn.
        """
        rows = self._seen(obs, action)
        chosen = np.array(self.elites)[random.integers(0, len(self.elites), len(obs))]
        noise = random.random if self.bits else random.standard_normal
        draws = noise((len(obs), self.obs_dim), dtype=np.float32)
        uniforms = random.random(len(obs), dtype=np.float32)
        change = np.empty((len(obs), self.obs_dim), np.float32)
        outcome = np.empty((len(obs), 2), np.float32)
        for k in self.elites:
            mine = np.flatnonzero(chosen == k)
            change[mine] = self._drawn(self.next_obs.one(k, rows[mine]), draws[mine])
            outcome[mine] = self.outcome.one(k, np.concatenate([rows[mine], change[mine]], axis=1))
        reward = outcome[:, 0].astype(np.float64) * self.scales.reward.item()
        # Before an episode has terminated, the untrained network would end many rollouts.
        end = sigmoid(outcome[:, 1]) * np.float32(self.ends_seen)
        next_obs = change if self.bits else obs + change * self.scales.change
        steps = Transitions(obs, action, reward, nearest(next_obs, obs.dtype), end)
        return steps, end > uniforms

    def _drawn(self, outputs: FloatArray, draws: FloatArray) -> FloatArray:
        if self.bits:
            return (sigmoid(outputs) > draws).astype(np.float32)
        mean, unbounded = np.split(outputs, 2, axis=1)
        return mean + np.exp(0.5 * bounded(unbounded)[0]) * draws

    def _rows(self, steps: Transitions) -> Rows:
        if self.bits:
            change = steps.next_obs.astype(np.float32)
        else:
            # In the observations' own type, differences of small integers would overflow.
            exact = np.result_type(steps.obs, np.float32)
            difference = np.subtract(steps.next_obs, steps.obs, dtype=exact)
            change = difference.astype(np.float32) / self.scales.change
        return Rows(
            self._seen(steps.obs, steps.action),
            change,
            (steps.reward.astype(np.float32) / self.scales.reward)[:, None],
            steps.terminated.astype(np.float32)[:, None],
        )

    def _seen(self, obs: NDArray[Any], action: Actions) -> FloatArray:
        scaled = (obs.astype(np.float32) - self.scales.obs_mean) / self.scales.obs
        return np.concatenate([scaled, encoded(self.distribution, action)], axis=1)

    def _scales_of(self, steps: Transitions) -> Scales:
        reward = _deviation(steps.reward[:, None])
        if self.bits:
            return self.scales._replace(reward=reward)
        mean = steps.obs.mean(axis=0, dtype=np.float64).astype(np.float32)
        changes = steps.next_obs.astype(np.float64) - steps.obs
        return Scales(mean, _deviation(steps.obs), _deviation(changes), reward)

    def state_dict(self) -> dict[str, Any]:
        """Return the state that the next fit depends on, as tensors and plain values."""
        return {
            "bits": self.bits,
            "next_obs": torch.from_numpy(self.next_obs.flat.copy()),
            "outcome": torch.from_numpy(self.outcome.flat.copy()),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "elites": list(self.elites),
            "ends_seen": self.ends_seen,
            "scales": [torch.from_numpy(scale.copy()) for scale in self.scales],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state_dict()`.

        Raises KeyError, TypeError, OverflowError or ValueError if the state does not fit.
        """
        fill_array(self.next_obs.flat, state["next_obs"])
        fill_array(self.outcome.flat, state["outcome"])
        for optimizer, moments in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(moments)
        self.ends_seen = bool(state["ends_seen"])
        self.elites = [int(k) for k in state["elites"]]
        if not self.elites or not set(self.elites) <= set(range(self.config.model_members)):
            raise ValueError("its elites are not models of the ensemble")
        for ours, theirs in zip(self.scales, state["scales"], strict=True):
            fill_array(ours, theirs)


def nearest(numbers: FloatArray, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return the nearest numbers of a type. An integer type rounds and clips to its range."""
    if dtype.kind not in "iu":
        return numbers.astype(dtype)
    range_ = np.iinfo(dtype)
    rounded = np.rint(numbers)
    within = rounded.clip(range_.min, range_.max).astype(dtype)
    # No float equals the largest integer of 64 bits, so a clipped float would overflow.
    return np.where(rounded >= range_.max, dtype.type(range_.max), within)


def _deviation(values: NDArray[Any]) -> FloatArray:
    """Return the standard deviation of each column, or 1 for a nearly constant column."""
    deviation = values.astype(np.float64).std(axis=0)
    deviation[deviation < SMALLEST_SCALE] = 1
    return deviation.astype(np.float32)
