"""Soft actor-critic: its losses and gradient steps.

Haarnoja et al. 2018, "Soft Actor-Critic Algorithms and Applications"; for one choice of several,
Christodoulou 2019, "Soft Actor-Critic for Discrete Action Settings".
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from workflow_rl.agents.policies.actor_critic import ActorCritic
from workflow_rl.agents.policies.distributions import Actions, Categorical, Distribution, FloatArray
from workflow_rl.agents.policies.further_distributions import (
    HALF_LOG_2_PI,
    LOG_STD_LIMITS,
    SquashedGaussian,
)
from workflow_rl.agents.policies.network import MLP
from workflow_rl.agents.replay import Transitions
from workflow_rl.agents.sac.stacked_mlp import NumpyAdam, StackedMLP, fill_array

FIRST_TEMPERATURE = 0.1
TEMPERATURE_LEARNING_RATE = 3e-3
ADAM_EPS = 1e-5
LARGEST_LOG_TEMPERATURE = 80.0  # Below this, the temperature is a finite float32.


class Steps(NamedTuple):
    """Transitions as inputs of the networks.

    obs, next_obs: float32 [B, D]. action: [B] or [B, K]. reward: scaled, float32 [B]. going_on:
    float32 [B], the probability that the episode did not terminate: 0 or 1 for real steps.
    """

    obs: FloatArray
    action: Actions
    reward: FloatArray
    next_obs: FloatArray
    going_on: FloatArray


def steps_of(transitions: Transitions, reward_scale: float) -> Steps:
    """Return transitions for the networks, with rewards multiplied by `reward_scale`."""
    return Steps(
        transitions.obs.astype(np.float32),
        transitions.action,
        (reward_scale * transitions.reward).astype(np.float32),
        transitions.next_obs.astype(np.float32),
        1 - transitions.terminated.astype(np.float32),
    )


class Judged(NamedTuple):
    """The critics' judgement of a policy's outputs for B observations.

    q: [B], the smaller value of the two critics. entropy: [B], the policy's, in nats. Both are
    expectations over the actions, or estimates from one drawn action.
    """

    q: FloatArray
    entropy: FloatArray


Taken: TypeAlias = tuple[float, FloatArray]
"""The sum of the two critics' mean squared errors, and its gradient by their weights."""


class OfChoices:
    """The parts of soft actor-critic that depend on the kind of actions, for one choice of several.
    A critic has an output for each choice."""

    def __init__(self, distribution: Categorical) -> None:
        self.n_choices = distribution.n_outputs

    def critic(self, obs_dim: int, hidden_sizes: tuple[int, ...]) -> MLP:
        return MLP(obs_dim, hidden_sizes, self.n_choices, "relu")

    def std(self, outputs: FloatArray) -> float:
        """Return the mean standard deviation of actions' numbers, or NaN for choices."""
        return math.nan

    def of_taken(self, critics: StackedMLP, steps: Steps, target: FloatArray) -> Taken:
        """Return the loss of the taken actions with target values `target` [B]."""
        passed = critics.forward(steps.obs)
        rows = np.arange(len(target))
        error = passed.outputs[:, rows, steps.action] - target
        of_outputs = np.zeros_like(passed.outputs)
        of_outputs[:, rows, steps.action] = 2 / len(target) * error
        return _sum_of_means(error), critics.gradient(passed, of_outputs)

    def judge(
        self, critics: StackedMLP, obs: FloatArray, outputs: FloatArray, random: np.random.Generator
    ) -> Judged:
        """Judge a policy with these outputs [B, n_outputs]."""
        return self.improve(critics, obs, outputs, 0.0, random)[0]

    def improve(
        self,
        critics: StackedMLP,
        obs: FloatArray,
        outputs: FloatArray,
        temperature: float,
        random: np.random.Generator,
    ) -> tuple[Judged, FloatArray]:
        """Judge a policy, and return the derivatives [B, n_outputs] of its loss by its outputs.

        The loss is minus the mean of q + temperature * entropy. These are expectations over all
        choices: Christodoulou 2019, equations 10, 12.
        """
        of_each = critics(obs).min(axis=0)
        log_prob = outputs - outputs.max(axis=1, keepdims=True)
        log_prob -= np.log(np.exp(log_prob).sum(axis=1, keepdims=True))
        probability = np.exp(log_prob)
        q = (probability * of_each).sum(axis=1)
        entropy = -(probability * log_prob).sum(axis=1)
        better = of_each - q[:, None] - temperature * (log_prob + entropy[:, None])
        return Judged(q, entropy), -probability * better / np.float32(len(obs))


