"""Record an episode: for each step, what both sides did, what was true and what Blue saw.

A recorded episode is an episode of one of an evaluation's cells, with the same seeds. The compiled
simulator plays, or CybORG if only CybORG can play the red agent."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.distributions import Actions
from workflow_rl.cage.playing import play
from workflow_rl.cage.replay_frame import Moment, moments_of
from workflow_rl.cage2 import scenario2
from workflow_rl.cage2.agent.blue import Blue, Decision
from workflow_rl.cage2.agent.records import records
from workflow_rl.cage2.compiled.description import tables_of
from workflow_rl.cage2.costs import costs_of_step
from workflow_rl.cage2.red.roster import REDS
from workflow_rl.cage2.scenario.actions import BLUE, RED_ACTIONS
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scoring.protocol import cell_spec
from workflow_rl.cage2.scoring.red_view import CybORGRed, RedChoice, WatchedRed, watched
from workflow_rl.environments.env_batch import StepAnswers
from workflow_rl.environments.episode import EpisodeSpec

THOUGHTS = ("none", "user", "privileged")
OT_SERVICE_STOPPED = "OT service stopped"


@dataclass(frozen=True)
class HostState:
    """A host after a step.

    red: Red's best session on the host: none, user or privileged.
    thought: the session that Red believes it has. Red does not see when Blue removes a session.
    known: what Red knows of the host: nothing, address, or ports.
    ports: the open ports that Red knows, without ports that no exploit attacks.
    activity: what Blue saw on the host in this step: nothing, scan or exploit.
    belief: the compromise that the observation shows: clean, unknown, user or privileged."""

    red: str
    thought: str
    known: str
    ports: tuple[int, ...]
    red_files: bool
    decoys: tuple[str, ...]
    activity: str
    belief: str


@dataclass(frozen=True)
class NetworkState:
    """The network after a step. hosts: in the scenario's order. subnets: the subnets that Red
    knows. ot_stopped: the hosts whose OT service is stopped."""

    hosts: tuple[HostState, ...]
    subnets: tuple[str, ...]
    ot_stopped: tuple[str, ...]
    red_knows_ot_service: bool


@dataclass(frozen=True)
class Step:
    """One step, in CybORG's words, and the network after it.

    red_target: the name of a host or a subnet. red_text: Red's action with the target's address.
    caught: the hosts on which monitoring noticed a suspicious process. costs: the cost of each
    cause; the reward is minus their sum. measured: see `cage2.costs`. total: the return so far.
    decision: how Blue decided, or None for a scripted agent."""

    blue_action: str
    blue_success: str
    red_action: str
    red_target: str | None
    red_text: str
    red_success: str
    caught: tuple[str, ...]
    reward: float
    costs: Mapping[str, float]
    measured: Mapping[str, float]
    total: float
    decision: Decision | None
    red_choice: RedChoice
    after: NetworkState


@dataclass(frozen=True)
class Recording:
    """An episode of an evaluation.

    choice: how the agent chooses actions: greedy, sampled or scripted. red_agent: the cell's red
    agent, or several with weights. drawn: the red agent of this episode. seed: the evaluation's
    seed. episode: the number in the cell. beginning: the network before the first step. moments:
    see `moments_of`."""

    agent: str
    choice: str
    red_agent: str
    drawn: str
    max_steps: int
    seed: int
    episode: int
    beginning: NetworkState
    steps: tuple[Step, ...]
    moments: tuple[Moment, ...]

    @property
    def opponent(self) -> str:
        """The red agent of this episode, and the red agents from which it was drawn."""
        single = REDS.single(self.red_agent)
        return single or f"{self.drawn}, drawn from {self.red_agent}"

    @property
    def episode_return(self) -> float:
        return self.steps[-1].total


def record_episode(
    blue: Blue, red_agent: str, max_steps: int = 100, seed: int = 0, episode: int = 0
) -> Recording:
    """Play episode number `episode` of an evaluation's cell, in Blue's network, and record it.

    Raises RuntimeError if CybORG would fail in this episode, too."""
    spec = cell_spec(seed, max_steps, red_agent, episode)
    network = _WatchedNetwork(blue, spec.variant, max_steps)
    blue.watch()
    for _ in play(lambda n_envs: network, blue, [spec], 1):
        pass
    return Recording(
        blue.name,
        blue.choice,
        red_agent,
        spec.variant,
        max_steps,
        seed,
        episode,
        network.beginning,
        tuple(network.steps),
        moments_of([step.costs for step in network.steps]),
    )


class _WatchedNetwork:
    """An EnvBatch of one env, which records one episode.

    beginning: the network before the first step. steps: the steps up to now."""

    n_envs = 1

    def __init__(self, blue: Blue, red_agent: str, max_steps: int) -> None:
        self._blue = blue
        self._scenario = blue.network
        self._max_steps = max_steps
        self._red = watched(red_agent, max_steps, blue.network)
        self.steps: list[Step] = []
        self._total = 0.0

    def reset(self, envs: Sequence[int], specs: Sequence[EpisodeSpec]) -> NDArray[Any]:
        obs = self._red.simulator.reset(specs[0].env_seed, self._red.name)
        self._seen = self._red.shown()
        self.beginning = _network(self._scenario, self._red, obs, self._seen.row)
        return records(self._scenario, obs[None])

    def step(self, envs: Sequence[int], actions: Actions) -> StepAnswers:
        scenario, red, seen = self._scenario, self._red, self._seen
        decision = self._blue.decision
        action = int(actions[0])
        held_before, _ = red.simulator.held
        obs, reward = red.simulator.step(action)
        measured = costs_of_step(red.simulator, tables_of(scenario), action, held_before)
        self._total += reward
        red_name, red_decision = red.chosen()
        red_choice = RedChoice(red_name, seen.possible, seen.observation, red_decision)
        self._seen = red.shown(red_name)
        after = _network(scenario, red, obs, self._seen.row)
        blue_action = scenario.action_names[action]
        _, red_text = red.simulator.texts
        blue_success, red_action, target, red_success, caught = red.simulator.facts
        red_name = red_text.split()[0] if red_action < 0 else RED_ACTIONS[red_action]
        red_target = None if target < 0 else scenario.red_targets[target]
        self.steps.append(
            Step(
                blue_action=blue_action,
                blue_success=scenario2.SUCCESSES[blue_success],
                red_action=red_name,
                red_target=red_target,
                red_text=red_text,
                red_success=scenario2.SUCCESSES[red_success],
                caught=tuple(scenario.hosts[host] for host in np.flatnonzero(caught)),
                reward=reward,
                costs=_costs(scenario, after, blue_action),
                measured=measured,
                total=self._total,
                decision=decision,
                red_choice=red_choice,
                after=after,
            )
        )
        shown = records(scenario, obs[None], caught, [red_text])
        is_over = np.array([len(self.steps) == self._max_steps])
        return StepAnswers(shown, np.array([reward]), np.zeros(1, np.bool_), is_over)

    def close(self) -> None:
        """Do nothing: there is nothing to close."""


def _network(
    scenario: Scenario, red: WatchedRed, obs: NDArray[np.uint8], row: NDArray[np.uint8]
) -> NetworkState:
    """Return the network now. row: see `red_view.ShownToRed`."""
    network = _network_in_words(red, scenario)
    tables = tables_of(scenario)
    first, n_facts = len(scenario.subnets), len(scenario2.FACTS_OF_A_HOST)
    facts = row[first : first + len(scenario.hosts) * n_facts].reshape(-1, n_facts)
    # The last two facts of a host are "user session" and "root session". A root session sets both,
    # so their sum is an index into THOUGHTS.
    thought = facts[:, -2:].sum(axis=1)
    bits = obs.reshape(-1, 4)
    stopped = []
    for name, host in zip(scenario.ot_hosts, tables.ot_hosts, strict=True):
        pids = [pid for pid, *_ in network[f"{name}: processes"]]
        if tables.of["ot_pid"][host] not in pids:
            stopped.append(name)
    hosts = []
    for host, name in enumerate(scenario.hosts):
        hosts.append(_state_of(network, name, bits[host].tolist(), int(thought[host])))
    return NetworkState(
        tuple(hosts),
        tuple(network["subnets Red knows"]),
        tuple(stopped),
        network["Red knows the OT service"],
    )


def _network_in_words(red: WatchedRed, scenario: Scenario) -> dict[str, Any]:
    """Return the network as `compiled_network` describes it, and the decoys on each host."""
    if isinstance(red, CybORGRed):
        from workflow_rl.cage2.cyborg.cyborg_state import cyborg_network

        network = cyborg_network(red.env)
        decoys = {}
        for name in scenario.hosts:
            services = network[f"{name}: services"]
            decoys[name] = [service for service in services if service != "OTService"]
    else:
        from workflow_rl.cage2.compiled.cyborg_words import compiled_network, decoys_on

        state = red.simulator.state
        network = compiled_network(state, tables_of(scenario))
        decoys = {name: decoys_on(state, host) for host, name in enumerate(scenario.hosts)}
    return network | {f"{name}: decoys": of_host for name, of_host in decoys.items()}


def _state_of(words: Mapping[str, Any], name: str, bits: Sequence[int], thought: int) -> HostState:
    rights = [is_privileged for _, is_privileged in words[f"{name}: red sessions"]]
    red = "none"
    if rights:
        red = "privileged" if any(rights) else "user"
    ports = words[f"{name}: ports Red knows"]
    known = "address" if name in words["addresses Red knows"] else "nothing"
    if ports is not None:
        known = "ports"
    return _host_state(
        red,
        THOUGHTS[thought],
        known,
        tuple(ports or ()),
        words[f"{name}: red files"],
        tuple(decoy.removeprefix("Decoy") for decoy in words[f"{name}: decoys"]),
        *scenario2.bits_in_words(bits),
    )


# Most states of hosts equal an earlier state. To save memory, equal states are one object.
_host_state = functools.lru_cache(maxsize=4096)(HostState)


def _costs(scenario: Scenario, after: NetworkState, blue_action: str) -> dict[str, float]:
    """Return the cost of each cause in a step: see `compiled.observe.reward`."""
    costs: dict[str, float] = {}
    if cost := BLUE[blue_action.partition(" ")[0]].cost:
        costs[blue_action] = cost / 10
    worth = tables_of(scenario).of
    for name, host, tenths in zip(scenario.hosts, after.hosts, worth["worth_of_host"], strict=True):
        if host.red == "privileged" and tenths:
            costs[f"{name} held by Red"] = int(tenths) / 10
    services = zip(scenario.ot_hosts, worth["worth_of_ot_service"], strict=True)
    if stopped := sum(int(tenths) for name, tenths in services if name in after.ot_stopped):
        costs[OT_SERVICE_STOPPED] = stopped / 10
    return costs
