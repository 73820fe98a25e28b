"""How the champion's networks learn: by copying the rules, then by PPO.

PPO is of Schulman et al. (2017, equation 7). A critic that sees the true state gives the advantages
(GAE, Schulman et al. 2016, equation 16), in steps; each agent has its own reward. The two networks
do not share weights.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from workflow_rl.agents.ppo.adam import FusedAdam
from workflow_rl.cage4.agent.champion_network import POOLED, SHAPES, Weights
from workflow_rl.cage4.agent.memory import CLOCK, END, N_CLOCK
from workflow_rl.cage4.agent.views import N_SEEN
from workflow_rl.cage4.champion.config import ChampionConfig
from workflow_rl.cage4.champion.episodes import KEPT, Episodes

GROUPS = (slice(0, 4), slice(4, 5))
"""The agents that each of the two networks plays."""
CRITIC_STATES, CRITIC_MINIBATCH, VALUE_SCALE = 40_000, 1024, 10.0
ADAM_STATE = ("step", "exp_avg", "exp_avg_sq")
CRITIC_HIDDEN, N_INPUTS = 48, N_SEEN + N_CLOCK + 16


def torch_logits(
    w: dict[str, torch.Tensor], hosts: torch.Tensor, context: torch.Tensor
) -> torch.Tensor:
    """`champion_network.logits` of many decisions."""
    first = hosts @ w["host"] + (context @ w["host_context"] + w["host_bias"])[:, None]
    first = torch.relu(first) * hosts[..., :1]
    pool = torch.cat([first.sum(1) / POOLED, first.max(1).values], 1)
    mixed = pool @ w["mixed_pool"] + context @ w["mixed_context"] + w["mixed_bias"]
    acts = torch.relu(first @ w["mixed"] + mixed[:, None]) @ w["act"] + w["act_bias"]
    wait = torch.relu(pool @ w["wait"] + context @ w["wait_context"] + w["wait_bias"])
    return torch.cat([wait @ w["wait_out"], acts[..., 0], acts[..., 1]], 1)


def fresh_weights(draw: np.random.Generator) -> Weights:
    """Return weights to begin with."""
    scales = {"act": 0.1, "wait_out": 0.1, "host_context": 0.7, "mixed_context": 0.7}
    return tuple(
        (
            draw.normal(size=shape)
            * (np.sqrt(2 / shape[0]) * scales.get(name, 1.0) if len(shape) == 2 else 0)
        ).astype(np.float32)
        for name, shape in SHAPES.items()
    )


class NetworkLearner:
    """One network with its critic. which: the index of its group of agents."""

    def __init__(self, config: ChampionConfig, weights: Weights, which: int) -> None:
        self.config, self.group, self.which = config, GROUPS[which], which
        self.w = {
            name: torch.tensor(array, requires_grad=True)
            for name, array in zip(SHAPES, weights, strict=True)
        }
        self.critic = torch.nn.Sequential(
            torch.nn.Linear(N_INPUTS, CRITIC_HIDDEN),
            torch.nn.Tanh(),
            torch.nn.Linear(CRITIC_HIDDEN, CRITIC_HIDDEN),
            torch.nn.Tanh(),
            torch.nn.Linear(CRITIC_HIDDEN, 1),
        )
        self._steps = {
            "actor": FusedAdam(self.w.values(), config.learning_rate, 1e-5),
            "critic": FusedAdam(self.critic.parameters(), config.critic_learning_rate, 1e-8),
        }

    @property
    def weights(self) -> Weights:
        """The network's arrays, in the order of SHAPES."""
        return tuple(w.detach().numpy().copy() for w in self.w.values())

    def state(self) -> dict[str, NDArray[Any]]:
        """Return all that the next update depends on, as arrays by name."""
        arrays = {f"w/{name}": w.detach().numpy() for name, w in self.w.items()}
        for name, tensor in self.critic.state_dict().items():
            arrays[f"critic/{name}"] = tensor.numpy()
        for which, steps in self._steps.items():
            for i, moments in steps.state_dict()["state"].items():
                for name, tensor in moments.items():
                    arrays[f"steps/{which}/{i}/{name}"] = tensor.numpy()
        return arrays

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go on from a state. Raises LookupError, ValueError or RuntimeError for another's."""
        tensors = {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
        with torch.no_grad():
            for name, w in self.w.items():
                w.copy_(tensors[f"w/{name}"])
        self.critic.load_state_dict(
            {name: tensors[f"critic/{name}"] for name in self.critic.state_dict()}
        )
        for which, steps in self._steps.items():
            moments = {
                i: {key: tensors[f"steps/{which}/{i}/{key}"] for key in ADAM_STATE}
                for i in range(len(steps.parameters))
                if f"steps/{which}/{i}/step" in tensors
            }
            steps.load_state_dict({"state": moments})

    def _inputs(self, seen: NDArray[np.float32]) -> torch.Tensor:
        """Return what the critic sees, `[499, N, agents, N_INPUTS]`."""
        seen = seen[:, :, self.group].copy()
        clock = np.broadcast_to(
            CLOCK[: END + 1, None, self.group], (*seen.shape[:-1], CLOCK.shape[-1])
        )
        seen[..., 0] /= 2
        seen[..., [1, *range(3, 13)]] /= 3
        held = seen[..., 3:11]
        parts = [seen, clock, held * clock[..., :1], held * clock[..., 5:6]]
        return torch.from_numpy(np.concatenate(parts, -1))

    def advantages(self, episodes: Episodes) -> tuple[NDArray[np.float32], float]:
        """Return advantages `[498, N, agents]`, and the share of variance that the critic
        explained. The critic learns from the returns."""
        inputs, rewards = self._inputs(episodes.seen), episodes.rewards[:, :, self.group]
        with torch.no_grad():
            values = VALUE_SCALE * self.critic(inputs)[..., 0].numpy()
        values[-1], discount = 0, self.config.discount
        advantages, later = np.zeros_like(rewards), np.zeros_like(rewards[0])
        for step in reversed(range(END)):
            surprise = rewards[step] + discount * values[step + 1] - values[step]
            later = surprise + discount * self.config.gae_lambda * later
            advantages[step] = later
        returns = torch.from_numpy((advantages + values[:END]).ravel())
        explained = 1 - float(advantages.var() / returns.var())
        states = inputs[:END].reshape(-1, N_INPUTS)
        chosen = torch.randperm(len(states))[:CRITIC_STATES]
        for part in chosen.split(CRITIC_MINIBATCH):
            error = VALUE_SCALE * self.critic(states[part])[..., 0] - returns[part]
            self._steps["critic"].zero_grad()
            (error**2).mean().backward()
            self._steps["critic"].step()
        return advantages, explained

    def copy(self, episodes: Episodes) -> float:
        """Learn to do as the teacher did. Returns the last epoch's mean loss."""
        hosts, context, options, chosen, _, weight, _ = self._decisions(episodes)
        steps = FusedAdam(self.w.values(), self.config.copy_learning_rate, 1e-8)
        for _ in range(self.config.copy_epochs):
            losses = []
            for part in torch.randperm(len(chosen)).split(self.config.copy_minibatch_size):
                scores = torch_logits(self.w, hosts[part], context[part]).masked_fill(
                    ~options[part], -1e9
                )
                loss = torch.nn.functional.cross_entropy(scores, chosen[part], reduction="none")
                steps.zero_grad()
                (loss * weight[part]).mean().backward()
                steps.step()
                losses.append(float(loss.detach().mean()))
        return float(np.mean(losses))

    def _decisions(self, episodes: Episodes) -> tuple[Any, ...]:
        room = episodes.rooms[self.which]
        n = int(room.n[0])
        hosts, context, options, where, log_prob = (torch.from_numpy(a[:n]) for a in room[:5])
        weight = torch.where(where[:, 0] > 0, 1.0, 1 / KEPT)
        at = (where[:, 3].numpy(), where[:, 1].numpy(), where[:, 2].numpy() - self.group.start)
        return hosts, context, options, where[:, 0], log_prob, weight, at

    def improve(self, episodes: Episodes, remaining: float) -> tuple[float, float]:
        """Take one update of PPO. remaining: the share of the training to come, from 1 to 0.

        Returns the critic's explained variance, and the last epoch's mean divergence.
        """
        config = self.config
        self._steps["actor"].learning_rate = (
            config.learning_rate * remaining + config.learning_rate_final
        )
        all_advantages, explained = self.advantages(episodes)
        hosts, context, options, chosen, before, weight, at = self._decisions(episodes)
        weight /= weight.mean()
        # Rare advantages are large, and count in full: to miss a root session for a decisive phase
        # costs more than all Restores of an episode.
        advantages = torch.from_numpy(all_advantages[at])
        advantages -= (advantages * weight).mean()
        advantages /= math.sqrt((advantages**2 * weight).mean())
        for _ in range(config.epochs):
            divergences = []
            for part in torch.randperm(len(chosen)).split(config.minibatch_size):
                scores = torch_logits(self.w, hosts[part], context[part])
                log_probs = torch.log_softmax(scores.masked_fill(~options[part], -1e9), 1)
                change = log_probs.gather(1, chosen[part, None])[:, 0] - before[part]
                ratio, gain = change.exp(), advantages[part]
                surrogate = torch.minimum(
                    ratio * gain, ratio.clamp(1 - config.clip, 1 + config.clip) * gain
                )
                entropy = -(log_probs.exp() * log_probs.clamp(min=-50)).sum(1)
                goal = (
                    (surrogate + config.entropy_coef * remaining**2 * entropy) * weight[part]
                ).mean()
                self._steps["actor"].zero_grad()
                (-goal).backward()
                torch.nn.utils.clip_grad_norm_(self.w.values(), config.max_grad_norm)
                self._steps["actor"].step()
                divergences.append(float(((ratio - 1 - change) * weight[part]).mean().detach()))
            if np.mean(divergences) > config.max_divergence:
                break
        return explained, float(np.mean(divergences))
