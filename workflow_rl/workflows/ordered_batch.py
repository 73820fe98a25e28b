"""Wrap an EnvBatch, so that its agent keeps to an order."""

from collections.abc import Sequence

import numpy as np

from workflow_rl.agents.policies.distributions import Actions
from workflow_rl.environments.env_batch import EnvBatch, Obs, StepAnswers
from workflow_rl.environments.episode import EpisodeSpec
from workflow_rl.workflows.order import Order, ranks_of
from workflow_rl.workflows.rules import WorkflowRules, fixes_made, order_of_episode, ordered_obs


class OrderedEnvs:
    """An EnvBatch with ordered observations: see `rules`.

    order: if this is None, each episode's seed draws an order. penalty: what a fix that breaks the
    order costs, as reward.
    """

    def __init__(
        self,
        envs: EnvBatch,
        rules: WorkflowRules,
        order: Order | None,
        obedience: str,
        penalty: float = 0.0,
    ) -> None:
        self.n_envs = envs.n_envs
        self.close = envs.close
        self._envs = envs
        self._rules = rules
        self._order = order
        self._obedience = obedience
        self._penalty = penalty
        self._ranks = np.zeros((envs.n_envs, len(rules.workflow.groups)), np.int64)
        self._obs: Obs = np.zeros((envs.n_envs, 0))

    def reset(self, envs: Sequence[int], specs: Sequence[EpisodeSpec]) -> Obs:
        """Begin an episode in each of M envs. Return ordered observations."""
        obs = self._envs.reset(envs, specs)
        orders = [
            order_of_episode(self._rules.workflow, self._order, spec.env_seed) for spec in specs
        ]
        self._ranks[envs] = ranks_of(orders)
        return self._shown(envs, obs)

    def step(self, envs: Sequence[int], actions: Actions) -> StepAnswers:
        transitions = self._envs.step(envs, actions)
        if self._penalty:
            fixes = fixes_made(self._rules, self._obs[envs], self._ranks[envs], actions)
            cost = self._penalty * fixes.broken
            transitions = transitions._replace(reward=transitions.reward - cost)
        return transitions._replace(obs=self._shown(envs, transitions.obs))

    def _shown(self, envs: Sequence[int], obs: Obs) -> Obs:
        if self._penalty:  # The next `step` needs these observations, from before its actions.
            if not self._obs.size:
                self._obs = np.zeros((self.n_envs, obs.shape[1]), obs.dtype)
            self._obs[envs] = obs
        return ordered_obs(self._rules, obs, self._ranks[envs], self._obedience)
