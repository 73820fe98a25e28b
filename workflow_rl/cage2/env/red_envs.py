"""CAGE-2 envs in which Red's policy acts, against a Blue that does not learn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.distributions import Actions, Choice
from workflow_rl.agents.policies.numpy_policy import Actor
from workflow_rl.cage.network_batch import mask_of
from workflow_rl.cage2.agent.blue import records
from workflow_rl.cage2.compiled.description import tables_of
from workflow_rl.cage2.compiled.red_simulator import RedSimulator
from workflow_rl.cage2.compiled.red_steps import OUTSIDE
from workflow_rl.cage2.compiled.simulator import masks_of_hosts
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.environments.env_batch import StepAnswers
from workflow_rl.environments.episode import EpisodeSpec


class RedEnvs:
    """`n_envs` networks that step in one call of compiled code. An EnvBatch.

    They play what as many `Cage2RedEnv` play. Observations uint8, `[M, 69 + 44]` in Scenario 2, end
    with the mask of Red's actions.

    blue: acts on records, see `agent.blue`, and is the caller's no more; None: Blue
    sleeps. scenario: what is played.
    """

    def __init__(self, max_steps: int, n_envs: int, blue: Actor | None, scenario: Scenario) -> None:
        self.n_envs = n_envs
        self._max_steps = max_steps
        self._simulator = RedSimulator(n_envs, max_steps, tables=tables_of(scenario))
        self._scenario = scenario
        self._caught = masks_of_hosts(len(scenario.hosts))
        self._blue = blue
        self._steps_left, self._blues = np.zeros((2, n_envs), np.int64)

    def reset(self, envs: Sequence[int], specs: Sequence[EpisodeSpec]) -> NDArray[np.uint8]:
        """Begin an episode in each of M envs. Return what Red sees."""
        seeds = np.zeros(self.n_envs, np.int64)
        seeds[envs] = [spec.env_seed for spec in specs]
        self._simulator.reset(seeds, OUTSIDE, mask_of(envs, self.n_envs))
        self._steps_left[envs] = self._max_steps
        if self._blue is not None:
            for env, spec in zip(envs, specs, strict=True):
                self._blue.reset(spec.env_seed, env)
        return self._simulator.rows[envs]

    def step(self, envs: Sequence[int], actions: Actions) -> StepAnswers:
        """Step each of M envs once: Blue acts on what it saw of the step before, then Red."""
        simulator, chosen = self._simulator, np.asarray(envs)
        if self._blue is not None:
            caught = self._caught[simulator.facts[chosen, -1]]
            shown = records(self._scenario, simulator.obs[chosen], caught)
            self._blues[chosen], _ = self._blue.act(shown, envs)
        reds = np.zeros(self.n_envs, np.int64)
        reds[chosen] = actions
        simulator.play_both(self._blues, reds, mask_of(chosen, self.n_envs))
        self._steps_left[chosen] -= 1
        truncated = self._steps_left[chosen] == 0
        # 0.0 - x is never -0.0.
        rewards = 0.0 - simulator.rewards[chosen]
        return StepAnswers(simulator.rows[chosen], rewards, np.zeros_like(truncated), truncated)

    def close(self) -> None:
        """Nothing is held."""


class BareRed:
    """An actor of `RedEnvs` that plays on the observations of `Cage2RedEnv`.

    The mask follows from the observation.
    """

    def __init__(self, actor: Actor, scenario: Scenario) -> None:
        self.actor, self._size = actor, scenario.red_obs_size
        self._facts = tables_of(scenario).of["fact_needed"][1:]
        self.policy_version = actor.policy_version
        self.reset = actor.reset

    def act(self, obs: NDArray[np.uint8], envs: Sequence[int] = (0,)) -> Choice:
        """Return actions for obs [M, `red_obs_size`], and log-probabilities: see Actor."""
        obs = np.atleast_2d(obs)
        if obs.shape[1:] != (self._size,):
            raise ValueError(f"observations have {self._size} numbers, not {obs.shape[1:]}")
        mask = np.ones_like(obs[:, :1]), obs[:, self._facts]
        return self.actor.act(np.concatenate([obs, *mask], axis=1), envs)
