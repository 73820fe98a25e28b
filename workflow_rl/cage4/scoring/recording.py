"""A recorded episode of CAGE-4: what agents did and knew, the true state, and the costs.

The compiled simulator plays the episode as the evaluation does. Hosts, zones and actions are the
numbers of `compiled.constants` and `compiled.actions`.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from workflow_rl.cage.replay_frame import Moment, moments_of
from workflow_rl.cage4.agent.blue_team import SingleTeam
from workflow_rl.cage4.compiled import constants
from workflow_rl.cage4.compiled.actions import IMPACT, RED_SLEEP, TARGET_OF, WITHDRAW
from workflow_rl.cage4.compiled.green_actions import WORK
from workflow_rl.cage4.compiled.hosts import CONNECTION_BITS, PROCESS_BITS
from workflow_rl.cage4.compiled.red_tables import STATES
from workflow_rl.cage4.compiled.simulator import CompiledSimulator
from workflow_rl.cage4.compiled.state import UNSEEN
from workflow_rl.cage4.cyborg.simulators import make_simulator
from workflow_rl.cage4.red.roster import RedTeam
from workflow_rl.cage4.scenario import scenario4
from workflow_rl.cage4.scenario.costs import COSTS
from workflow_rl.cage4.scoring.knowledge import Knowledge, Known
from workflow_rl.cage4.scoring.protocol import evaluated_episodes

RESTORE_COST = 3
CAUSES = ("Greens' failed work", "Greens' blocked access", "Impact", "Restore")
"""The causes of costs: the three causes of `scenario4.REWARDS` in order, then blue's Restore."""
ZONE_TITLES = (
    "Restricted A",
    "Operational A",
    "Restricted B",
    "Operational B",
    "Contractor",
    "Public access",
    "Admin",
    "Office",
    "Internet",
)
"""The zones' names on pages, in the order of `scenario4.ZONES`."""
RED_KNOWS = (
    "nothing",
    "its address",
    "its services",
    "another red agent's",
    "a user's session",
    "root's session",
)
"""What red agents know of a host, from least to most, by `FiniteStateRedAgent`'s memory. Red does
not see that Blue removes a session."""
_KNOWN = np.zeros(UNSEEN + 1, np.int64)
# By a host's state: the index in RED_KNOWS. Only the first letter of a state's name matters.
_KNOWN[: len(STATES)] = ["_KSFUR".index(state[0]) for state in STATES]
LONGEST_PAUSE = 10
"""The longest time in steps without a cost within one moment. Greens work in a third of steps."""
DROPPED = 5
"""The outcome of a red action whose session was gone. The other outcomes are numbered 1 to 4."""


class HostState(NamedTuple):
    """A host after a step.

    user, root: how many red sessions have these rights. failing: percentage of greens' work on the
        host that fails.
    decoys, stopped: bits of the services that are decoys, and of the services that do not run. A
        bit's number is the process's kind in `constants`.
    seen: what blue saw in the step: 1 an event of a connection, 2 an event of a process, 3 both.
    known: the most that any red agent knows of the host, an index into RED_KNOWS.
    """

    user: int
    root: int
    decoys: int
    stopped: int
    failing: int
    seen: int
    known: int


class Deed(NamedTuple):
    """An agent's action. target: a host or a zone. source: the zone that a blue agent blocks or
    allows. ticks: how many more steps the action takes; 0 if the action took effect. outcome: TRUE,
    UNKNOWN, FALSE or DROPPED for a red action that took effect."""

    kind: int
    target: int
    source: int
    ticks: int
    outcome: int = 0


class Cost(NamedTuple):
    """What a step cost for one cause in one zone. hosts: the hosts that caused this cost."""

    cause: int
    zone: int
    cost: int
    hosts: tuple[int, ...]


@dataclass(frozen=True)
class Step:
    """One step of a recorded episode.

    total: the sum of rewards so far. blue, red: each agent's action. None: red has no session.
    changes: each host whose state changed, with the new state's index in `Recording.states`.
    knows: each host of which blue's knowledge changed, with an index into `Recording.known`.
    blocked: pairs of a zone that blocks and the zone that is blocked. measured: see `COSTS`.
    """

    phase: int
    reward: int
    total: int
    blue: tuple[Deed, ...]
    red: tuple[Deed | None, ...]
    costs: tuple[Cost, ...]
    changes: tuple[tuple[int, int], ...]
    knows: tuple[tuple[int, int], ...]
    blocked: tuple[tuple[int, int], ...]
    measured: Mapping[str, float]


