"""Copying a teacher with PPO's agent, before the first update."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from workflow_rl.agents.algorithm import CopyMetrics
from workflow_rl.agents.policies.distributions import Distribution
from workflow_rl.agents.policies.further_distributions import Joint
from workflow_rl.agents.ppo.adam import FusedAdam
from workflow_rl.agents.ppo.losses import copy_weights, explained_variance, require_finite
from workflow_rl.agents.ppo.minibatches import Minibatch
from workflow_rl.agents.trajectory import Trajectory

if TYPE_CHECKING:
    from workflow_rl.agents.ppo.agent import PPOAgent

LEARNING_RATE = 3e-3
"""The learning rate of copying. A run's own rate may be too small for the few steps."""
N_MINIBATCHES = 100
"""The number of minibatches in an epoch. Copying needs many steps of the optimizer."""


def copied(
    agent: PPOAgent, taught: Sequence[Trajectory], held_out: Sequence[Trajectory], epochs: int
) -> Iterator[CopyMetrics]:
    """See `LearningAgent.copy`. The critic learns the discounted returns.

    The deviation of continuous actions is not learned, because a deterministic teacher would shrink
    it to 0.
    """
    config = agent.config
    if agent.return_scale is not None:
        agent.return_scale.update(taught)
        agent.return_scale.forget_episodes()
    if agent.obs_moments is not None:
        agent.obs_moments.update(agent.normalised_numbers(taught))
    optimizer = FusedAdam(agent.network.parameters(), LEARNING_RATE, eps=1e-5)
    n_steps = sum(trajectory.length for trajectory in taught)
    size = min(config.minibatch_size, math.ceil(n_steps / N_MINIBATCHES))
    shuffle = np.random.default_rng([agent.seed, N_MINIBATCHES, 0])
    for epoch in range(epochs):
        seen, batch, _ = agent.make_batch(taught, of_returns=True)
        if config.teacher_beta and epoch:  # In the first epoch, the critic is untrained.
            advantage = agent.make_batch(taught)[1].advantage
            batch = batch._replace(weight=copy_weights(advantage, config.teacher_beta))
        losses = []
        n_minibatches = math.ceil(len(batch.action) / size)
        for minibatch in seen.minibatches(batch, n_minibatches, False, shuffle):
            optimizer.zero_grad()
            losses.append(_add_gradients(agent, minibatch))
            optimizer.step()
        policy_loss, critic_loss = torch.stack(losses).mean(dim=0).tolist()
        yield CopyMetrics(policy_loss, critic_loss, _agreement(agent, held_out))


def _add_gradients(agent: PPOAgent, minibatch: Minibatch) -> Tensor:
    """Add the gradients of copying. Return the losses of the actor and the critic."""
    outputs, values = agent.network(minibatch.obs)
    log_std = None if agent.network.log_std is None else agent.network.log_std.detach()
    log_prob, _ = agent.distribution.log_prob_and_entropy(
        outputs, log_std, minibatch.row, minibatch.steps.action
    )
    policy_loss = -(minibatch.steps.weight * log_prob).mean()
    critic_loss = agent.critic_loss(minibatch, values)
    require_finite({"policy's loss": policy_loss, "value's loss": critic_loss})
    (policy_loss + agent.config.value_coef * critic_loss).backward()
    for parameters in agent.network.parts().values():
        torch.nn.utils.clip_grad_norm_(parameters, agent.config.max_grad_norm)
    return torch.stack([policy_loss, critic_loss]).detach()


@torch.no_grad()
def _agreement(agent: PPOAgent, trajectories: Sequence[Trajectory]) -> float:
    """Return the agreement of the likeliest actions with the trajectories: see CopyMetrics."""
    if not trajectories:
        return math.nan
    seen, acted, _ = agent.seen(trajectories)
    outputs, log_std = seen.computed(agent.network.outputs).cpu().numpy(), agent.network.log_std
    prepared = agent.distribution.prepare(
        outputs, None if log_std is None else log_std.cpu().numpy()
    )
    likeliest, _ = agent.distribution.mode(prepared, acted)
    action = np.concatenate([trajectory.action for trajectory in trajectories])
    return _agreement_of(agent.distribution, likeliest, action)


def _agreement_of(distribution: Distribution, likeliest: Any, action: Any) -> float:
    if distribution.takes_masks:
        return float((likeliest == action).reshape(len(action), -1).all(axis=1).mean())
    if isinstance(distribution, Joint):
        of = distribution.of_part
        return min(
            _agreement_of(part, of(n, likeliest), of(n, action))
            for n, part in enumerate(distribution.parts)
        )
    return explained_variance(torch.from_numpy(likeliest), torch.from_numpy(action))
