"""The compiled simulator of many networks, in which a caller or attacker chooses Red's actions."""

import copy
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from workflow_rl.cage.network_batch import bytes_of
from workflow_rl.cage2.attackers import AttackerBatch, SeenBatch
from workflow_rl.cage2.compiled.batched_simulator import BatchedSimulator, reset_envs
from workflow_rl.cage2.compiled.description import SCENARIO2
from workflow_rl.cage2.compiled.episode_random import EpisodeRandom
from workflow_rl.cage2.compiled.red_observation import addresses_of, observation_of
from workflow_rl.cage2.compiled.red_steps import (
    OUTSIDE,
    begin_reds,
    notes_for,
    step_blues,
    step_reds,
)
from workflow_rl.cage2.compiled.state import SIZES
from workflow_rl.cage2.compiled.tables import Tables
from workflow_rl.cage2.scenario.simulator_protocol import OWN_RED
from workflow_rl.cage2.scenario2 import RED_AGENTS

NO_ATTACKERS: Mapping[str, AttackerBatch] = MappingProxyType({})
MOST_RED_AGENTS = 256
"""The record of a network has one byte for the number of the red agent."""


class RedSimulator(BatchedSimulator):
    """N networks that step together, some with Red's actions from outside compiled code.

    An env whose red agent is in RED_AGENTS plays wholly in compiled code. In any other env, Red's
    action comes from outside: `play` asks the env's attacker, `play_both` has it from the caller.

    Args:
        max_steps: the longest episode for which a record has room.
        attackers: the attackers, by name. Their numbers begin with `OUTSIDE`, after `RED_AGENTS`.
        remembers: whether `observation` works. With attackers, `observation` always works.

    Attributes:
        rows: uint8 `[n_envs, ...]`. The row of an env in which Red acts from outside holds the
            observation of `Cage2RedEnv`, then the mask of Red's actions, until the next call.
    """

    # `step_envs` is left out here, because only episodes of compiled red agents call it.
    _compiled: tuple[Callable[..., Any], ...] = (reset_envs, begin_reds, step_reds)

    def __init__(
        self,
        n_envs: int,
        max_steps: int = SIZES[0],
        attackers: Mapping[str, AttackerBatch] = NO_ATTACKERS,
        remembers: bool = False,
        tables: Tables = SCENARIO2,
    ) -> None:
        if attackers:  # With attackers, `play` calls `step_blues`.
            self._compiled = (*self._compiled, step_blues)
        super().__init__(n_envs, max_steps, any_ports=True, tables=tables)
        self.red_agents = RED_AGENTS + (tuple(attackers) or (OWN_RED,))
        self._attackers = tuple(attackers.values())
        if len(self.red_agents) > MOST_RED_AGENTS:
            raise ValueError(
                f"{len(attackers)} attackers: a batch has at most {MOST_RED_AGENTS} red agents"
            )
        self._notes = notes_for(self.states, tables.capacity)
        row_size = tables.of["red_obs_size"] + tables.of["n_red_actions"]
        self.rows = np.zeros((n_envs, row_size), np.uint8)
        # The networks right before Red acted.
        self._before = np.zeros(n_envs if attackers or remembers else 0, self.states.dtype)
        self._generators = [EpisodeRandom(self.states, env) for env in range(n_envs)]

    @property
    def _shown(self) -> tuple[NDArray[Any], ...]:
        return *super()._shown, self.rows, bytes_of(self._notes), bytes_of(self._before)

    def save(self) -> Any:
        """See `NetworkBatch.save`. A snapshot also holds copies of the attackers."""
        arrays = tuple(array.copy() for array in self._kept)
        attackers = copy.deepcopy(self._attackers, {id(self.states): self.states})
        return arrays, self.states, attackers, self.red_agents

    def load(self, snapshot: Any) -> None:
        """See `NetworkBatch.load`. Also raises ValueError for a snapshot of other red agents."""
        *others, red_agents = snapshot
        if not isinstance(red_agents, tuple) or red_agents != self.red_agents:
            raise ValueError("the snapshot has other red agents")
        arrays, states, attackers = others
        super().load(arrays)
        # From now on, the attackers take their random draws from these networks' generators.
        self._attackers = copy.deepcopy(attackers, {id(states): self.states})

    def reset(
        self,
        seeds: ArrayLike,
        red_agents: ArrayLike,
        chosen: ArrayLike | None = None,
        scenarios: ArrayLike = 0,
    ) -> NDArray[np.uint8]:
        """See `BatchedSimulator.reset`. red_agents: may also be numbers from `OUTSIDE` on."""
        obs = super().reset(seeds, red_agents, chosen, scenarios)
        begun = self._mask(chosen)
        begin_reds(*self._known, self._notes, begun, self.rows)
        seeds = np.broadcast_to(seeds, len(self.states))
        for attacker, envs in self._attacked(begun):
            generators = [self._generators[env] for env in envs]
            for generator in generators:
                generator.gauss_next = None
            attacker.begin(envs, seeds[envs].tolist(), generators)
        return obs

    def play(self, actions: NDArray[np.int64], chosen: NDArray[np.bool_]) -> None:
        is_attacked = chosen & (self.states["red_agent"] >= OUTSIDE)
        if not is_attacked.any():
            super().play(actions, chosen)
            return
        if not is_attacked.all():
            super().play(actions, chosen & ~is_attacked)
        step_blues(*self._known, is_attacked, actions)
        red_actions = np.zeros(len(self.states), np.int64)
        for attacker, envs in self._attacked(is_attacked):
            names = self.tables.scenario.red_action_names
            red_actions[envs] = attacker.act(envs, SeenBatch(self.rows[envs], names, self, envs))
        self._play_reds(actions, red_actions, is_attacked, with_blue=False)

    def play_both(
        self, actions: NDArray[np.int64], red_actions: NDArray[np.int64], chosen: NDArray[np.bool_]
    ) -> None:
        """Play one step with the actions of both sides, in envs whose `red_agent` is not compiled.

        The arrays `[N]` are not checked. red_actions: indices into `Scenario.red_action_names`."""
        self._play_reds(actions, red_actions, chosen, with_blue=True)

    def addresses(self, env: int) -> tuple[str, ...]:
        """Return the hosts in the order in which Red's action space lists their addresses."""
        return addresses_of(self.states[env], self.tables)

    def observation(self, env: int) -> dict[str, Any]:
        """Return what CybORG shows Red, in plain values: see `attackers.Seen`."""
        return observation_of(self._before[env], self.states[env], self._notes[env], self.tables)

    def _attacked(self, chosen: NDArray[np.bool_]) -> Iterator[tuple[AttackerBatch, list[int]]]:
        """Yield each attacker that plays in a chosen env, with the chosen envs that it plays."""
        red_agents = self.states["red_agent"]
        for number, attacker in enumerate(self._attackers, OUTSIDE):
            envs = np.flatnonzero(chosen & (red_agents == number)).tolist()
            if envs:
                yield attacker, envs

    def _play_reds(
        self,
        actions: NDArray[np.int64],
        red_actions: NDArray[np.int64],
        chosen: NDArray[np.bool_],
        with_blue: bool,
    ) -> None:
        if len(self._before):
            if with_blue:
                step_blues(*self._known, chosen, actions)
                with_blue = False
            bytes_of(self._before)[chosen] = bytes_of(self.states)[chosen]
        written: Any = (self._words, self.rewards, self.facts, self.rows)
        failed = step_reds(
            *self._known, self._notes, chosen, actions, red_actions, with_blue, *written
        )
        if failed >= 0:
            raise self._error_of(failed)


def batch_with(
    n_envs: int, max_steps: int, attackers: Mapping[str, AttackerBatch], tables: Tables
) -> BatchedSimulator:
    """Return a simulator whose `red_agents` are CybORG's red agents and then the attackers."""
    if not attackers:
        return BatchedSimulator(n_envs, max_steps, tables=tables)
    return RedSimulator(n_envs, max_steps, attackers, tables=tables)