class OfNumbers:
    """The parts of `OfChoices` for bounded numbers. They are a critic's inputs, from -1 to 1."""

    def __init__(self, distribution: SquashedGaussian) -> None:
        self.distribution = distribution
        self.n_numbers = len(distribution.low)

    def critic(self, obs_dim: int, hidden_sizes: tuple[int, ...]) -> MLP:
        return MLP(obs_dim + self.n_numbers, hidden_sizes, 1, "relu")

    def std(self, outputs: FloatArray) -> float:
        return float(np.exp(self.distribution.prepare(outputs)[1]).mean())

    def of_taken(self, critics: StackedMLP, steps: Steps, target: FloatArray) -> Taken:
        numbers = self.distribution.normalised(steps.action)
        passed = critics.forward(np.concatenate([steps.obs, numbers], axis=1))
        error = passed.outputs - target[:, None]
        gradient = critics.gradient(passed, 2 / len(target) * error)
        return _sum_of_means(error[..., 0]), gradient

    def judge(
        self, critics: StackedMLP, obs: FloatArray, outputs: FloatArray, random: np.random.Generator
    ) -> Judged:
        drawn = _Drawn.of(outputs, random)
        both = np.concatenate([obs, drawn.action], axis=1)
        return Judged(critics(both)[..., 0].min(axis=0), drawn.entropy())

    def improve(
        self,
        critics: StackedMLP,
        obs: FloatArray,
        outputs: FloatArray,
        temperature: float,
        random: np.random.Generator,
    ) -> tuple[Judged, FloatArray]:
        """See `OfChoices.improve`. The results are estimates from one drawn action per observation,
        by the reparameterisation trick: Haarnoja et al. 2018, equations 9 and 10."""
        drawn = _Drawn.of(outputs, random)
        passed = critics.forward(np.concatenate([obs, drawn.action], axis=1))
        values = passed.outputs[..., 0]
        is_lesser = np.stack([values[0] <= values[1], values[0] > values[1]])
        of_outputs = is_lesser[..., None].astype(np.float32)
        by_action = critics.input_gradient(passed, of_outputs).sum(axis=0)[:, obs.shape[1] :]
        judged = Judged(values.min(axis=0), drawn.entropy())
        return judged, drawn.derivatives(by_action, temperature) / np.float32(len(obs))


class _Drawn(NamedTuple):
    """Actions [B, K] from -1 to 1 of a squashed normal distribution, and the draw's values."""

    action: FloatArray
    number: FloatArray
    noise: FloatArray
    log_std: FloatArray
    is_within: NDArray[np.bool_]

    @classmethod
    def of(cls, outputs: FloatArray, random: np.random.Generator) -> Self:
        mean, log_std = np.split(outputs, 2, axis=1)
        low, high = LOG_STD_LIMITS
        is_within = (log_std > low) & (log_std < high)
        log_std = np.clip(log_std, low, high)
        std: FloatArray = np.exp(log_std)
        noise = random.standard_normal(mean.shape, dtype=np.float32)
        number = mean + std * noise
        return cls(np.tanh(number), number, noise, log_std, is_within)

    def entropy(self) -> FloatArray:
        """Return minus the log density [B]: Haarnoja et al. 2018, equation 26."""
        normal = 0.5 * self.noise**2 + self.log_std + np.float32(HALF_LOG_2_PI)
        softplus = np.logaddexp(np.float32(0), -2 * self.number)
        log_slope = 2 * (np.float32(math.log(2)) - self.number - softplus)
        entropy: FloatArray = (normal + log_slope).sum(axis=1)
        return entropy

    def derivatives(self, by_action: FloatArray, temperature: float) -> FloatArray:
        """Return the derivatives [B, 2 K] of minus (q + temperature * entropy).

        The columns are derivatives by the means, then by the log standard deviations. by_action:
        [B, K], the derivatives of q by the action.
        """
        slope = 1 - self.action * self.action
        # The derivative of log(1 - tanh(x)^2) is -2 tanh(x).
        by_number = 2 * temperature * self.action - by_action * slope
        by_log_std = by_number * np.exp(self.log_std) * self.noise - temperature
        return np.concatenate([by_number, by_log_std * self.is_within], axis=1)


def _sum_of_means(error: FloatArray) -> float:
    return float((error * error).mean(axis=1).sum())


def actions_kind(distribution: Distribution) -> OfChoices | OfNumbers:
    """Return the kind of a distribution's actions. Raises ValueError for other distributions."""
    if isinstance(distribution, Categorical):
        return OfChoices(distribution)
    if isinstance(distribution, SquashedGaussian):
        return OfNumbers(distribution)
    raise ValueError(f"soft actor-critic cannot learn {distribution}")


class LearnedPolicy(NamedTuple):
    """One gradient step of the policy: the loss, the policy's entropy in nats, the temperature, the
    gradient's norm, and the actions' standard deviation."""

    loss: float
    entropy: float
    temperature: float
    gradient_norm: float
    std: float


