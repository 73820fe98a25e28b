"""CAGE-2 envs as Blue's policy sees them while it learns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.distributions import Actions
from workflow_rl.cage2.agent.action_sets import ActionSet
from workflow_rl.cage2.agent.network_facts import Indices, NetworkFacts
from workflow_rl.cage2.agent.views import Bits, Sees, View, plain
from workflow_rl.environments.env_batch import EnvBatch, StepAnswers
from workflow_rl.environments.environment import InvalidEnvironmentError
from workflow_rl.environments.episode import EpisodeSpec


class TrueStateView:
    """Shows the whole network: see `compiled.true_state`. envs: of the compiled simulator."""

    def __init__(self, envs: EnvBatch) -> None:
        states = getattr(envs, "states", None)
        if states is None:
            raise InvalidEnvironmentError(
                "observation", "true-state is shown by the simulator compiled alone"
            )
        self._states: NDArray[Any] = states

    def begin(self, envs: Sequence[int], obs: Bits) -> Bits:
        """See `views.Sees`."""
        from workflow_rl.cage2.compiled.true_state import N_SHOWN, SCENARIO2, show_states

        shown = np.empty((len(obs), N_SHOWN), np.uint8)
        show_states(self._states, SCENARIO2.record, np.array(envs), plain(obs), shown)
        return shown

    def after(self, envs: Sequence[int], actions: Indices, obs: Bits) -> Bits:
        """See `views.Sees`."""
        return self.begin(envs, obs)


def view_size(observation: str, facts: NetworkFacts) -> int:
    """Return the number of bits that a view shows."""
    if observation == "true-state":
        from workflow_rl.cage2.compiled.true_state import N_SHOWN

        return N_SHOWN
    return View(observation, facts).n_shown


class ViewedEnvs:
    """CAGE-2 envs with the observations and actions of Blue's policy. An EnvBatch.

    Observations end with the mask of the actions, if the actions have masks.

    opening: actions that begin every episode. The policy chooses after them. facts: what Blue knows
    of the networks.
    """

    def __init__(
        self,
        envs: EnvBatch,
        observation: str,
        actions: str,
        opening: Sequence[str],
        facts: NetworkFacts,
    ) -> None:
        self.n_envs = envs.n_envs
        self.close = envs.close
        self._envs = envs
        playing = getattr(envs, "playing", None)
        self.view: Sees = (
            TrueStateView(envs)
            if observation == "true-state"
            else View(observation, facts, playing)
        )
        self._actions = ActionSet(actions, facts, playing)
        self._opening = [facts.named.index(name) for name in opening]
        self._opening_rewards = np.zeros(envs.n_envs)

    def reset(self, envs: Sequence[int], specs: Sequence[EpisodeSpec]) -> Bits:
        """Begin an episode in each of M envs. Return what Blue sees, uint8 [M, D]."""
        seen = self.view.begin(envs, self._envs.reset(envs, specs))
        self._actions.begin(envs)
        self._opening_rewards[envs] = 0
        for action in self._opening:
            transitions = self._step(envs, np.full(len(envs), action))
            self._opening_rewards[envs] += transitions.reward
            seen = transitions.obs
        return self._actions.with_masks(seen, envs)

    def step(self, envs: Sequence[int], actions: Actions) -> StepAnswers:
        """Step each of M envs once. actions: indices [M] into the action set.

        The first reward of an episode includes the rewards of the opening.
        """
        transitions = self._step(envs, self._actions.chosen(envs, actions))
        reward = transitions.reward + self._opening_rewards[envs]
        self._opening_rewards[envs] = 0
        obs = self._actions.with_masks(transitions.obs, envs)
        return transitions._replace(obs=obs, reward=reward)

    def _step(self, envs: Sequence[int], actions: Indices) -> StepAnswers:
        transitions = self._envs.step(envs, actions)
        self._actions.after(envs, actions)
        return transitions._replace(obs=self.view.after(envs, actions, transitions.obs))
