"""Soft actor-critic for discrete actions (Christodoulou 2019, "Soft Actor-Critic for Discrete
Action Settings"; Haarnoja et al. 2018, "Soft Actor-Critic Algorithms and Applications")."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from agents.losses import categorical_entropy
from agents.networks import ActorCritic, mlp
from agents.replay import Transitions

FIRST_TEMPERATURE = 0.1
TEMPERATURE_LEARNING_RATE = 3e-3
ADAM_EPS = 1e-5


class Steps(NamedTuple):
    """Transitions as tensors: obs, next_obs float32 [B, D]; action int64 [B]; reward, scaled, and
    going_on, 0 where the episode terminated and else 1, float32 [B]."""

    obs: Tensor
    action: Tensor
    reward: Tensor
    next_obs: Tensor
    going_on: Tensor


def steps_of(transitions: Transitions, reward_scale: float) -> Steps:
    """On the CPU."""
    columns = (
        transitions.obs.astype(np.float32),
        transitions.action,
        (reward_scale * transitions.reward).astype(np.float32),
        transitions.next_obs.astype(np.float32),
        1 - transitions.terminated.astype(np.float32),
    )
    return Steps(*map(torch.from_numpy, columns))


def soft_value(q: Tensor, log_prob: Tensor, temperature: Tensor) -> Tensor:
    """Of states [B], given the values and log-probabilities of all actions [B, A]: Christodoulou
    2019, equation 10."""
    return (log_prob.exp() * (q - temperature * log_prob)).sum(dim=-1)


class LearnedMetrics(NamedTuple):
    """Of one gradient step: the losses, the policy's entropy in nats, and the temperature."""

    policy_loss: Tensor
    value_loss: Tensor
    entropy: Tensor
    temperature: Tensor


class SoftActorCritic:
    """Learns the actor of a network, with a pair of critics of all actions' values, and the
    temperature that holds the policy's entropy at its target.

    The network's own critic learns the value of a state, unsoftened, for those who look at the
    agent; nothing is learned from it.

    target_entropy: nats. The initial weights follow from `seed`.
    """

    def __init__(
        self,
        network: ActorCritic,
        hidden_sizes: tuple[int, ...],
        discount: float,
        learning_rate: float,
        target_rate: float,
        target_entropy: float,
        seed: int,
    ) -> None:
        self.network = network
        self.discount = discount
        self.target_rate = target_rate
        self.target_entropy = target_entropy
        sizes = [network.obs_dim, *hidden_sizes, network.distribution.n_outputs]
        generator = torch.Generator().manual_seed(seed)
        self.critics = nn.ModuleList(mlp(sizes, "relu", 0.1, generator) for _ in range(2))
        self.targets = copy.deepcopy(self.critics).requires_grad_(False)
        self.log_temperature = torch.tensor(math.log(FIRST_TEMPERATURE), requires_grad=True)

        def adam(parameters: Any, rate: float = learning_rate) -> torch.optim.Adam:
            return torch.optim.Adam(parameters, lr=rate, eps=ADAM_EPS, fused=True)

        self.optimizers = {
            "actor": adam(network.parts()[0]),
            "critic": adam(network.parts()[1]),
            "critics": adam(self.critics.parameters()),
            "temperature": adam([self.log_temperature], TEMPERATURE_LEARNING_RATE),
        }

    def learn(self, steps: Steps) -> LearnedMetrics:
        """One gradient step of everything."""
        temperature = self.log_temperature.exp().detach()
        values = [critic(steps.obs) for critic in self.critics]
        target = self.target_of(steps, temperature)
        taken = [q.gather(1, steps.action[:, None])[:, 0] for q in values]
        value_loss = torch.stack([(q - target).square().mean() for q in taken]).sum()
        self._step("critics", value_loss)
        q = torch.minimum(*values).detach()
        log_prob = torch.log_softmax(self.network.actor(steps.obs), dim=-1)
        policy_loss = -soft_value(q, log_prob, temperature).mean()
        self._step("actor", policy_loss)
        log_prob = log_prob.detach()
        value = self.network.critic(steps.obs).squeeze(-1)
        self._step("critic", (value - (log_prob.exp() * q).sum(dim=-1)).square().mean())
        entropy = categorical_entropy(log_prob).mean()
        # Haarnoja et al. 2018, equation 18.
        self._step("temperature", self.log_temperature.exp() * (entropy - self.target_entropy))
        self._follow()
        return LearnedMetrics(policy_loss.detach(), value_loss.detach(), entropy, temperature)

    @torch.no_grad()
    def target_of(self, steps: Steps, temperature: Tensor) -> Tensor:
        """What the critics learn of steps [B]: Haarnoja et al. 2018, equation 3, with the lesser of
        the two targets' values."""
        q = torch.minimum(*(target(steps.next_obs) for target in self.targets))
        log_prob = torch.log_softmax(self.network.actor(steps.next_obs), dim=-1)
        ahead = soft_value(q, log_prob, temperature)
        return steps.reward + self.discount * steps.going_on * ahead

    def _step(self, name: str, loss: Tensor) -> None:
        optimizer = self.optimizers[name]
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    @torch.no_grad()
    def _follow(self) -> None:
        both = zip(self.targets.parameters(), self.critics.parameters(), strict=True)
        for target, parameter in both:
            target.lerp_(parameter, self.target_rate)

    def state_dict(self) -> dict[str, Any]:
        """All but the network, as tensors and plain values."""
        return {
            "critics": self.critics.state_dict(),
            "targets": self.targets.state_dict(),
            "log_temperature": self.log_temperature.detach().clone(),
            "optimizers": {
                name: optimizer.state_dict()["state"] for name, optimizer in self.optimizers.items()
            },
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse. Raises RuntimeError, KeyError or ValueError if it does not fit."""
        self.critics.load_state_dict(state["critics"])
        self.targets.load_state_dict(state["targets"])
        with torch.no_grad():
            self.log_temperature.copy_(state["log_temperature"])
        for name, optimizer in self.optimizers.items():
            moments = copy.deepcopy(state["optimizers"][name])
            groups = optimizer.state_dict()["param_groups"]
            optimizer.load_state_dict({"state": moments, "param_groups": groups})
            parameters = itertools.chain(*(group["params"] for group in optimizer.param_groups))
            for parameter in parameters:
                kept = optimizer.state.get(parameter)
                if kept and not parameter.shape == kept["exp_avg"].shape:
                    raise ValueError("its optimizers are of other networks")
