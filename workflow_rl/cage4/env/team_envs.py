"""The CAGE-4 envs in which the policies of a blue team learn."""

import copy
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.distributions import Actions
from workflow_rl.cage.network_batch import NetworkEnvs, Numbers, SimulationError
from workflow_rl.cage4.agent.belief import Bits, Joint
from workflow_rl.cage4.agent.blue_team import BlueSees
from workflow_rl.cage4.agent.raw_record import RAW
from workflow_rl.cage4.agent.views import SLEEP, Shown, ViewRows, on_hosts
from workflow_rl.cage4.red.red_api import RED_TEAM
from workflow_rl.cage4.red.roster import RedTeam
from workflow_rl.cage4.scenario import scenario4
from workflow_rl.cage4.scenario.costs import COSTS, EVALUATED
from workflow_rl.cage4.scenario.simulator_protocol import Simulator
from workflow_rl.environments.env_batch import Obs
from workflow_rl.environments.episode import EpisodeSpec

Floats = NDArray[np.float32]


class Networks(Protocol):
    """N simulated networks, numbered from 0, with the arrays of `BatchedSimulator`.

    obs: int8 [N, 578]. masks: bool [N, 570]. rewards: int64 [N, 2]. raw: `raw_record.RAW` [N], or
    [0] if no player reads raw records. costs: [N, C], the `costs.EVALUATED` of the last step;
    [N, 0] without measures.
    """

    obs: Shown
    masks: Bits
    rewards: NDArray[np.int64]
    raw: NDArray[Any]
    costs: NDArray[np.float64]

    def reset(self, seeds: Sequence[int], variants: Sequence[str], chosen: Bits) -> None:
        """Begin episodes in the chosen networks. seeds, variants: [N]. chosen: bool [N]."""

    def step(self, actions: Joint, messages: Bits | None, chosen: Bits) -> None:
        """Step the chosen networks once. Raises SimulationError with the number of the failed env.

        actions: [N, 5]. messages: bool [N, 5, 8], or None.
        """

    @property
    def busy_steps(self) -> Joint:
        """[N, 5], for how many more steps each agent is busy."""

    def look(self, played: Joint, seen: Floats, rewards: Floats) -> None:
        """Write the true state into `seen` [N, 5, N_SEEN], and each agent's own reward of the last
        step into `rewards` [N, 5]. played: the actions [N, 5] of this step.

        Raises NotImplementedError if the simulator does not show its state.
        """


class CompiledNetworks:
    """Networks of the compiled simulator. One call steps all networks.

    played: by variant, the name of the red agents and the scenario. red_teams: by name, the red
    teams that are not classes of CybORG.
    """

    def __init__(
        self,
        n_envs: int,
        max_steps: int,
        played: Mapping[str, tuple[str, scenario4.Scenario]],
        shows_raw: bool,
        red_teams: Mapping[str, RedTeam],
        measures: bool = False,
    ) -> None:
        simulator: Any
        if red_teams:
            from workflow_rl.cage4.compiled.red_simulator import RedSimulator

            simulator = RedSimulator(n_envs, max_steps, shows_raw, measures=measures)
        else:
            from workflow_rl.cage4.compiled.batched_simulator import BatchedSimulator

            simulator = BatchedSimulator(n_envs, max_steps, shows_raw=shows_raw, measures=measures)
        self._simulator = simulator
        self._played = played
        self._red_teams = copy.deepcopy(dict(red_teams))
        self._reds = [""] * n_envs
        self._choices = np.zeros((n_envs, len(RED_TEAM)), np.int64)
        self.raw = simulator.raw
        self.obs = simulator.obs
        self.masks = simulator.masks
        self.rewards = simulator.rewards
        self.costs = simulator.costs
        self._states = simulator.states

    def reset(self, seeds: Sequence[int], variants: Sequence[str], chosen: Bits) -> None:
        for env in np.flatnonzero(chosen).tolist():
            red_agent, scenario = self._played[variants[env]]
            if red_agent in self._red_teams:
                self._red_teams[red_agent].reset(seeds[env], env)
            self._reds[env] = red_agent
            is_class = red_agent in scenario4.RED_AGENTS
            red_class = red_agent if is_class else scenario4.FROM_OUTSIDE
            self._simulator.set_red_agent(env, red_class)
            self._simulator.set_scenario(env, scenario)
        self._simulator.reset(seeds, chosen)

    def step(self, actions: Joint, messages: Bits | None, chosen: Bits) -> None:
        numbers = np.flatnonzero(chosen).tolist()
        for red_agent, team in self._red_teams.items():
            envs = [env for env in numbers if self._reds[env] == red_agent]
            if envs:
                self._choices[envs], _ = team.act(self._simulator.rows[envs], envs)
        if self._red_teams:
            self._simulator.choose(self._choices)
        self._simulator.step(actions, messages, chosen)

    @property
    def busy_steps(self) -> Joint:
        busy: Joint = self._states["blue_ticks"].astype(np.int64)
        return busy

    def look(self, played: Joint, seen: Floats, rewards: Floats) -> None:
        from workflow_rl.cage4.compiled.privileged import look

        look(self._states, on_hosts("Restore", played), seen, rewards)


