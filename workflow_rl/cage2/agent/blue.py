"""The base class of blue agents. They act on records of Blue's observations: see `records`.

Workers import this module, so it imports no torch.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.distributions import Choice
from workflow_rl.cage2.scenario.family import ScenarioFamily
from workflow_rl.cage2.scenario.scenario import Scenario

if TYPE_CHECKING:
    from workflow_rl.cage2.env.environment import Cage2
    from workflow_rl.environments.env_batch import EnvBatchFactory

MOST_PROBABILITIES = 5


@dataclass(frozen=True)
class Decision:
    """How a policy chose an action.

    probabilities: names and probabilities of the MOST_PROBABILITIES likeliest actions and of the
    chosen action. value: the return that the critic expects, or None if there is no critic.
    is_opening: whether the action belongs to the opening, the fixed first actions of an episode."""

    probabilities: tuple[tuple[str, float], ...]
    value: float | None = None
    is_opening: bool = False


def likeliest(
    probability: NDArray[np.float64], chosen: int, names: Sequence[str]
) -> tuple[tuple[str, float], ...]:
    """Return `Decision.probabilities`.

    probability: `[len(names)]`. chosen: the chosen action's index."""
    shown = np.argsort(-probability, kind="stable")[:MOST_PROBABILITIES].tolist()
    if chosen not in shown:
        shown.append(chosen)
    return tuple((names[i], float(probability[i])) for i in shown if probability[i] > 0)


class Blue:
    """A blue agent: an Actor whose observations are records of `network`, see `record_of`.

    choice: how the agent chooses actions: "greedy", "sampled" or "scripted"."""

    network: Scenario
    policy_version = 0

    def __init__(self, name: str, choice: str) -> None:
        self.name = name
        self.choice = choice

    @property
    def played(self) -> Scenario | ScenarioFamily:
        return self.network

    def into(self, network: Scenario) -> Blue:
        """Return the agent for another network. Raises ConfigError if the agent does not fit."""
        raise NotImplementedError

    def reset(self, seed: int, env: int = 0, n_acted: int = 0) -> None:
        """Begin an episode in env number `env`. The seed determines the agent's random choices."""
        raise NotImplementedError

    def act(self, obs: NDArray[Any], envs: Sequence[int] = (0,)) -> Choice:
        """Return, for M records, indices of the network's actions and their log-probabilities."""
        raise NotImplementedError

    def make_envs(self, environment: Cage2) -> EnvBatchFactory:
        """Return a factory of the environment's envs. The envs show what the agent observes."""
        from workflow_rl.cage2.env.viewed_envs import record_envs

        return functools.partial(record_envs, environment)

    def watch(self) -> None:
        """From now on, store `decision` after each action. The agent may play in one env only."""

    @property
    def decision(self) -> Decision | None:
        """How the last action was chosen, or None for a scripted agent."""
        return None
