"""PPO under budgets: Lagrange multipliers on the advantages of costs.

Ray, Achiam and Amodei 2019, "Benchmarking Safe Exploration in Deep Reinforcement Learning", section
5: PPO-Lagrangian. The multipliers are those of Stooke, Achiam and Abbeel 2020, "Responsive Safety
in Reinforcement Learning by PID Lagrangian Methods", arXiv 2007.03964.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from workflow_rl.agents.ppo.adam import FusedAdam
from workflow_rl.agents.ppo.advantages import Estimates
from workflow_rl.agents.ppo.config import budgets_of
from workflow_rl.agents.ppo.losses import require_finite, value_loss
from workflow_rl.agents.trajectory import Float64Array, Trajectory

if TYPE_CHECKING:
    from workflow_rl.agents.algorithm import Metrics
    from workflow_rl.agents.policies.actor_critic import ActorCritic
    from workflow_rl.agents.ppo.minibatches import Minibatch, RolloutObs
    from workflow_rl.agents.ppo.sequences import RolloutSequences

K_P, K_I, K_D = 0.5, 0.3, 0.0
"""Gains: with K_P and K_D 0, gradient ascent on the multipliers at the learning rate K_I."""
AIM = 0.97
"""The share of a limit that the multipliers aim at. Around the limit itself, half of all agents
would end above it."""
_CRITICS = 84
"""Tells the seeds of the costs' critics from those of other networks."""

Estimate: TypeAlias = Callable[[Sequence[Trajectory], Float64Array], Estimates]
"""Returns the estimates of trajectories, given the values of all observations."""


class Multipliers:
    """A PID controller of each multiplier: Stooke et al. 2020, algorithm 2.

    now: [K], the multipliers.
    """

    def __init__(self, n: int) -> None:
        self.now = np.zeros(n)
        self._integral = np.zeros(n)
        self._excess: Float64Array | None = None

    def update(self, excess: Float64Array) -> None:
        """Take how far the costs [K] are above their limits, in units of the limits."""
        # An agent that knows nothing yet may cost many times its budget, and no agent less than
        # nothing: without a bound, the multiplier would need as many updates to fall again.
        excess = np.minimum(excess, 1.0)
        rise = excess - (excess if self._excess is None else self._excess)
        self._excess = excess
        self._integral = np.maximum(self._integral + excess, 0.0)
        terms = K_P * excess + K_I * self._integral + K_D * np.maximum(rise, 0.0)
        self.now = np.maximum(terms, 0.0)

    def state_dict(self) -> dict[str, Any]:
        excess = None if self._excess is None else self._excess.tolist()
        return {"now": self.now.tolist(), "integral": self._integral.tolist(), "excess": excess}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from `state_dict()`. Raises ValueError for what is none."""
        parts = [state["now"], state["integral"]]
        parts += [] if state["excess"] is None else [state["excess"]]
        for numbers in parts:
            if not isinstance(numbers, list) or len(numbers) != len(self.now):
                raise ValueError("it has other budgets")
            if not all(type(number) is float and math.isfinite(number) for number in numbers):
                raise ValueError("its multipliers are no numbers")
        if min([*state["now"], *state["integral"]]) < 0:
            raise ValueError("its multipliers are below 0")
        self.now, self._integral, *excess = map(np.array, parts)
        self._excess = excess[0] if excess else None


class Budgets:
    """The budgets of a run and their multipliers, which all policies of a team share.

    limits: see `PPOConfig.budgets`. costs: the names of the costs that each step has. Raises
    ValueError for a budget of another cost.
    """

    def __init__(self, limits: Mapping[str, float], costs: tuple[str, ...]) -> None:
        self._budgets = budgets_of(limits)
        self._columns = [costs.index(budget.cost) for budget in self._budgets]
        self.multipliers = Multipliers(len(self._budgets))

    def learned(
        self,
        trajectories: Sequence[Trajectory],
        learn: Callable[[Sequence[Trajectory]], Metrics],
    ) -> BudgetMetrics:
        """Set the multipliers by the episodes that ended, then learn.

        learn: takes the trajectories with the budgets' costs [T, K] in the place of the
        environment's.
        """
        ended = [trajectory.episode_costs for trajectory in trajectories if trajectory.ended]
        if ended:
            pairs = zip(self._budgets, np.array(ended)[:, self._columns].T, strict=True)
            excess = [(of.charged(sums).mean() - AIM * of.allowed) / of.unit for of, sums in pairs]
            self.multipliers.update(np.array(excess))
        metrics = learn([self._charged(trajectory) for trajectory in trajectories])
        names = (f"multiplier_{budget.name}" for budget in self._budgets)
        return BudgetMetrics(metrics, dict(zip(names, self.multipliers.now.tolist(), strict=True)))

    def _charged(self, trajectory: Trajectory) -> Trajectory:
        assert trajectory.costs is not None
        assert trajectory.costs_before is not None
        of_columns = [*zip(trajectory.costs.T, trajectory.costs_before, strict=True)]
        costs = [
            budget.charged_by_step(*of_columns[column]) / budget.unit
            for budget, column in zip(self._budgets, self._columns, strict=True)
        ]
        return trajectory._replace(costs=np.stack(costs, axis=1), costs_before=None)


@dataclass(frozen=True)
class BudgetMetrics:
    """What one update did. multipliers: by "multiplier_" and the budget's name."""

    whole: Metrics
    multipliers: dict[str, float]

    def _asdict(self) -> dict[str, Any]:
        return self.whole._asdict() | self.multipliers


