"""The compiled simulator of many networks, which step in one call, and the EnvBatch of workers."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from workflow_rl.agents.policies.distributions import Actions
from workflow_rl.cage.network_batch import (
    NetworkBatch,
    NetworkEnvs,
    Numbers,
    SimulationError,
    Snapshot,
    bytes_of,
    of_shape,
)
from workflow_rl.cage2.compiled.description import SCENARIO2
from workflow_rl.cage2.compiled.episode import reset_env, step_env, tell
from workflow_rl.cage2.compiled.fetching import fetch_ahead
from workflow_rl.cage2.compiled.generator import seed
from workflow_rl.cage2.compiled.jit import announce_compiling, entry_point, tables_at
from workflow_rl.cage2.compiled.measures import count_costs, note_held
from workflow_rl.cage2.compiled.state import NO_ERROR, SIZES, error_of, state_for
from workflow_rl.cage2.compiled.tables import UNKNOWN, Tables
from workflow_rl.cage2.scenario.simulator_protocol import SEED_LIMIT
from workflow_rl.cage2.scenario2 import RED_AGENTS
from workflow_rl.environments.env_batch import Obs
from workflow_rl.environments.episode import EpisodeSpec

FACTS = ("blue_success", "red_action", "red_target", "red_success", "caught_host")
"""The names of further facts about a step: see `BatchedSimulator.facts`."""
NO_FACTS = np.array([UNKNOWN, -1, -1, UNKNOWN, -1], np.int8)


@entry_point
def reset_envs(
    states: Any, networks: Any, chosen: Any, seeds: Any, red_agents: Any, obs: Any, facts: Any
) -> None:
    """Start an episode in the chosen envs. The arguments are those of `step_envs`."""
    for i in range(len(states)):
        if chosen[i]:
            t = tables_at(states, networks, states[i].network)
            reset_env(states[i], t, seeds[i], red_agents[i])
            obs[i, :] = 0
            facts[i, :] = NO_FACTS


@entry_point
def step_envs(
    states: Any, networks: Any, chosen: Any, actions: Any, obs: Any, rewards: Any, facts: Any
) -> int:
    """Play one step in the chosen envs. Return the index of an env that cannot go on, or -1.

    networks: the tables of K scenarios as bytes, uint8 `[K, bytes]`. obs: uint32 `[N, hosts]`, one
    word for each host of the capacity. facts: int8 `[N, 5]`. All other arrays are `[N]`."""
    failed = -1
    for i in range(len(states)):
        fetch_ahead(states, i)
        if chosen[i]:
            if states[i].error == NO_ERROR:
                # The constant 0 saves time: the processor does not wait for the scenario's number.
                t = tables_at(states, networks, states[i].network if len(networks) > 1 else 0)
                rewards[i] = step_env(states[i], t, actions[i], obs[i])
                tell(states[i], t, facts[i])
            if states[i].error != NO_ERROR:
                failed = i
    return failed


@entry_point
def reseed_envs(states: Any, seeds: Any) -> None:
    """Seed the generator of each env, as `random.seed(seeds[i])` does."""
    for i in range(len(states)):
        seed(states[i], seeds[i])


class BatchedSimulator(NetworkBatch):
    """N networks that step together. A copy or a pickle plays on exactly as the original would.

    Args:
        max_steps: the longest episode for which a record has room. Memory grows with this number.
        any_ports: see `state.state_for`.
        tables: the scenario, or a family of scenarios, see `description.family_of`. Each episode
            plays one scenario of the family.

    Attributes:
        states: record array `[N]` of `state.STATE`, the networks.
        obs: uint8 `[N, 4 H]`, what Blue sees now, for H hosts of the largest scenario. The next
            call overwrites obs, rewards and facts.
        rewards: float64 `[N]`, the rewards of the last step.
        facts: int8 `[N, 5]`, FACTS of the last step. Successes are indices into `SUCCESSES`.
            `red_action` is an index into `RED_ACTIONS`, `red_target` into the hosts followed by the
            subnets, and `caught_host` into the hosts. -1 means none.
        red_agents: the names of the red agents, by number.
        masks_of_hosts: bool `[H + 1, H]`. Only host i is True in row i, and no host in the last."""

    red_agents: tuple[str, ...] = RED_AGENTS
    _compiled: tuple[Callable[..., Any], ...] = (reset_envs, step_envs)

    def __init__(
        self,
        n_envs: int,
        max_steps: int = SIZES[0],
        any_ports: bool = False,
        tables: Tables | Sequence[Tables] = SCENARIO2,
    ) -> None:
        self.family = (tables,) if isinstance(tables, Tables) else tuple(tables)
        self.tables = max(self.family, key=lambda tables: len(tables.hosts))
        capacity = self.tables.capacity
        super().__init__(n_envs, state_for(max_steps, any_ports, capacity))
        records = np.concatenate([tables.record for tables in self.family])
        self._networks = bytes_of(records)
        room = next((size for size in SIZES if max_steps <= size), SIZES[-1])
        what = f"the simulator for episodes of up to {room:,} steps"
        announce_compiling(what, "20 seconds", self._compiled, self.states.dtype)
        self.rewards = np.zeros(n_envs)
        self.facts = np.zeros((n_envs, len(FACTS)), np.int8)
        n_hosts = len(self.tables.hosts)
        self.masks_of_hosts = np.eye(n_hosts + 1, n_hosts, dtype=np.bool_)
        self._words = np.zeros((n_envs, capacity.hosts), np.uint32)
        self._show()

    def _show(self) -> None:
        self.obs = self._words.view(np.uint8)[:, : 4 * len(self.tables.hosts)]

    def __getstate__(self) -> dict[str, Any]:
        # `obs` is a view of `_words`. A pickled array would not be a view any more.
        return {name: value for name, value in vars(self).items() if name != "obs"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._show()

    @property
    def _known(self) -> tuple[Any, Any]:
        """The first arguments of compiled functions: the networks, and the scenarios' tables."""
        return self.states, self._networks

    @property
    def _shown(self) -> tuple[NDArray[Any], ...]:
        return self._words, self.rewards, self.facts

    @property
    def caught(self) -> NDArray[np.bool_]:
        """For each env, the mask of the host on which Blue's monitoring noticed a suspicious
        process in the last step, `[N, H]`."""
        return self.masks_of_hosts[self.facts[:, -1]]

    def load_repeated(self, snapshot: Snapshot, seeds: NDArray[np.int64]) -> None:
        """Load the snapshot of one env into all envs. seeds: `[N]`, seeds of the generators."""
        for array, saved in zip(self._kept, snapshot, strict=True):
            array[:] = saved
        reseed_envs(self.states, self._checked("seeds", seeds, SEED_LIMIT))

    def reset(
        self,
        seeds: ArrayLike,
        red_agents: ArrayLike,
        chosen: ArrayLike | None = None,
        scenarios: ArrayLike = 0,
    ) -> NDArray[np.uint8]:
        """Start episodes in the chosen envs, by default in all. Return obs.

        Seeds are below 2**63. Red agents are indices into the attribute `red_agents`, scenarios are
        indices into `family`, and `chosen` are booleans. Each argument is an array `[N]`, or one
        value for all envs. A red agent must be able to play its env's scenario: see `red.roster`.

        Raises:
            ValueError: a seed, a red agent or a scenario is out of range.
        """
        seeds = self._checked("seeds", seeds, SEED_LIMIT)
        red_agents = self._checked("red_agents", red_agents, len(self.red_agents))
        chosen = self._mask(chosen)
        if len(self.family) > 1:
            scenarios = self._checked("scenarios", scenarios, len(self.family))
            self.states["network"][chosen] = scenarios[chosen]
        reset_envs(*self._known, chosen, seeds, red_agents, self._words, self.facts)
        return self.obs

    def step(
        self, actions: ArrayLike, chosen: ArrayLike | None = None
    ) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
        """Play one step in the chosen envs, by default in all. Return obs and rewards.

        Other envs keep their obs and rewards. actions: indices `[N]` into `Scenario.action_names`
        of the largest scenario. chosen: booleans `[N]`.

        Raises:
            ValueError: an action is out of range.
            SimulationError: an env cannot go on, and needs a reset.
        """
        n_actions = len(self.tables.of["action_kind"])
        self.play(self._checked("actions", actions, n_actions), self._mask(chosen))
        return self.obs, self.rewards

    def play(self, actions: NDArray[np.int64], chosen: NDArray[np.bool_]) -> None:
        """Play one step as `step` does, without checks of the arrays `[N]`.

        With few envs, these checks take ten times as long as the step."""
        failed = step_envs(
            self.states, self._networks, chosen, actions, self._words, self.rewards, self.facts
        )
        if failed >= 0:
            raise self._error_of(failed)

    def held(self, envs: Numbers) -> Numbers:
        """Return masks `[M]` of the hosts where Red has a session, for `costs`."""
        held = np.empty(len(envs), np.int64)
        note_held(self.states, envs, held)
        return held

    def costs(
        self, envs: Numbers, actions: Numbers, held_before: Numbers, n_costs: int
    ) -> NDArray[np.float64]:
        """Return the costs `[M, n_costs]` of the last step of M envs: see `costs.write_costs`.

        actions: Blue's, `[M]`. held_before: what `held` returned before the step."""
        costs = np.empty((len(envs), n_costs))
        count_costs(*self._known, envs, actions, held_before, costs)
        return costs

    def _error_of(self, failed: int) -> SimulationError:
        return SimulationError(error_of(self.states[failed]), failed)

    def _checked(self, name: str, values: ArrayLike, stop: int) -> NDArray[np.int64]:
        """Return a number from 0 to stop - 1 for each env. Compiled code would not check ranges."""
        array = np.asarray(values)
        if array.dtype.kind not in "iu":
            raise ValueError(f"{name}: integers are needed, not {array.dtype}")
        if array.size and not 0 <= array.min() <= array.max() < stop:
            wrong = array.min() if array.min() < 0 else array.max()
            raise ValueError(f"{name}: {wrong} is not from 0 to {stop - 1}")
        # A copy is writable. For read-only arrays, numba would compile the functions once more.
        return np.array(of_shape(name, array, (len(self.states),)), np.int64)


