"""The EnvBatch in which Red's policy learns, against a Blue that does not learn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.distributions import Actions, Choice
from workflow_rl.agents.policies.numpy_policy import Actor
from workflow_rl.cage.network_batch import NetworkEnvs, Numbers
from workflow_rl.cage2.agent.records import records
from workflow_rl.cage2.compiled.description import tables_of
from workflow_rl.cage2.compiled.red_simulator import RedSimulator
from workflow_rl.cage2.compiled.red_steps import OUTSIDE
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.environments.env_batch import Obs
from workflow_rl.environments.episode import EpisodeSpec


class RedEnvs(NetworkEnvs):
    """`n_envs` networks that step in one call of compiled code, for Red's policy.

    The episodes are the same as in `Cage2RedEnv`. Observations are uint8, `[M, 69 + 44]` in
    Scenario 2, and end with the mask of Red's actions.

    blue: an actor on records, see `agent.blue`, or None if Blue only sleeps. The caller must not
    use this actor again."""

    def __init__(self, max_steps: int, n_envs: int, blue: Actor | None, scenario: Scenario) -> None:
        super().__init__(n_envs, max_steps)
        self._simulator = RedSimulator(n_envs, max_steps, tables=tables_of(scenario))
        self._scenario = scenario
        self._blue = blue
        self._blue_actions = np.zeros(n_envs, np.int64)

    def _begin(
        self, envs: Numbers, specs: Sequence[EpisodeSpec], seeds: Numbers, mask: NDArray[np.bool_]
    ) -> Obs:
        self._simulator.reset(seeds, OUTSIDE, mask)
        if self._blue is not None:
            for env, spec in zip(envs.tolist(), specs, strict=True):
                self._blue.reset(spec.env_seed, env)
        return self._simulator.rows[envs]

    def _play(
        self, envs: Numbers, actions: Actions, mask: NDArray[np.bool_]
    ) -> tuple[Obs, NDArray[Any]]:
        """Let Blue act on its observation of the step before, then let Red act."""
        simulator = self._simulator
        if self._blue is not None:
            shown = records(self._scenario, simulator.obs[envs], simulator.caught[envs])
            self._blue_actions[envs], _ = self._blue.act(shown, envs.tolist())
        red_actions = np.zeros(self.n_envs, np.int64)
        red_actions[envs] = actions
        simulator.play_both(self._blue_actions, red_actions, mask)
        # A minus sign would give -0.0.
        return simulator.rows[envs], 0.0 - simulator.rewards[envs]


class BareRed:
    """Wrap an actor of `RedEnvs`, so that it takes the observations of `Cage2RedEnv`."""

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
