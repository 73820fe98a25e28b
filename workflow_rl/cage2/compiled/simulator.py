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
from workflow_rl.cage2.compiled.batched_simulator import BatchedSimulator
from workflow_rl.cage2.compiled.description import SCENARIO2
from workflow_rl.cage2.compiled.network import red_action_of
from workflow_rl.cage2.compiled.red_simulator import NO_ATTACKERS, RedSimulator
from workflow_rl.cage2.compiled.state import SIZES
from workflow_rl.cage2.compiled.tables import Tables
from workflow_rl.cage2.interface import Facts
from workflow_rl.environments.env_batch import StepAnswers
from workflow_rl.environments.episode import EpisodeSpec


def batch_with(
    n_envs: int,
    max_steps: int,
    attackers: Mapping[str, AttackerBatch],
    tables: Tables = SCENARIO2,
) -> BatchedSimulator:
    """Return a simulator whose `red_agents` are CybORG's and the attackers, by name."""
    if not attackers:
        return BatchedSimulator(n_envs, max_steps, tables=tables)
    return RedSimulator(n_envs, max_steps, attackers, tables=tables)


class CompiledSimulator:
    """One network behind the interface of `interface.Simulator`, for episodes of `max_steps`.

    attackers: further red agents, by name. tables: the scenario.
    """

    def __init__(
        self,
        max_steps: int = SIZES[0],
        attackers: Mapping[str, AttackerBatch] = NO_ATTACKERS,
        tables: Tables = SCENARIO2,
    ) -> None:
        self._simulator = batch_with(1, max_steps, attackers, tables)
        # A tuple hands out its rows faster than an array.
        self._masks = tuple(masks_of_hosts(len(tables.hosts)))
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
        """Play one step: observation (bits, overwritten by the next call) and reward.

        action: an index into `Scenario.action_names`.
        """
        simulator = self._simulator
        self._action[0] = action
        simulator.play(self._action, self._chosen)
        return simulator.obs[0], simulator.rewards.item()

    @property
    def facts(self) -> Facts:
        ((blue, action, target, red, caught_host),) = self._simulator.facts.tolist()
        return blue, action, target, red, self._masks[caught_host].copy()

    @property
    def texts(self) -> tuple[str, str]:
        tables = self._simulator.tables
        return tables.scenario.action_names[self._action[0]], red_action_of(self.state, tables)

    def save(self) -> Snapshot:
        """Return a snapshot."""
        return self._simulator.save()

    def load(self, snapshot: Snapshot) -> None:
        """Go on from a snapshot."""
        self._simulator.load(snapshot)


def masks_of_hosts(n_hosts: int) -> NDArray[np.bool_]:
    """Return masks of hosts, `[n_hosts + 1, n_hosts]`: row i has host i alone, and row -1 none."""
    return np.eye(n_hosts + 1, n_hosts, dtype=np.bool_)


class CompiledEnvs:
    """`n_envs` networks that step in one call of compiled code.

    They play what as many `Cage2Env` play. Episodes are truncated after `max_steps` steps.

    attackers: further red agents, by name. An episode's variant names its red agent. tables: the
    scenario.
    """

    def __init__(
        self,
        max_steps: int,
        n_envs: int,
        attackers: Mapping[str, AttackerBatch] = NO_ATTACKERS,
        tables: Tables = SCENARIO2,
    ) -> None:
        self.n_envs = n_envs
        self._max_steps = max_steps
        self._simulator = batch_with(n_envs, max_steps, attackers, tables)
        self._masks = masks_of_hosts(len(tables.hosts))
        self._steps_left = np.zeros(n_envs, np.int64)

    @property
    def states(self) -> NDArray[Any]:
        """The envs themselves, records `[n_envs]` of `state.STATE`."""
        return self._simulator.states

    @property
    def caught(self) -> NDArray[np.bool_]:
        """Masks of the hosts [n_envs, H] on which monitoring caught a process in the last step."""
        return self._masks[self._simulator.facts[:, -1]]

    def red_actions(self, envs: Sequence[int]) -> list[str]:
        """Return Red's last action in each of M envs, as CybORG prints it."""
        return [red_action_of(self.states[env], self._simulator.tables) for env in envs]

    def reset(self, envs: Sequence[int], specs: Sequence[EpisodeSpec]) -> NDArray[np.uint8]:
        """Begin an episode in each of M envs. Returns obs [M, 4 H]."""
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