class CompiledEnvs(NetworkEnvs):
    """An EnvBatch of Blue's side, whose observations are the bits of the hosts.

    With a `RedAgainstBlue` as batch, the side is Red's. An episode equals the episode of `Cage2Env`
    or of `Cage2RedEnv`. The episode's variant names the red agent, and the episode's seed chooses
    the scenario. playing: the number of each env's scenario, `[n_envs]`.
    n_costs: the number of costs that are counted in each step: see `costs.write_costs`."""

    def __init__(self, batch: BatchedSimulator, n_steps: int, n_costs: int = 0) -> None:
        super().__init__(len(batch.states), n_steps)
        self.batch = batch
        self._n_costs = n_costs
        self._counted: NDArray[np.float64] | None = None
        self.playing = np.zeros(self.n_envs, np.int64)

    def _begin(
        self, envs: Numbers, specs: Sequence[EpisodeSpec], seeds: Numbers, mask: NDArray[np.bool_]
    ) -> Obs:
        red_agents = np.zeros(self.n_envs, np.int64)
        red_agents[envs] = [self.batch.red_agents.index(spec.variant) for spec in specs]
        self.playing[envs] = seeds[envs] % len(self.batch.family)
        return self.batch.reset(seeds, red_agents, mask, self.playing)[envs]

    def _play(
        self, envs: Numbers, actions: Actions, mask: NDArray[np.bool_]
    ) -> tuple[Obs, NDArray[Any]]:
        all_actions = np.zeros(self.n_envs, np.int64)
        all_actions[envs] = actions
        held_before = self.batch.held(envs) if self._n_costs else None
        obs, rewards = self.batch.step(all_actions, mask)
        if held_before is not None:
            self._counted = self.batch.costs(envs, all_actions[envs], held_before, self._n_costs)
        return obs[envs], rewards[envs]

    def _costs(self, envs: Numbers) -> NDArray[np.float64] | None:
        return self._counted
