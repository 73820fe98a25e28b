"""Many environments at once, as a worker's envs, and one behind CybORG's interface."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from workflow_rl.agents.policies.distributions import Actions
from workflow_rl.cage.network_batch import NetworkBatch, Snapshot, mask_of, of_shape
from workflow_rl.cage2.attackers import AttackerBatch
from workflow_rl.cage2.compiled import tables
from workflow_rl.cage2.compiled.episode import reset_env, step_env, tell
from workflow_rl.cage2.compiled.fetching import fetch_ahead
from workflow_rl.cage2.compiled.generator import seed
from workflow_rl.cage2.compiled.jit import announce_compiling, entry_point
from workflow_rl.cage2.compiled.network import red_action_of
from workflow_rl.cage2.compiled.state import NO_ERROR, SIZES, error_of, state_for
from workflow_rl.cage2.interface import SEED_LIMIT, Facts
from workflow_rl.cage2.scenario2 import ACTION_NAMES, RED_AGENTS
from workflow_rl.environments.env_batch import StepAnswers
from workflow_rl.environments.episode import EpisodeSpec

FACTS = ("blue_success", "red_action", "red_target", "red_success", "caught_host")
"""Further facts about a step: see `Simulator.facts`."""
NO_FACTS = np.array([tables.UNKNOWN, -1, -1, tables.UNKNOWN, -1], np.int8)


@entry_point
def reset_envs(states: Any, chosen: Any, seeds: Any, red_agents: Any, obs: Any, facts: Any) -> None:
    """Start an episode in the chosen envs.

    obs: uint32 `[N, 13]`. facts: int8 `[N, 5]`. All other arrays are `[N]`.
    """
    for i in range(len(states)):
        if chosen[i]:
            reset_env(states[i], seeds[i], red_agents[i])
            obs[i, :] = 0
            facts[i, :] = NO_FACTS


@entry_point
def step_envs(states: Any, chosen: Any, actions: Any, obs: Any, rewards: Any, facts: Any) -> int:
    """Play one step in the chosen envs. Returns the index of an env that cannot go on, or -1.

    obs: uint32 `[N, 13]`. facts: int8 `[N, 5]`. All other arrays are `[N]`.
    """
    failed = -1
    for i in range(len(states)):
        fetch_ahead(states, i)
        if chosen[i]:
            if states[i].error == NO_ERROR:
                rewards[i] = step_env(states[i], actions[i], obs[i])
                tell(states[i], facts[i])
            if states[i].error != NO_ERROR:
                failed = i
    return failed


@entry_point
def reseed_envs(states: Any, seeds: Any) -> None:
    """Seed the generator of each env, as `random.seed(seeds[i])` does."""
    for i in range(len(states)):
        seed(states[i], seeds[i])


class BatchedSimulator(NetworkBatch):
    """N networks that step together. Copies and pickles go on as the original would.

    Args:
        n_envs: N.
        max_steps: number of steps that every episode has room for; memory grows with it.
        any_ports: see `state.state_for`.

    Attributes:
        states: record array `[N]` of `state.STATE`, the networks.
        obs: uint8 `[N, 52]`, what Blue sees now; overwritten by the next call.
        rewards: float64 `[N]`, of the last step; overwritten by the next call.
        facts: int8 `[N, 5]`, FACTS of the last step; overwritten by the next call. Successes are
            indices into `SUCCESSES`, Red's action and its target into `RED_ACTIONS` and
            `RED_TARGETS`, and the host on which monitoring caught a process into `HOSTS`; -1: none.
        red_agents: the names of the red agents, by number.
    """

    red_agents: tuple[str, ...] = RED_AGENTS

    def __init__(self, n_envs: int, max_steps: int = SIZES[0], any_ports: bool = False) -> None:
        super().__init__(n_envs, state_for(max_steps, any_ports))
        room = next((size for size in SIZES if max_steps <= size), SIZES[-1])
        what = f"the simulator for episodes of up to {room:,} steps"
        announce_compiling(what, "20 seconds", (reset_envs, step_envs), self.states.dtype)
        self.rewards = np.zeros(n_envs)
        self.facts = np.zeros((n_envs, len(FACTS)), np.int8)
        self._words = np.zeros((n_envs, tables.N_HOSTS), np.uint32)
        self.obs = self._words.view(np.uint8)

    def __getstate__(self) -> dict[str, Any]:
        # A copy of a view would be an array of its own.
        return {name: value for name, value in vars(self).items() if name != "obs"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.obs = self._words.view(np.uint8)

    @property
    def _shown(self) -> tuple[NDArray[Any], ...]:
        return self._words, self.rewards, self.facts

    def load_repeated(self, snapshot: Snapshot, seeds: NDArray[np.int64]) -> None:
        """Load each env of a smaller snapshot several times in a row.

        seeds: `[N]`, for the draws from now on.
        """
        for array, saved in zip(self._kept, snapshot, strict=True):
            copies = array.reshape(len(saved), len(array) // len(saved), *array.shape[1:])
            copies[:] = saved[:, None]
        reseed_envs(self.states, self._checked("seeds", seeds, SEED_LIMIT))

    def reset(
        self, seeds: ArrayLike, red_agents: ArrayLike, chosen: ArrayLike | None = None
    ) -> NDArray[np.uint8]:
        """Start episodes, in the chosen envs or in all, by seed (below 2**63) and red agent.

        Red agents are indices into `red_agents`, `chosen` are booleans; all have shape `[N]`, or
        are one for all. Returns obs.

        Raises:
            ValueError: a seed or a red agent is out of range.
        """
        seeds = self._checked("seeds", seeds, SEED_LIMIT)
        red_agents = self._checked("red_agents", red_agents, len(self.red_agents))
        chosen = self._mask(chosen)
        reset_envs(self.states, chosen, seeds, red_agents, self._words, self.facts)
        return self.obs

    def step(
        self, actions: ArrayLike, chosen: ArrayLike | None = None
    ) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
        """Play one step in the chosen envs or in all; `obs` and `rewards` of others stay.

        actions: from 0 to 144, `[N]`. chosen: booleans `[N]`. Returns obs and rewards.

        Raises:
            ValueError: an action is out of range.
            RuntimeError: an env cannot go on: what happens in it does not fit into its state, or
                CybORG itself would fail. Reset it.
        """
        self.play(self._checked("actions", actions, tables.N_ACTIONS), self._mask(chosen))
        return self.obs, self.rewards

    def play(self, actions: NDArray[np.int64], chosen: NDArray[np.bool_]) -> None:
        """Play one step as `step` does, without checking the arrays `[N]`.

        With few envs, the checks take ten times as long as the step.
        """
        shown = self._words, self.rewards, self.facts
        self._raise_if(step_envs(self.states, chosen, actions, *shown))

    def _raise_if(self, failed: int) -> None:
        if failed >= 0:
            raise RuntimeError(f"env {failed}: {error_of(self.states[failed])}")

    def _checked(self, name: str, values: ArrayLike, stop: int) -> NDArray[np.int64]:
        """Return one number from 0 to stop - 1 for each env. Compiled code checks no range."""
        array = np.asarray(values)
        if array.dtype.kind not in "iu":
            raise ValueError(f"{name}: integers are needed, not {array.dtype}")
        if array.size and not 0 <= array.min() <= array.max() < stop:
            wrong = array.min() if array.min() < 0 else array.max()
            raise ValueError(f"{name}: {wrong} is not from 0 to {stop - 1}")
        # This is a copy, because read-only arrays would make numba compile once more.
        return np.array(of_shape(name, array, (len(self.states),)), np.int64)


NO_ATTACKERS: Mapping[str, AttackerBatch] = MappingProxyType({})


def make_batch(
    n_envs: int, max_steps: int, attackers: Mapping[str, AttackerBatch]
) -> BatchedSimulator:
    """Return a simulator whose `red_agents` are CybORG's and the attackers, by name."""
    if not attackers:
        return BatchedSimulator(n_envs, max_steps)
    from workflow_rl.cage2.compiled.red_simulator import RedSimulator

    return RedSimulator(n_envs, max_steps, attackers)


class CompiledSimulator:
    """One network behind the interface of `interface.Simulator`, for episodes of `max_steps`.

    attackers: further red agents, by name.
    """

    def __init__(
        self, max_steps: int = SIZES[0], attackers: Mapping[str, AttackerBatch] = NO_ATTACKERS
    ) -> None:
        self._simulator = make_batch(1, max_steps, attackers)
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
        self._simulator = make_batch(n_envs, max_steps, attackers)
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
