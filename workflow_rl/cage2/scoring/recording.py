"""An episode on record: what both sides did, what was true and what Blue saw, step by step.

Episodes are played in the compiled simulator with the seeds of the evaluation: episode `k` of a
recording is episode `k` of an evaluation's cell.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage2 import scenario2
from workflow_rl.cage2.scoring.protocol import cell_spec
from workflow_rl.reporting.replay_frame import Moment, moments_of

if TYPE_CHECKING:
    from workflow_rl.cage2.scoring.players import BluePlayer

ACTIVITIES = {(0, 0): "nothing", (1, 0): "scan", (1, 1): "exploit"}
BELIEFS = {(0, 0): "clean", (1, 0): "unknown", (0, 1): "user", (1, 1): "privileged"}
MOST_PROBABILITIES = 5
OT_SERVICE_STOPPED = "OT service stopped"


@dataclass(frozen=True)
class HostState:
    """A host after a step.

    red: Red's best session on the host: none, user or privileged. known: what Red knows of the
    host: nothing, address, or ports (the open ones that an exploit attacks, in `ports`). activity:
    what Blue saw on the host in the step: nothing, scan or exploit. belief: the compromise that the
    observation shows: clean, unknown, user or privileged.
    """

    red: str
    known: str
    ports: tuple[int, ...]
    red_files: bool
    decoys: tuple[str, ...]
    activity: str
    belief: str


@dataclass(frozen=True)
class NetworkState:
    """The network after a step. hosts: in the order of `HOSTS`. subnets: those that Red knows."""

    hosts: tuple[HostState, ...]
    subnets: tuple[str, ...]
    ot_service_runs: bool
    red_knows_ot_service: bool


@dataclass(frozen=True)
class Decision:
    """How a policy decided.

    probabilities: those of the likeliest actions, at most MOST_PROBABILITIES, and of the chosen
    one. value: the return that the critic expects, see `critic_of`; None if there is no critic.
    is_opening: the action belongs to a fixed opening.
    """

    probabilities: tuple[tuple[str, float], ...]
    value: float | None
    is_opening: bool = False


@dataclass(frozen=True)
class Step:
    """One step, in CybORG's words, and the network after it.

    red_target: a host or a subnet; red_text has the address. caught: hosts on which monitoring
    caught a process. costs: by cause; the reward is the negative sum. total: the return so far.
    decision: None for a scripted agent.
    """

    blue_action: str
    blue_success: str
    red_action: str
    red_target: str | None
    red_text: str
    red_success: str
    caught: tuple[str, ...]
    reward: float
    costs: Mapping[str, float]
    total: float
    decision: Decision | None
    after: NetworkState


@dataclass(frozen=True)
class Recording:
    """An episode of an evaluation.

    choice: how the agent chooses: greedy, sampled or scripted. seed: the evaluation's. episode: the
    number in the cell. beginning: the network before the first step. moments: all losses, the
    costliest first.
    """

    agent: str
    choice: str
    red_agent: str
    max_steps: int
    seed: int
    episode: int
    beginning: NetworkState
    steps: tuple[Step, ...]
    moments: tuple[Moment, ...]

    @property
    def episode_return(self) -> float:
        """The sum of the rewards."""
        return self.steps[-1].total


def record_episode(
    blue: BluePlayer, red_agent: str, max_steps: int = 100, seed: int = 0, episode: int = 0
) -> Recording:
    """Play episode number `episode` of the evaluation's cell.

    Raises RuntimeError where CybORG itself would fail.
    """
    from workflow_rl.cage2.compiled.simulator import CompiledSimulator

    spec = cell_spec(seed, max_steps, red_agent, episode)
    simulator = CompiledSimulator(max_steps)
    obs = simulator.reset(spec.env_seed, red_agent)
    caught = np.zeros(len(scenario2.HOSTS), np.bool_)
    blue.reset(spec.action_seed)
    beginning, steps, total = _network(simulator.state, obs), list[Step](), 0.0
    for _ in range(max_steps):
        action, decision = blue.decide(obs.copy(), caught)
        obs, reward = simulator.step(action)
        total += reward
        blue_success, red_action, target, red_success, caught = simulator.facts
        steps.append(
            Step(
                blue_action=scenario2.ACTION_NAMES[action],
                blue_success=scenario2.SUCCESSES[blue_success],
                red_action=scenario2.RED_ACTIONS[red_action],
                red_target=None if target < 0 else scenario2.RED_TARGETS[target],
                red_text=simulator.texts[1],
                red_success=scenario2.SUCCESSES[red_success],
                caught=tuple(scenario2.HOSTS[host] for host in np.flatnonzero(caught)),
                reward=reward,
                costs=_costs(simulator.state, scenario2.ACTION_NAMES[action]),
                total=total,
                decision=decision,
                after=_network(simulator.state, obs),
            )
        )
    return Recording(
        blue.name,
        blue.choice,
        red_agent,
        max_steps,
        seed,
        episode,
        beginning,
        tuple(steps),
        moments_of([step.costs for step in steps]),
    )


def _network(state: Any, obs: NDArray[np.uint8]) -> NetworkState:
    from workflow_rl.cage2.compiled.network import decoys_on, known_ports, red_sessions
    from workflow_rl.cage2.compiled.tables import RED_HOST, SUBNETS

    files, addresses = int(state["has_malware"]), int(state["known_addresses"])
    scanned, processes = int(state["scanned_by_session"]), state["first_process"].tolist()
    hosts = []
    for host, bits in enumerate(obs.reshape(len(scenario2.HOSTS), 4).tolist()):
        rights, decoys = list[bool](), list[str]()
        if processes[host] or host == RED_HOST:
            rights = [is_privileged for _, is_privileged in red_sessions(state, host)]
            decoys = decoys_on(state, host)
        ports = known_ports(state, host) if scanned >> host & 1 else None
        hosts.append(
            _host_state(
                "privileged" if any(rights) else "user" if rights else "none",
                _known(ports, addresses >> host & 1),
                tuple(ports or ()),
                bool(files >> host & 1),
                tuple(name.removeprefix("Decoy") for name in decoys),
                ACTIVITIES[bits[0], bits[1]],
                BELIEFS[bits[2], bits[3]],
            )
        )
    return NetworkState(
        tuple(hosts),
        tuple(name for i, name in enumerate(SUBNETS) if state["known_subnets"] >> i & 1),
        bool(state["ot_running"]),
        bool(state["knows_ot_service"]),
    )


def _known(ports: list[int] | None, address: int) -> str:
    if ports is not None:
        return "ports"
    return "address" if address else "nothing"


# Equal states are shared: most hosts are most of the time as some host was before.
_host_state = functools.lru_cache(maxsize=4096)(HostState)


def _costs(state: Any, blue_action: str) -> dict[str, float]:
    """Return the costs of a step by cause: see `compiled.observe.reward`."""
    from workflow_rl.cage2.compiled.tables import RESTORE_COST, WORTH, WORTH_OF_OT_SERVICE

    costs: dict[str, float] = {}
    if blue_action.startswith("Restore"):
        costs[blue_action] = RESTORE_COST / 10
    for host, name in enumerate(scenario2.HOSTS):
        if state["is_owned"] >> host & 1 and WORTH[host]:
            costs[f"{name} held by Red"] = int(WORTH[host]) / 10
    if not state["ot_running"]:
        costs[OT_SERVICE_STOPPED] = WORTH_OF_OT_SERVICE / 10
    return costs