class SoftActorCritic:
    """A learner of an actor, two critics of actions, and the temperature, which keeps the policy's
    entropy at its target.

    network: learning begins with its weights, and `write` stores the learned weights in it.
    target_entropy: in nats. layer_norm: whether the critics use it. seed: determines the critics'
    initial weights. Raises ValueError: see `actions_kind`.
    """

    def __init__(
        self,
        network: ActorCritic,
        discount: float,
        learning_rate: float,
        target_rate: float,
        target_entropy: float,
        seed: int,
        layer_norm: bool = False,
    ) -> None:
        self.network = network
        self.discount = discount
        self.target_rate = target_rate
        self.target_entropy = target_entropy
        self.kind = actions_kind(network.distribution)
        actor, value = network.actor_network, network.critic_network
        assert isinstance(actor, MLP)
        assert isinstance(value, MLP)
        critic = self.kind.critic(actor.n_inputs, actor.hidden_sizes)
        generator = torch.Generator().manual_seed(seed)
        pair = [critic.module(0.1, generator) for _ in range(2)]
        self.actor = StackedMLP(actor, [network.actor])
        self.value = StackedMLP(value, [network.critic])
        self.critics = StackedMLP(critic, pair, layer_norm)
        self.targets = StackedMLP(critic, pair, layer_norm)
        self.log_temperature = np.array([math.log(FIRST_TEMPERATURE)], np.float32)
        self.optimizers = {
            "actor": NumpyAdam(self.actor.flat, learning_rate, ADAM_EPS),
            "value": NumpyAdam(self.value.flat, learning_rate, ADAM_EPS),
            "critics": NumpyAdam(self.critics.flat, learning_rate, ADAM_EPS),
            "temperature": NumpyAdam(self.log_temperature, TEMPERATURE_LEARNING_RATE, ADAM_EPS),
        }

    def read(self) -> None:
        self.actor.read(self.network.actor)
        self.value.read(self.network.critic)

    def write(self) -> None:
        self.actor.write(self.network.actor)
        self.value.write(self.network.critic)

    @property
    def temperature(self) -> float:
        """The value of a nat of entropy, in scaled reward."""
        return math.exp(self.log_temperature[0])

    def learn_critics(self, steps: Steps, random: np.random.Generator) -> tuple[float, float]:
        """Make a gradient step of the critics. Return their loss, and their gradient's norm."""
        target = self.target_of(steps, self.temperature, random)
        loss, gradient = self.kind.of_taken(self.critics, steps, target)
        self.optimizers["critics"].step(gradient)
        self.targets.flat += self.target_rate * (self.critics.flat - self.targets.flat)
        return loss, float(np.linalg.norm(gradient))

    def learn_policy(self, steps: Steps, random: np.random.Generator) -> LearnedPolicy:
        temperature = self.temperature
        passed = self.actor.forward(steps.obs)
        judged, of_outputs = self.kind.improve(
            self.critics, steps.obs, passed.outputs[0], temperature, random
        )
        gradient = self.actor.gradient(passed, of_outputs[None])
        self.optimizers["actor"].step(gradient)
        loss = -float((judged.q + temperature * judged.entropy).mean())
        entropy = float(judged.entropy.mean())
        # The gradient of Haarnoja et al. 2018, equation 18, by the temperature's logarithm.
        surplus = np.array([temperature * (entropy - self.target_entropy)], np.float32)
        self.optimizers["temperature"].step(surplus)
        norm, std = float(np.linalg.norm(gradient)), self.kind.std(passed.outputs[0])
        return LearnedPolicy(loss, entropy, temperature, norm, std)

    def target_of(
        self, steps: Steps, temperature: float, random: np.random.Generator
    ) -> FloatArray:
        """Return the critics' targets [B] for steps: Haarnoja et al. 2018, equation 3, with the
        smaller value of the two target critics."""
        outputs = self.actor(steps.next_obs)[0]
        q, entropy = self.kind.judge(self.targets, steps.next_obs, outputs, random)
        target: FloatArray = (
            steps.reward + self.discount * steps.going_on * (q + temperature * entropy)
        ).astype(np.float32)
        return target

    def learn_value(self, steps: Steps, random: np.random.Generator) -> float:
        """Make a gradient step of the network's own critic, and return its loss.

        This critic learns the value of a state without entropy, only for replays and reports.
        """
        q = self.kind.judge(self.critics, steps.obs, self.actor(steps.obs)[0], random).q
        passed = self.value.forward(steps.obs)
        error = passed.outputs - q[:, None]
        self.optimizers["value"].step(self.value.gradient(passed, 2 / len(q) * error))
        return _sum_of_means(error[..., 0])

    def state_dict(self) -> dict[str, Any]:
        """Return a copy of the state without the network's weights, as tensors and plain values."""
        return {
            "critics": torch.from_numpy(self.critics.flat.copy()),
            "targets": torch.from_numpy(self.targets.flat.copy()),
            "log_temperature": torch.from_numpy(self.log_temperature.copy()),
            "optimizers": {
                name: optimizer.state_dict() for name, optimizer in self.optimizers.items()
            },
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state_dict()` with the network's present weights. Raises KeyError,
        TypeError or ValueError if the state does not fit."""
        self.read()
        fill_array(self.critics.flat, state["critics"])
        fill_array(self.targets.flat, state["targets"])
        fill_array(self.log_temperature, state["log_temperature"])
        if abs(self.log_temperature[0]) > LARGEST_LOG_TEMPERATURE:
            raise ValueError("its temperature is out of range")
        for name, optimizer in self.optimizers.items():
            optimizer.load_state_dict(state["optimizers"][name])