@dataclass(frozen=True)
class Recording:
    """An episode of an evaluation, without its last step, which does not count.

    beginning: each host of the network, with the index of its state before the first step. Before
    this step, blue knows nothing of the hosts.
    """

    states: tuple[HostState, ...]
    known: tuple[Known, ...]
    beginning: tuple[tuple[int, int], ...]
    steps: tuple[Step, ...]

    @property
    def total(self) -> int:
        return self.steps[-1].total

    def moments(self) -> tuple[Moment, ...]:
        """Return the moments with costs, by cause and zone. The most costly moment is first."""
        costs = (_costs_by_name(step) for step in self.steps)
        return moments_of(costs, LONGEST_PAUSE)


def _costs_by_name(step: Step) -> dict[str, int]:
    return {f"{CAUSES[cost.cause]} in {ZONE_TITLES[cost.zone]}": cost.cost for cost in step.costs}


def record_episodes(
    teams: Sequence[SingleTeam],
    red_agent: str | RedTeam,
    max_steps: int,
    seed: int,
    episode: int,
    scenario: scenario4.Scenario = scenario4.CHALLENGE,
) -> list[Recording]:
    """Play episode number `episode` of the first team's evaluation with each team.

    All episodes of an evaluation share a stream of random numbers. So the first team plays the
    earlier episodes, too. Raises SimulationError.
    """
    simulator: Any = make_simulator("compiled", red_agent, max_steps, scenario, measures=True)
    before = evaluated_episodes(teams[0], simulator, episode, seed)
    for _ in tqdm(before, "before", episode, unit="ep", leave=False, disable=None):
        pass  # These episodes are played to advance the stream.
    return [_record(copy.deepcopy(simulator), team, episode) for team in teams]


def _record(simulator: CompiledSimulator, team: SingleTeam, number: int) -> Recording:
    observations = simulator.reset()
    team.reset(simulator.masks, number)
    hosts = _Hosts()
    knowledge = Knowledge()
    beginning = tuple(hosts.changes(simulator.state))
    steps: list[Step] = []
    total = 0
    while True:
        actions, messages = team.act_in(simulator, observations)
        result = simulator.step(actions, messages)
        observations = result.observations
        if result.done:
            return Recording(tuple(hosts.states), tuple(knowledge.numbers), beginning, tuple(steps))
        state = simulator.state
        total += result.reward
        steps.append(
            Step(
                phase=simulator.phase,
                reward=result.reward,
                total=total,
                blue=tuple(_blue(state)),
                red=tuple(_red(state)),
                costs=costs_of(state, actions, simulator.masks),
                changes=tuple(hosts.changes(state)),
                knows=tuple(knowledge.changes(len(steps) + 1, state, simulator.raw_arrays()[0])),
                blocked=tuple(_blocked(state)),
                measured=dict(zip(COSTS, simulator.costs.tolist(), strict=False)),
            )
        )


def _blocked(state: Any) -> Iterator[tuple[int, int]]:
    for to, bits in enumerate(state["blocked"].tolist()):
        for source in range(constants.N_ZONES):
            if (bits >> source) & 1:
                yield to, source


def _blue(state: Any) -> Iterator[Deed]:
    names = ("blue_kind", "blue_target", "blue_source", "blue_ticks")
    for agent in range(constants.N_BLUE):
        kind, target, source, ticks = (int(state[name][agent]) for name in names)
        yield Deed(kind, target, source, ticks)


def _red(state: Any) -> Iterator[Deed | None]:
    for agent in range(constants.N_RED):
        kind, ticks = int(state["red_kind"][agent]), int(state["red_ticks"][agent])
        if kind == RED_SLEEP and not state["is_active"][agent]:
            yield None
            continue
        outcome = int(state["seen_success"][agent])
        # If an action was dropped, `seen_success` is the outcome of RedSessionCheck.
        has_session = state["route_start"][agent] != constants.NOBODY
        if ticks == 0 and kind < RED_SLEEP and not has_session:
            outcome = DROPPED
        target = state["red_hostname"] if kind == WITHDRAW else state["red_target"]
        yield Deed(kind, int(target[agent]), constants.NOBODY, ticks, outcome)