class SerialNetworks:
    """Simulators that step one after another. make: returns a simulator for a variant."""

    def __init__(
        self,
        n_envs: int,
        make: Callable[[str], Simulator],
        shows_raw: bool,
        measures: bool = False,
    ) -> None:
        self.raw = np.zeros(n_envs if shows_raw else 0, RAW)
        # Each network makes one simulator for each variant that it plays.
        self._made = [functools.cache(make) for _ in range(n_envs)]
        self._simulators: dict[int, Simulator] = {}
        self.obs = np.zeros((n_envs, scenario4.N_OBS), np.int8)
        self.masks = np.zeros((n_envs, scenario4.N_MASKS), np.bool_)
        self.rewards = np.zeros((n_envs, 2), np.int64)
        self.costs = np.zeros((n_envs, len(EVALUATED) if measures else 0))
        self.busy_steps = np.zeros((n_envs, len(scenario4.AGENTS)), np.int64)

    def reset(self, seeds: Sequence[int], variants: Sequence[str], chosen: Bits) -> None:
        for env in np.flatnonzero(chosen).tolist():
            simulator = self._made[env](variants[env])
            self._simulators[env] = simulator
            self.obs[env] = np.concatenate(simulator.reset(seeds[env]))
            self.masks[env] = np.concatenate(simulator.masks)
            self.busy_steps[env] = 0
            self._show(env)

    def step(self, actions: Joint, messages: Bits | None, chosen: Bits) -> None:
        for env in np.flatnonzero(chosen).tolist():
            simulator = self._simulators[env]
            sent = None if messages is None else messages[env]
            try:
                result = simulator.step(actions[env].tolist(), sent)
            except SimulationError as error:
                error.env = env
                raise
            self.obs[env] = np.concatenate(result.observations)
            self.rewards[env] = result.machine_reward, result.action_cost
            self.costs[env] = simulator.costs
            self.busy_steps[env] = simulator.busy_steps
            self._show(env)

    def _show(self, env: int) -> None:
        if len(self.raw):
            self.raw[env] = self._simulators[env].raw_arrays()[0]

    def look(self, played: Joint, seen: Floats, rewards: Floats) -> None:
        raise NotImplementedError("own rewards are read from the compiled simulator's state")


class TeamEnvs(NetworkEnvs):
    """CAGE-4 networks that a blue team plays. rows: the maker of the rows that policies read."""

    def __init__(self, networks: Networks, rows: ViewRows, n_steps: int) -> None:
        super().__init__(len(networks.obs), n_steps)
        self._networks = networks
        self._rows = rows
        self._played = np.tile(SLEEP, (self.n_envs, 1))

    def _begin(
        self, envs: Numbers, specs: Sequence[EpisodeSpec], seeds: Numbers, mask: NDArray[np.bool_]
    ) -> Obs:
        networks = self._networks
        variants = [""] * self.n_envs
        for env, spec in zip(envs.tolist(), specs, strict=True):
            variants[env] = spec.variant
        networks.reset(seeds.tolist(), variants, mask)
        obs, raw, busy = self._seen(envs)
        return self._rows.begin(envs.tolist(), obs, networks.masks[envs], raw, busy)

    def _play(
        self, envs: Numbers, actions: Actions, mask: NDArray[np.bool_]
    ) -> tuple[Obs, NDArray[Any]]:
        """actions: [M, 5], see `ViewRows.play`."""
        networks = self._networks
        taken = self._rows.play(envs.tolist(), actions)
        self._played[envs] = taken
        networks.step(self._played, self._rows.sent, mask)
        if self._rows.own.size:
            networks.look(self._played, self._rows.seen, self._rows.own)
        ended = self._steps_left[envs] == 0
        rows = self._rows.after(envs.tolist(), taken, *self._seen(envs), ended)
        return rows, networks.rewards[envs].sum(axis=1)

    def _costs(self, envs: Numbers) -> NDArray[np.float64] | None:
        costs = self._networks.costs
        return costs[envs, : len(COSTS)] if costs.size else None

    def _seen(self, envs: Sequence[int] | Numbers) -> BlueSees:
        networks = self._networks
        raw = networks.raw[envs] if len(networks.raw) else networks.raw
        return BlueSees(networks.obs[envs], raw, networks.busy_steps[envs])
