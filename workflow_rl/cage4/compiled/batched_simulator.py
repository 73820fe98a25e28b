"""Many environments at once."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from workflow_rl.cage.checks import checked_least
from workflow_rl.cage.network_batch import NetworkBatch, SimulationError, of_shape
from workflow_rl.cage4.agent.raw_record import MAX_SOURCES, RAW
from workflow_rl.cage4.compiled.constants import N_BLUE
from workflow_rl.cage4.compiled.episode import reset_env, step_env
from workflow_rl.cage4.compiled.generator import seed_words
from workflow_rl.cage4.compiled.jit import announce_compiling, entry_point
from workflow_rl.cage4.compiled.measures import count_step
from workflow_rl.cage4.compiled.observe import observe, write_masks
from workflow_rl.cage4.compiled.raw_arrays import write_raw
from workflow_rl.cage4.compiled.state import NO_ERROR, error_of, room_for, state_for
from workflow_rl.cage4.scenario import scenario4
from workflow_rl.cage4.scenario.costs import EVALUATED
from workflow_rl.cage4.scenario.scenario4 import CHALLENGE, Scenario
from workflow_rl.cage4.scenario.simulator_protocol import checked_bits, seed_or_none


@entry_point
def reset_envs(
    states: Any,
    chosen: Any,
    is_seeded: Any,
    words: Any,
    red_classes: Any,
    max_steps: int,
    obs: Any,
    masks: Any,
) -> None:
    """Start an episode in the chosen envs.

    words: uint64 `[N, 4]`. obs: int8 `[N, 578]`. masks: bool `[N, 570]`. Other arrays are `[N]`."""
    silence = np.zeros((N_BLUE, scenario4.MESSAGE_BITS), np.int8)
    for i in range(len(states)):
        if chosen[i]:
            reset_env(states[i], is_seeded[i], words[i], red_classes[i], max_steps)
            observe(states[i], silence, obs[i])
            write_masks(states[i], masks[i])


@entry_point
def step_envs(
    states: Any, chosen: Any, actions: Any, messages: Any, obs: Any, rewards: Any, dones: Any
) -> int:
    """Play one step in the chosen envs. Return the index of an env whose step failed, or -1.

    actions: int64 `[N, 5]`. messages: int8 `[N, 5, 8]`. obs: int8 `[N, 578]`. rewards: int64
    `[N, 2]`. Other arrays are `[N]`."""
    failed = -1
    for i in range(len(states)):
        if chosen[i]:
            if states[i].error == NO_ERROR:
                step_env(states[i], actions[i])
                observe(states[i], messages[i], obs[i])
                rewards[i, 0] = states[i].machine_reward
                rewards[i, 1] = states[i].action_cost
                dones[i] = states[i].done
            if states[i].error != NO_ERROR:
                failed = i
    return failed


@entry_point
def show_envs(states: Any, chosen: Any, raw: Any) -> int:
    """Write what the last step of the chosen envs showed. raw: `RAW` `[N]`.

    Return the index of an env whose step showed more than a record can hold, or -1."""
    failed = -1
    for i in range(len(states)):
        if chosen[i] and not write_raw(states[i], raw[i]):
            failed = i
    return failed


class BatchedSimulator(NetworkBatch):
    """N networks that step together. A copy or a pickle continues exactly as the original would.

    Args:
        n_envs: N.
        max_steps: length of episodes in steps. The memory of a network grows with this length.
        red_agent: one of `scenario4.RED_CLASSES`, for all envs. For FROM_OUTSIDE see
            `RedSimulator`.
        shows_raw: whether `raw` is written.
        scenario: the changes to the challenge, for all envs.
        measures: whether `costs` are counted.

    Attributes (the next call overwrites the arrays):
        states: record array `[N]` of `state.state_for(max_steps)`, the networks.
        obs: int8 `[N, 578]`, the observations of agents 0 to 4, joined: see `observations_of`.
        rewards: int64 `[N, 2]`, the two parts of the last step's reward: what `BlueRewardMachine`
            gives, and the action cost.
        dones: bool `[N]`, whether the episode is over. All ends are truncations.
        masks: bool `[N, 570]`, the masks of agents 0 to 4, joined: see `masks_by_agent`.
        raw: `raw_record.RAW` `[N]`, what the last step showed of hosts; `[0]` without shows_raw.
        costs: float64 `[N, C]`, the `costs.EVALUATED` of the last step. A reset sets zeros.
            `[N, 0]` without measures.
    """

    def __init__(
        self,
        n_envs: int,
        max_steps: int = scenario4.MAX_STEPS,
        red_agent: str = scenario4.RED_AGENTS[0],
        shows_raw: bool = False,
        scenario: Scenario = CHALLENGE,
        measures: bool = False,
    ) -> None:
        if red_agent not in scenario4.RED_CLASSES:
            raise ValueError(
                f"red_agent: {red_agent!r} is not one of {', '.join(scenario4.RED_AGENTS)}"
            )
        checked_least("max_steps", max_steps, scenario4.LEAST_STEPS)
        self.max_steps = max_steps
        self.red_agent = red_agent
        super().__init__(n_envs, state_for(max_steps))
        self.set_scenario(slice(None), scenario)
        what = f"the simulator of CAGE Challenge 4 for up to {room_for(max_steps):,} steps"
        announce_compiling(what, "a minute", (reset_envs, step_envs), self.states.dtype)
        self.obs = np.zeros((n_envs, scenario4.N_OBS), np.int8)
        self.rewards = np.zeros((n_envs, 2), np.int64)
        self.dones = np.zeros(n_envs, np.bool_)
        self.masks = np.zeros((n_envs, scenario4.N_MASKS), np.bool_)
        self.raw = np.zeros(n_envs if shows_raw else 0, RAW)
        self.costs = np.zeros((n_envs, len(EVALUATED) if measures else 0))
        self._red_classes = np.full(n_envs, scenario4.RED_CLASSES.index(red_agent))
        self._silence = np.zeros((n_envs, N_BLUE, scenario4.MESSAGE_BITS), np.int8)

    @property
    def _shown(self) -> tuple[NDArray[Any], ...]:
        shown = self.obs, self.rewards, self.dones, self.masks, self.costs
        return (*shown, self.raw) if len(self.raw) else shown

    def set_scenario(self, envs: Any, scenario: Scenario) -> None:
        """Set the scenario of the coming episodes of some envs. envs: an index of `states`."""
        if not isinstance(scenario, Scenario):
            raise ValueError(f"scenario={scenario!r}: a Scenario is needed")
        self.states["scenario"][envs] = tuple(value or 0 for value in scenario.values)

    def set_red_agent(self, envs: Any, red_agent: str) -> None:
        """Set the red agents of the coming episodes of some envs. envs: an index of `states`.
        red_agent: one of `scenario4.RED_CLASSES`."""
        self._red_classes[envs] = scenario4.RED_CLASSES.index(red_agent)

    def reset(
        self, seeds: Sequence[int | None] | None = None, chosen: ArrayLike | None = None
    ) -> NDArray[np.int8]:
        """Start episodes in the chosen envs. Returns obs.

        seeds: `[N]`. Each is 0 or more, or None to continue the env's stream of random numbers. If
            the env has no stream yet, None begins a random stream. Other envs' seeds are ignored.
        chosen: booleans `[N]`, or None for all envs."""
        chosen = self._mask(chosen)
        if seeds is not None and len(seeds) != len(chosen):
            raise ValueError(f"seeds: {len(chosen)} are needed, not {len(seeds)}")
        words = np.zeros((len(chosen), 4), np.uint64)
        is_seeded = np.zeros(len(chosen), np.bool_)
        for env in np.flatnonzero(chosen).tolist():
            seed = None if seeds is None else seed_or_none(seeds[env])
            # A seeded generator's increment is odd. So 0 means that the env has no stream yet.
            if seed is not None or self.states["increment_low"][env] == 0:
                is_seeded[env] = True
                words[env] = seed_words(seed)
        reset_envs(
            self.states,
            chosen,
            is_seeded,
            words,
            self._red_classes,
            self.max_steps,
            self.obs,
            self.masks,
        )
        self.costs[chosen] = 0
        self._write_raw(chosen)
        return self.obs

    def step(
        self,
        actions: ArrayLike,
        messages: ArrayLike | None = None,
        chosen: ArrayLike | None = None,
    ) -> tuple[NDArray[np.int8], NDArray[np.int64], NDArray[np.bool_]]:
        """Play one step in the chosen envs. The rows of the other envs do not change.

        actions: `[N, 5]`, each below the agent's `N_ACTIONS`. A masked action becomes a Sleep.
        messages: `[N, 5, 8]`, zeros and ones. None means zeros.
        chosen: booleans `[N]`, or None for all envs.
        Returns obs, rewards and dones.

        Raises:
            ValueError: an action or a message is out of range, or an array has a wrong shape.
            SimulationError: an env's episode cannot go on. Reset this env.
        """
        shape = (len(self.states), N_BLUE)
        taken = np.asarray(actions)
        if taken.dtype.kind not in "iu":
            raise ValueError(f"actions: integers are needed, not {taken.dtype}")
        taken = of_shape("actions", taken, shape)
        is_wrong = (taken < 0) | (taken >= scenario4.N_ACTIONS)
        if is_wrong.any():
            *_, agent = np.argwhere(is_wrong)[0]
            raise ValueError(
                f"actions: agent {agent} has those from 0 to {scenario4.N_ACTIONS[agent] - 1}"
            )
        sent = self._silence
        if messages is not None:
            bits = of_shape("messages", messages, (*shape, scenario4.MESSAGE_BITS))
            sent = checked_bits("messages", bits).view(np.int8)
        # Writable copies in C order, because numba would compile again for a read-only array or
        # another memory order.
        self.play(np.array(taken, np.int64, order="C"), sent, self._mask(chosen))
        return self.obs, self.rewards, self.dones

    def play(
        self, actions: NDArray[np.int64], messages: NDArray[np.int8], chosen: NDArray[np.bool_]
    ) -> None:
        """Play one step as `step` does, without checking the arrays."""
        failed = step_envs(
            self.states, chosen, actions, messages, self.obs, self.rewards, self.dones
        )
        if failed >= 0:
            raise SimulationError(error_of(self.states[failed]), failed)
        if self.costs.size:
            count_step(self.states, chosen, self.costs)
        self._write_raw(chosen)

    def raw_arrays(self) -> NDArray[Any]:
        """Return what the last step showed, `RAW` `[N]`. The caller owns the array."""
        raw = np.zeros(len(self.states), RAW)
        self._show(np.ones(len(raw), np.bool_), raw)
        return raw

    def _write_raw(self, chosen: NDArray[np.bool_]) -> None:
        if len(self.raw):
            self._show(chosen, self.raw)

    def _show(self, chosen: NDArray[np.bool_], raw: NDArray[Any]) -> None:
        failed = show_envs(self.states, chosen, raw)
        if failed >= 0:
            what = f"a host shows more than {MAX_SOURCES} sources or shells in one step"
            raise SimulationError(what, failed)