class CostCritics:
    """What one policy learns of the budgets' costs: a critic of each, and their optimizer.

    network_of: makes an actor-critic of a seed, of which only the critic is used and learns.
    """

    def __init__(
        self,
        budgets: Budgets,
        network_of: Callable[[int], ActorCritic],
        seed: int,
        max_grad_norm: float,
    ) -> None:
        self.budgets = budgets
        n_budgets = len(budgets.multipliers.now)
        seeds = np.random.SeedSequence([seed, _CRITICS]).generate_state(n_budgets)
        self._networks = [network_of(int(critic_seed)) for critic_seed in seeds]
        # The last part is the critic, or of a shared trunk the whole network.
        self._parameters = [[*network.parts().values()][-1] for network in self._networks]
        self._max_grad_norm = max_grad_norm
        self.optimizer = FusedAdam(itertools.chain(*self._parameters), 0.0, eps=1e-5)

    def joined(
        self,
        trajectories: Sequence[Trajectory],
        seen: RolloutObs | RolloutSequences,
        of_reward: Estimates,
        estimate: Estimate,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the advantages [B] of rewards and costs together, float32, and the targets of the
        costs' critics [B, K].

        (A - sum_k lambda_k u A_k) / (1 + sum_k lambda_k): Stooke et al. 2020, equation 7, with the
        advantages A of rewards, and u the deviation of the returns in this rollout. A is in units
        of scaled reward, which differ from environment to environment by orders of magnitude, and
        A_k is in budgets. With u, a multiplier of 1 weighs a budget of cost as much as a deviation
        of return, whatever the rewards' scale and whether they are normalised. So the same gains
        do everywhere. The deviation of A itself would not do: it shrinks with the steps of an
        episode, and A_k does too.
        """
        multipliers = self.budgets.multipliers.now
        advantage = of_reward.advantage.astype(np.float64)
        unit = float(of_reward.return_.std(dtype=np.float64)) or 1.0
        targets = []
        for k, network in enumerate(self._networks):
            value = seen.computed(network.values).cpu().numpy().astype(np.float64)
            charged = [
                trajectory._replace(reward=trajectory.costs[:, k])
                for trajectory in trajectories
                if trajectory.costs is not None
            ]
            of_cost = estimate(charged, value)
            advantage -= multipliers[k] * unit * of_cost.advantage
            targets.append(of_cost.return_)
        joined = (advantage / (1 + multipliers.sum())).astype(np.float32)
        return joined, np.stack(targets, axis=1)

    def learn(self, minibatch: Minibatch) -> None:
        """Make a gradient step of each critic."""
        self.optimizer.zero_grad()
        for k, (network, parameters) in enumerate(
            zip(self._networks, self._parameters, strict=True)
        ):
            values = network.values(minibatch.obs)
            of_steps = values if minibatch.row is None else values[minibatch.row]
            loss: Tensor = value_loss(of_steps, minibatch.steps.cost_return[:, k])
            require_finite({"cost critic's loss": loss.detach()})
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(parameters, self._max_grad_norm)
            require_finite({"cost critic's gradient": norm})
        self.optimizer.step()

    def state_dict(self) -> dict[str, Any]:
        """Return the state, whose tensors change with the next step."""
        return {
            "multipliers": self.budgets.multipliers.state_dict(),
            "critics": [network.state_dict() for network in self._networks],
            "optimizer": self.optimizer.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a copy of `state_dict()`. Raises ValueError, or KeyError, TypeError or
        RuntimeError for what is none."""
        self.budgets.multipliers.load_state_dict(state["multipliers"])
        for network, saved in zip(self._networks, state["critics"], strict=True):
            network.load_state_dict(copy.deepcopy(saved))
        self.optimizer.load_state_dict(state["optimizer"])
