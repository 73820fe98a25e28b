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

K_P, K_I = 0.5, 0.3
"""The controller's gains. With K_P = 0, it is gradient ascent at the learning rate K_I."""
AIM = 0.97
"""The target of a cost as a share of its limit. If the target were the limit, half of all agents
would end above the limit."""
_CRITICS = 84
"""A part of the seeds that distinguishes the costs' critics from other networks."""

Estimate: TypeAlias = Callable[[Sequence[Trajectory], Float64Array], Estimates]
"""A function that returns estimates for trajectories, given the values of all observations."""


class Multipliers:
    """A PI controller for each multiplier: Stooke et al. 2020, algorithm 2, without its K_D.

    now: [K], the present multipliers.
    """

    def __init__(self, n: int) -> None:
        self.now = np.zeros(n)
        self._integral = np.zeros(n)

    def update(self, excess: Float64Array) -> None:
        """Update by the excess of the costs [K] over their targets, in units of the limits."""
        # An untrained agent's excess may be many limits, while no excess is below -1. Without a
        # bound, a multiplier would need many updates to fall again.
        excess = np.minimum(excess, 1.0)
        self._integral = np.maximum(self._integral + excess, 0.0)
        self.now = np.maximum(K_P * excess + K_I * self._integral, 0.0)

    def state_dict(self) -> dict[str, Any]:
        return {"now": self.now.tolist(), "integral": self._integral.tolist()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state_dict()`. Raises ValueError for other values."""
        parts = [state["now"], state["integral"]]
        for numbers in parts:
            if not isinstance(numbers, list) or len(numbers) != len(self.now):
                raise ValueError("it has other budgets")
            if not all(type(number) is float and math.isfinite(number) for number in numbers):
                raise ValueError("its multipliers are no numbers")
        if min([*state["now"], *state["integral"]]) < 0:
            raise ValueError("its multipliers are below 0")
        self.now, self._integral = map(np.array, parts)


class Budgets:
    """The budgets of a run and their multipliers. All policies of a team share them.

    limits: see `PPOConfig.budgets`. costs: the names of a step's costs. Raises ValueError for a
    budget of an unknown cost.
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
        """Update the multipliers from the ended episodes, then learn.

        learn: gets trajectories in which the budgets' costs [T, K] replace the environment's costs.
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
    """The metrics of one update. multipliers: their keys are "multiplier_" and a budget's name."""

    whole: Metrics
    multipliers: dict[str, float]

    def _asdict(self) -> dict[str, Any]:
        return self.whole._asdict() | self.multipliers


class CostCritics:
    """The critics of the budgets' costs for one policy, and their optimizer.

    network_of: makes an actor-critic from a seed. Only its critic is used and learns.
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
        # The last part is the critic, or the whole network if it has a shared trunk.
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
        """Return the joint advantages [B] of rewards and costs, float32, and the targets [B, K] of
        the costs' critics.

        These are (A - sum_k lambda_k u A_k) / (1 + sum_k lambda_k), as in equation 7 of Stooke et
        al. 2020. A are the advantages of rewards, in units of scaled reward. A_k are the advantages
        of costs, in budgets. u is the standard deviation of the returns in this rollout. With u, a
        multiplier of 1 gives a budget of cost the weight of one deviation of return. So the gains
        fit rewards of any scale. The deviation of A would not fit, because it shrinks when episodes
        have more steps.
        At a time limit, the last value stands for further costs, as in Ray et al.'s code: the last
        steps would otherwise look cheap to an agent that does not see the time.
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
        """Return the state. The next step changes its tensors."""
        return {
            "multipliers": self.budgets.multipliers.state_dict(),
            "critics": [network.state_dict() for network in self._networks],
            "optimizer": self.optimizer.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a copy of a `state_dict()`. Other values raise ValueError, KeyError,
        TypeError or RuntimeError."""
        self.budgets.multipliers.load_state_dict(state["multipliers"])
        for network, saved in zip(self._networks, state["critics"], strict=True):
            network.load_state_dict(copy.deepcopy(saved))
        self.optimizer.load_state_dict(state["optimizer"])