def costs_of(
    state: Any, actions: Sequence[int], masks: Sequence[NDArray[np.bool_]]
) -> tuple[Cost, ...]:
    """Return what the last step cost. actions: the actions that the five agents handed in."""
    hit: dict[tuple[int, int], list[int]] = {}

    def charge(cause: int, host: int) -> None:
        hit.setdefault((cause, int(constants.ZONE[host])), []).append(host)

    n_greens = int(state["n_greens"])
    for green in np.flatnonzero(state["green_failed"][:n_greens]).tolist():
        is_work = state["green_choice"][green] == WORK
        cause = scenario4.FAILED_WORK if is_work else scenario4.FAILED_ACCESS
        charge(cause, int(state["green_host"][green]))
    for agent in range(constants.N_RED):
        # A failed Impact costs, too: see `episode.step_env`.
        if state["red_done"][agent] == IMPACT and state["n_sessions"][agent] > 0:
            charge(scenario4.IMPACT_COST, int(state["red_target"][agent]))
    for agent in range(constants.N_BLUE):
        action = actions[agent]
        is_restore = scenario4.ACTIONS[agent][action].kind == "Restore"
        if is_restore and masks[agent][action]:
            charge(RESTORE_COST, int(TARGET_OF[agent, action]))
    rewards = constants.REWARDS[int(state["phase"])]
    costs = []
    for (cause, zone), hosts in hit.items():
        price = 1 if cause == RESTORE_COST else -int(rewards[zone, cause])
        if price:
            costs.append(Cost(cause, zone, price * len(hosts), tuple(hosts)))
    return tuple(costs)


class _Hosts:
    """The states of all hosts so far. states: the number of each different state."""

    def __init__(self) -> None:
        self.states: dict[HostState, int] = {}
        self._last = np.full((constants.N_HOSTS, len(HostState._fields)), -1)

    def changes(self, state: Any) -> Iterator[tuple[int, int]]:
        """Yield each host whose state changed since the last call, with its state's number."""
        now = host_states(state)
        changed = (now != self._last).any(axis=1) & (state["exists"] > 0)
        self._last = now
        for host in np.flatnonzero(changed).tolist():
            shown = HostState(*now[host].tolist())
            yield host, self.states.setdefault(shown, len(self.states))


_DECOY_BITS = sum(1 << kind for kind in range(constants.DECOY_APACHE, constants.DECOY_VSFTPD + 1))
# Blue's observations show events on the hosts of its zones, except their routers.
_IS_SEEN = (constants.BLUE_OF_ZONE[constants.ZONE] != constants.NOBODY) & (
    constants.PLACE >= constants.FIRST_USER
)


def host_states(state: Any) -> NDArray[np.int64]:
    """Return the `HostState` of each host, int64 `[137, 7]`."""
    states = np.zeros((constants.N_HOSTS, len(HostState._fields)), np.int64)
    # Each name is a column of `states`, which the assignments below fill.
    user, root, decoys, stopped, failing, seen, known = states.T
    for agent, n_sessions in enumerate(state["n_sessions"].tolist()):
        sessions = state["sessions"][agent, :n_sessions]
        is_root = sessions["user"] == constants.ROOT
        np.add.at(root, sessions["host"][is_root], 1)
        np.add.at(user, sessions["host"][~is_root], 1)
    is_there = np.arange(constants.N_SERVICES) < state["n_services"][:, None]
    runs = is_there & (state["service_active"] > 0)
    bits = 1 << state["service_kind"].astype(np.int64)
    is_decoy = (bits & _DECOY_BITS) > 0
    decoys[:] = (bits * (is_there & is_decoy)).sum(axis=1)
    stopped[:] = (bits * (is_there & ~runs)).sum(axis=1)
    n_running = runs.sum(axis=1)
    worked = (state["reliability"] * runs).sum(axis=1) / np.maximum(n_running, 1)
    failing[:] = np.where(is_there.any(axis=1), np.rint(100 - worked), 0)
    events = np.where(_IS_SEEN, state["has_events"], 0)
    seen[:] = ((events & CONNECTION_BITS) > 0) + 2 * ((events & PROCESS_BITS) > 0)
    remembered = _KNOWN[state["host_state"]].max(axis=0)
    known[:] = np.maximum(remembered, state["knows_address"].max(axis=0))
    return states
