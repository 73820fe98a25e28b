"""A model of an environment, learned: an ensemble of networks that say what a step would bring.

Chua et al. 2018, "Deep Reinforcement Learning in a Handful of Trials using Probabilistic Dynamics
Models" (PETS), as used by Janner et al. 2019, "When to Trust Your Model" (MBPO).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from agents.distributions import Actions, Categorical, Distribution, FloatArray, MultiCategorical
from agents.mbpo_config import MBPOConfig
from agents.networks import mlp
from agents.replay import Transitions

LOG_VARIANCE_LIMITS = (-10.0, 0.5)
SMALLEST_SCALE = 1e-6


def encoded(distribution: Distribution, action: Actions) -> FloatArray:
    """Actions [B] or [B, K] as a network reads them: choices as ones among zeros, float32."""
    if isinstance(distribution, Categorical):
        return np.eye(distribution.n_outputs, dtype=np.float32)[action]
    if isinstance(distribution, MultiCategorical):
        parts = zip(distribution.components, action.T, strict=True)
        return np.concatenate([encoded(one, chosen) for one, chosen in parts], axis=1)
    return action.astype(np.float32)


def bernoulli_loss(logits: Tensor, bits: Tensor) -> Tensor:
    """Negative log-likelihood of bits [B, D] under independent Bernoulli variables, [B]."""
    loss = nn.functional.binary_cross_entropy_with_logits(logits, bits, reduction="none")
    return loss.sum(dim=-1)


def gaussian_loss(mean: Tensor, log_variance: Tensor, value: Tensor) -> Tensor:
    """Negative log-likelihood of values [B, D] under independent normal variables, less its
    constant, [B]: Chua et al. 2018, section 4, equation for loss_Gauss, halved."""
    squared = (value - mean).square() * torch.exp(-log_variance)
    return 0.5 * (squared + log_variance).sum(dim=-1)


def bounded(log_variance: Tensor) -> Tensor:
    """Softly within LOG_VARIANCE_LIMITS: Chua et al. 2018, appendix A.1."""
    low, high = LOG_VARIANCE_LIMITS
    log_variance = high - nn.functional.softplus(high - log_variance)
    return low + nn.functional.softplus(log_variance - low)


class Reliability(NamedTuple):
    """Of predicted probabilities, bin by bin from 0 to 1: a calibrated model's two are alike.

    predicted: mean probability in the bin; observed: share of the outcomes that were 1; n_outcomes:
    how many there were. NaN, NaN and 0 where there were none.
    """

    predicted: NDArray[np.float64]
    observed: NDArray[np.float64]
    n_outcomes: NDArray[np.int64]


def reliability(probability: NDArray[Any], outcome: NDArray[Any], n_bins: int = 10) -> Reliability:
    """Of probabilities and the outcomes 0 and 1 they were given for, any equal shapes."""
    bins = np.minimum((probability.ravel() * n_bins).astype(int), n_bins - 1)
    count = np.bincount(bins, minlength=n_bins)
    with np.errstate(invalid="ignore"):
        predicted = np.bincount(bins, probability.ravel(), n_bins) / count
        observed = np.bincount(bins, outcome.ravel(), n_bins) / count
    return Reliability(predicted, observed, count)


class Fit(NamedTuple):
    """How well the ensemble predicts held-out steps, after it was fitted.

    obs_loss: negative log-likelihood of the next observation, in nats (real numbers: scaled ones,
    less a constant); reward_error: root mean squared error of the reward; of the elites, mean.
    spread: standard deviation of the elites' obs_loss. epochs: passes, mean over the members.
    """

    obs_loss: float
    reward_error: float
    spread: float
    epochs: float


class Member(nn.Module):
    """One model: of what is seen next, and, given that too, of the reward and the end.

    The reward's is the mean: an agent that learns values of it needs no more, for they are linear
    in it. Of CAGE-2's rewards, sums of a few costs, a hundred distinct ones occur.
    """

    def __init__(
        self, obs_dim: int, n_action: int, bits: bool, config: MBPOConfig, seed: int
    ) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        hidden = config.model_hidden_sizes
        n_next = obs_dim if bits else 2 * obs_dim
        self.next_obs = mlp([obs_dim + n_action, *hidden, n_next], "relu", 0.1, generator)
        self.outcome = mlp([2 * obs_dim + n_action, *hidden, 2], "relu", 0.1, generator)


class Rows(NamedTuple):
    """Steps as the networks see them, float32: seen [B, D + A], observation and action, scaled;
    change [B, D], bits or how much numbers changed, scaled; reward and end [B]."""

    seen: Tensor
    change: Tensor
    reward: Tensor
    end: Tensor

    def at(self, rows: NDArray[np.int64]) -> Rows:
        """Of these steps."""
        index = torch.from_numpy(rows)
        return Rows._make(column[index] for column in self)


class Scales(NamedTuple):
    """What observations are shifted by, and what they, their changes and rewards are divided by:
    float32 [D], [D], [D] and [1]."""

    obs_mean: Tensor
    obs: Tensor
    change: Tensor
    reward: Tensor


class Dynamics:
    """An ensemble of models of an environment with observations [D], bits or real numbers.

    `seed` determines the initial weights; `fit` and `imagine` are given their random numbers.
    """

    def __init__(
        self, config: MBPOConfig, obs_dim: int, distribution: Distribution, bits: bool, seed: int
    ) -> None:
        self.config = config
        self.obs_dim = obs_dim
        self.distribution = distribution
        self.bits = bits
        n_action = distribution.n_outputs
        self.members = [
            Member(obs_dim, n_action, bits, config, seed + k) for k in range(config.model_members)
        ]
        self.optimizers = [
            torch.optim.AdamW(
                member.parameters(),
                lr=config.model_learning_rate,
                weight_decay=config.model_weight_decay,
            )
            for member in self.members
        ]
        self.elites = list(range(config.model_elites))
        self.ends_seen = False
        one = torch.ones(obs_dim)
        self.scales = Scales(torch.zeros(obs_dim), one, one.clone(), torch.ones(1))

    def fit(self, steps: Transitions, random: np.random.Generator) -> Fit:
        """Go on learning from these steps.

        Each member has its own bootstrap of the steps that are not held out, and stops once it
        predicts those no better; the best members become the elites.
        """
        config = self.config
        self.scales = self._scales_of(steps)
        self.ends_seen = bool(steps.terminated.any())
        order = random.permutation(steps.n_steps)
        n_held_out = max(1, round(config.model_held_out * steps.n_steps))
        rows = self._rows(steps)
        held_out, rest = rows.at(order[:n_held_out]), rows.at(order[n_held_out:])
        judged = []
        for member, optimizer in zip(self.members, self.optimizers, strict=True):
            bootstrap = rest.at(random.integers(0, len(rest.reward), len(rest.reward)))
            epochs = self._fit_member(member, optimizer, bootstrap, held_out, random)
            with torch.no_grad():
                obs_loss, reward_loss, end_loss = self._losses(member, held_out)
            judged.append((obs_loss.item(), reward_loss.item(), end_loss.item(), epochs))
        scores = np.array(judged)
        self.elites = np.argsort(scores[:, :3].sum(axis=1), kind="stable").tolist()
        self.elites = self.elites[: config.model_elites]
        best = scores[self.elites]
        reward_error = float(np.sqrt(2 * best[:, 1]).mean()) * self.scales.reward.item()
        return Fit(
            float(best[:, 0].mean()),
            reward_error,
            float(best[:, 0].std()),
            float(scores[:, 3].mean()),
        )

    def _fit_member(
        self,
        member: Member,
        optimizer: torch.optim.Optimizer,
        rows: Rows,
        held_out: Rows,
        random: np.random.Generator,
    ) -> int:
        """Until it gets no better, or has for model_epochs. Returns how many there were."""
        best, since, epochs = math.inf, 0, 0
        while epochs < self.config.model_epochs and since < self.config.model_patience:
            epochs += 1
            order = random.permutation(len(rows.reward))
            for start in range(0, len(order), self.config.model_batch_size):
                batch = rows.at(order[start : start + self.config.model_batch_size])
                optimizer.zero_grad(set_to_none=True)
                sum(self._losses(member, batch)).backward()  # type: ignore[union-attr]
                optimizer.step()
            with torch.no_grad():
                score = float(sum(self._losses(member, held_out)))
            since = 0 if score < best - 1e-3 * abs(best) or best == math.inf else since + 1
            best = min(best, score)
        return epochs

    def _losses(self, member: Member, rows: Rows) -> tuple[Tensor, Tensor, Tensor]:
        """Means over the steps: of the next observation, the reward and the end."""
        ahead = member.next_obs(rows.seen)
        if self.bits:
            obs_loss = bernoulli_loss(ahead, rows.change)
        else:
            mean, log_variance = ahead.chunk(2, dim=-1)
            obs_loss = gaussian_loss(mean, bounded(log_variance), rows.change)
        reward, end = member.outcome(torch.cat([rows.seen, rows.change], dim=-1)).unbind(dim=-1)
        reward_loss = 0.5 * (reward - rows.reward).square().mean()
        end_loss = nn.functional.binary_cross_entropy_with_logits(end, rows.end)
        return obs_loss.mean(), reward_loss, end_loss

    @torch.no_grad()
    def imagine(
        self, obs: NDArray[Any], action: Actions, random: np.random.Generator
    ) -> Transitions:
        """A step from observations [B, D]: each by an elite drawn for it."""
        rows = self._seen(obs, action)
        chosen = np.array(self.elites)[random.integers(0, len(self.elites), len(obs))]
        noise = random.random if self.bits else random.standard_normal
        draws = torch.from_numpy(noise((len(obs), self.obs_dim), dtype=np.float32))
        uniforms = torch.from_numpy(random.random(len(obs), dtype=np.float32))
        change = torch.empty(len(obs), self.obs_dim)
        outcome = torch.empty(len(obs), 2)
        for k in self.elites:
            mine = torch.from_numpy(np.flatnonzero(chosen == k))
            if len(mine):
                change[mine] = self._drawn(self.members[k], rows[mine], draws[mine])
                both = torch.cat([rows[mine], change[mine]], dim=-1)
                outcome[mine] = self.members[k].outcome(both)
        reward = outcome[:, 0].double().numpy() * self.scales.reward.item()
        # Where no episode has ended yet, a network that has not learned that would end many.
        terminated = (torch.sigmoid(outcome[:, 1]) > uniforms).numpy() & self.ends_seen
        if self.bits:
            next_obs = change.numpy().astype(obs.dtype)
        else:
            next_obs = (obs + (change * self.scales.change).numpy()).astype(obs.dtype)
        return Transitions(obs, action, reward, next_obs, terminated)

    def _drawn(self, member: Member, seen: Tensor, draws: Tensor) -> Tensor:
        ahead: Tensor = member.next_obs(seen)
        if self.bits:
            return (torch.sigmoid(ahead) > draws).float()
        mean, log_variance = ahead.chunk(2, dim=-1)
        return mean + torch.exp(0.5 * bounded(log_variance)) * draws

    @torch.no_grad()
    def predict(self, obs: NDArray[Any], action: Actions) -> NDArray[np.float64]:
        """Of the next observation [B, D], the mean over the elites of each number's expectation:
        of bits, their probabilities."""
        seen = self._seen(obs, action)
        ahead = torch.stack([self.members[k].next_obs(seen) for k in self.elites]).double()
        if self.bits:
            return torch.sigmoid(ahead).mean(dim=0).numpy()
        mean = ahead.chunk(2, dim=-1)[0].mean(dim=0)
        return np.asarray(obs + (mean * self.scales.change).numpy(), np.float64)

    def _rows(self, steps: Transitions) -> Rows:
        if self.bits:
            change = torch.from_numpy(steps.next_obs.astype(np.float32))
        else:
            difference = (steps.next_obs - steps.obs).astype(np.float32)
            change = torch.from_numpy(difference) / self.scales.change
        return Rows(
            self._seen(steps.obs, steps.action),
            change,
            torch.from_numpy(steps.reward.astype(np.float32)) / self.scales.reward,
            torch.from_numpy(steps.terminated.astype(np.float32)),
        )

    def _seen(self, obs: NDArray[Any], action: Actions) -> Tensor:
        scaled = (torch.from_numpy(obs.astype(np.float32)) - self.scales.obs_mean) / self.scales.obs
        return torch.cat([scaled, torch.from_numpy(encoded(self.distribution, action))], dim=-1)

    def _scales_of(self, steps: Transitions) -> Scales:
        """Deviations of the steps; bits are left as they are."""
        reward = _deviation(steps.reward[:, None])
        if self.bits:
            return self.scales._replace(reward=reward)
        mean = torch.from_numpy(steps.obs.mean(axis=0, dtype=np.float64).astype(np.float32))
        changes = steps.next_obs.astype(np.float64) - steps.obs
        return Scales(mean, _deviation(steps.obs), _deviation(changes), reward)

    def state_dict(self) -> dict[str, Any]:
        """Everything that fitting goes on from, as tensors and plain values."""
        return {
            "bits": self.bits,
            "members": [member.state_dict() for member in self.members],
            "optimizers": [optimizer.state_dict()["state"] for optimizer in self.optimizers],
            "elites": list(self.elites),
            "ends_seen": self.ends_seen,
            "scales": list(self.scales),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse. Raises RuntimeError, KeyError or ValueError if it does not fit."""
        both = zip(self.members, state["members"], strict=True)
        for member, weights in both:
            member.load_state_dict(weights)
        for optimizer, moments in zip(self.optimizers, state["optimizers"], strict=True):
            groups = optimizer.state_dict()["param_groups"]
            optimizer.load_state_dict({"state": moments, "param_groups": groups})
        self.ends_seen = bool(state["ends_seen"])
        self.elites = [int(k) for k in state["elites"]]
        if not self.elites or not set(self.elites) <= set(range(len(self.members))):
            raise ValueError("its elites are none of its models")
        scales = Scales._make(state["scales"])
        for ours, theirs in itertools.zip_longest(self.scales, scales):
            if ours.shape != theirs.shape:
                raise ValueError("its scales are of another environment")
        self.scales = Scales._make(scale.clone() for scale in scales)


def _deviation(values: NDArray[Any]) -> Tensor:
    """Standard deviation of each column; 1 where it hardly varies."""
    deviation = values.astype(np.float64).std(axis=0)
    deviation[deviation < SMALLEST_SCALE] = 1
    return torch.from_numpy(deviation.astype(np.float32))
