"""The simulator in which Red's policy learns, against a Blue that does not learn."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from workflow_rl.agents.policies.distributions import Choice
from workflow_rl.agents.policies.numpy_policy import Actor
from workflow_rl.cage2.agent.records import records
from workflow_rl.cage2.compiled.description import tables_of
from workflow_rl.cage2.compiled.red_simulator import RedSimulator
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scenario2 import RED_AGENTS


class RedAgainstBlue(RedSimulator):
    """N networks that step together, with an actor as Blue. `step` takes Red's actions.

    The episodes are the same as in `Cage2RedEnv`. Observations are `rows`, uint8, `[N, 69 + 44]` in
    Scenario 2. A row ends with the mask of Red's actions. The red agent from outside is called "".

    blue: an actor on records, see `agent.blue`, or None if Blue only sleeps. The caller must not
    use this actor again."""

    def __init__(self, n_envs: int, max_steps: int, blue: Actor | None, scenario: Scenario) -> None:
        super().__init__(n_envs, max_steps, tables=tables_of(scenario))
        self.red_agents = (*RED_AGENTS, "")
        self._blue = blue
        self._blue_actions = np.zeros(n_envs, np.int64)

    def reset(
        self,
        seeds: ArrayLike,
        red_agents: ArrayLike,
        chosen: ArrayLike | None = None,
        scenarios: ArrayLike = 0,
    ) -> NDArray[np.uint8]:
        """See `RedSimulator.reset`. Return `rows`."""
        super().reset(seeds, red_agents, chosen, scenarios)
        if self._blue is not None:
            seeds = np.broadcast_to(seeds, len(self.states))
            for env in np.flatnonzero(self._mask(chosen)).tolist():
                self._blue.reset(int(seeds[env]), env)
        return self.rows

    def step(
        self, actions: ArrayLike, chosen: ArrayLike | None = None
    ) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
        """Let Blue act on its observation of the step before, then let Red act. Return `rows`, and
        Red's rewards, `[N]`."""
        mask = self._mask(chosen)
        if self._blue is not None:
            envs = np.flatnonzero(mask)
            shown = records(self.tables.scenario, self.obs[envs], self.caught[envs])
            self._blue_actions[envs], _ = self._blue.act(shown, envs.tolist())
        self.play_both(self._blue_actions, np.asarray(actions), mask)
        # A minus sign would give -0.0.
        return self.rows, 0.0 - self.rewards


class BareRed:
    """Wrap an actor of `RedAgainstBlue`, so that it takes the observations of `Cage2RedEnv`."""

    def __init__(self, actor: Actor, scenario: Scenario) -> None:
        self.actor = actor
        self._size = scenario.red_obs_size
        # For each action except Sleep, which is action 0: the bit that makes the action possible.
        self._facts = tables_of(scenario).of["fact_needed"][1:]
        self.policy_version = actor.policy_version
        self.reset = actor.reset

    def act(self, obs: NDArray[np.uint8], envs: Sequence[int] = (0,)) -> Choice:
        """Return actions for obs [M, `red_obs_size`], and log-probabilities: see Actor."""
        obs = np.atleast_2d(obs)
        if obs.shape[1:] != (self._size,):
            raise ValueError(f"observations have {self._size} numbers, not {obs.shape[1:]}")
        sleep = np.ones_like(obs[:, :1])
        return self.actor.act(np.concatenate([obs, sleep, obs[:, self._facts]], axis=1), envs)
