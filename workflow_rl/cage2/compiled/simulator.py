"""Compiled environments as a worker's envs, and one behind CybORG's interface."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.distributions import Actions
from workflow_rl.cage.network_batch import Snapshot, mask_of
from workflow_rl.cage2.attackers import AttackerBatch
from workflow_rl.cage2.compiled import tables
from workflow_rl.cage2.compiled.batched_simulator import BatchedSimulator
from workflow_rl.cage2.compiled.network import red_action_of
from workflow_rl.cage2.compiled.red_simulator import NO_ATTACKERS, RedSimulator
from workflow_rl.cage2.compiled.state import SIZES
from workflow_rl.cage2.interface import Facts
from workflow_rl.cage2.scenario2 import ACTION_NAMES
from workflow_rl.environments.env_batch import StepAnswers
from workflow_rl.environments.episode import EpisodeSpec


def batch_with(
    n_envs: int, max_steps: int, attackers: Mapping[str, AttackerBatch]
) -> BatchedSimulator:
    """Return a simulator whose `red_agents` are CybORG's and the attackers, by name."""
    if not attackers:
        return BatchedSimulator(n_envs, max_steps)
    return RedSimulator(n_envs, max_steps, attackers)


class CompiledSimulator:
    """One network behind the interface of `interface.Simulator`, for episodes of `max_steps`.

    attackers: further red agents, by name.
    """

    def __init__(
        self, max_steps: int = SIZES[0], attackers: Mapping[str, AttackerBatch] = NO_ATTACKERS
    ) -> None:
        self._simulator = batch_with(1, max_steps, attackers)
        self._chosen = np.ones(1, np.bool_)
        self._action = np.zeros(1, np.int64)

    __copy__ = copy.deepcopy

    @property
    def state(self) -> Any:
        """The network itself, a record of `state.STATE`."""
        return self._simulator.states[0]

    def reset(self, seed: int, red_agent: str) -> NDArray[np.uint8]:
        """Start an episode with the draws that follow `random.seed(seed)`."""
        return self._simulator.reset(abs(seed), self._simulator.red_agents.index(red_agent))[0]

    def step(self, action: int) -> tuple[NDArray[np.uint8], float]:
        """Play one step, 0 <= action < 145: observation (52 bits, overwritten by the next call) and
        reward."""
        simulator = self._simulator
        self._action[0] = action
        simulator.play(self._action, self._chosen)
        return simulator.obs[0], simulator.rewards.item()

    @property
    def facts(self) -> Facts:
        ((blue, action, target, red, caught_host),) = self._simulator.facts.tolist()
        return blue, action, target, red, CAUGHT_ROWS[caught_host].copy()

    @property
    def texts(self) -> tuple[str, str]:
        return ACTION_NAMES[self._action[0]], red_action_of(self.state)

    def save(self) -> Snapshot:
        """Return a snapshot."""
        return self._simulator.save()

    def load(self, snapshot: Snapshot) -> None:
        """Go on from a snapshot."""
        self._simulator.load(snapshot)


CAUGHT = np.eye(tables.N_HOSTS + 1, tables.N_HOSTS, dtype=np.bool_)
"""Masks of hosts, `[14, 13]`: row i has host i alone, and row -1 has none."""
CAUGHT_ROWS = tuple(CAUGHT)
"""The same masks, which a tuple hands out faster than an array."""


class CompiledEnvs:
    """`n_envs` networks that step in one call of compiled code.

    They play what as many `Cage2Env` play. Episodes are truncated after `max_steps` steps.

    attackers: further red agents, by name. An episode's variant names its red agent.
    """

    def __init__(
        self,
        max_steps: int,
        n_envs: int,
        attackers: Mapping[str, AttackerBatch] = NO_ATTACKERS,
    ) -> None:
        self.n_envs = n_envs
        self._max_steps = max_steps
        self._simulator = batch_with(n_envs, max_steps, attackers)
        self._steps_left = np.zeros(n_envs, np.int64)

    @property
    def states(self) -> NDArray[Any]:
        """The envs themselves, records `[n_envs]` of `state.STATE`."""
        return self._simulator.states

    @property
    def caught(self) -> NDArray[np.bool_]:
        """Masks of the hosts [n_envs, 13] on which monitoring caught a process in the last step."""
        return CAUGHT[self._simulator.facts[:, -1]]

    def reset(self, envs: Sequence[int], specs: Sequence[EpisodeSpec]) -> NDArray[np.uint8]:
        """Begin an episode in each of M envs. Returns obs [M, 52]."""
        chosen = mask_of(envs, self.n_envs)
        seeds, red_agents = np.zeros((2, self.n_envs), np.int64)
        seeds[envs] = [spec.env_seed for spec in specs]
        red_agents[envs] = [self._simulator.red_agents.index(spec.variant) for spec in specs]
        self._simulator.reset(seeds, red_agents, chosen)
        self._steps_left[envs] = self._max_steps
        return self._simulator.obs[envs]

    def step(self, envs: Sequence[int], actions: Actions) -> StepAnswers:
        """Step each of M envs once."""
        rows = np.asarray(envs)
        all_actions = np.zeros(self.n_envs, np.int64)
        all_actions[rows] = actions
        obs, rewards = self._simulator.step(all_actions, mask_of(rows, self.n_envs))
        self._steps_left[rows] -= 1
        truncated = self._steps_left[rows] == 0
        return StepAnswers(obs[rows], rewards[rows], np.zeros_like(truncated), truncated)

    def close(self) -> None:
        """Nothing is held."""
