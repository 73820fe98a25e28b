"""An episode on record: what both sides did, what was true and what Blue saw, step by step.

Played in the compiled simulator, with the seeds of the evaluation: episode `k` here is episode `k`
there. Imports torch only for checkpoints, which need it.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from agents.policies.distributions import Choice
from agents.policies.numpy_policy import NumpyPolicy
from workflow_rl.cage2.agent.action_sets import make_action_set
from workflow_rl.cage2.agent.scripted import SCRIPTED_AGENTS, make_scripted_agent
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage2.scenario2 import (
    ACTION_NAMES,
    HOSTS,
    RED_ACTIONS,
    RED_AGENTS,
    RED_TARGETS,
    SUCCESSES,
)
from workflow_rl.cage2.scoring.evaluation import cell_spec, load_trained, on_the_bits
from workflow_rl.environments.environment import Environment

if TYPE_CHECKING:
    from workflow_rl.cage2.parity import LockStep

ACTIVITIES = {(0, 0): "nothing", (1, 0): "scan", (1, 1): "exploit"}
BELIEFS = {(0, 0): "clean", (1, 0): "unknown", (0, 1): "user", (1, 1): "privileged"}
MOST_PROBABILITIES = 5
OT_SERVICE_STOPPED = "OT service stopped"


@dataclass(frozen=True)
class HostState:
    """A host after a step.

    red: the best session Red has there: none, user or privileged. known: what Red knows of it:
    nothing, its address, or its ports, those open ones that an exploit attacks. activity: what Blue
    saw there in the step: nothing, scan or exploit. belief: how far the observation has it
    compromised: clean, unknown, user or privileged.
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
    """The network after a step. hosts: of `HOSTS`. subnets: those that Red knows."""

    hosts: tuple[HostState, ...]
    subnets: tuple[str, ...]
    ot_service_runs: bool
    red_knows_ot_service: bool


@dataclass(frozen=True)
class Decision:
    """What a policy made of what it saw.

    probabilities: of the likeliest actions, at most MOST_PROBABILITIES, and of the one it chose.
    value: what its critic expects, see `critic_of`; None if it is not known. is_opening: the
    action belongs to a fixed opening.
    """

    probabilities: tuple[tuple[str, float], ...]
    value: float | None
    is_opening: bool = False


@dataclass(frozen=True)
class Step:
    """One step, in CybORG's words, and the network after it.

    red_target: a host or a subnet; red_text has its address. caught: where monitoring caught a
    process. costs: what the reward is made of, by cause; its negative sum is the reward. total: the
    return so far. decision: None of a scripted agent.
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
class Moment:
    """Steps, the first and the last, counted from 1, that cost something for the same cause."""

    cause: str
    first: int
    last: int
    cost: float


@dataclass(frozen=True)
class Recording:
    """An episode of an evaluation: its seed and cell, its number there.

    choice: how the agent chooses: greedy, sampled or scripted. beginning: the network before the
    first step. moments: all that was lost, the costliest first.
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
        """The sum of its rewards."""
        return self.steps[-1].total


# --- Who plays -----------------------------------------------------------------------------------


class Blue(Protocol):
    """An agent that tells how it decides."""

    name: str
    choice: str

    def reset(self, seed: int) -> None:
        """Begin an episode, whose random choices follow from `seed`."""

    def decide(self, obs: NDArray[np.uint8], caught: NDArray[np.bool_]) -> tuple[int, Any]:
        """An index into ACTION_NAMES and a Decision, if it tells, for obs [52] and the mask of
        hosts [13] on which a process was caught."""


class ScriptedBlue:
    """One of SCRIPTED_AGENTS."""

    choice = "scripted"

    def __init__(self, name: str) -> None:
        self.name = name
        self._agent = make_scripted_agent(name)

    def reset(self, seed: int) -> None:
        """See Blue."""
        self._agent.reset(seed)

    def decide(self, obs: NDArray[np.uint8], caught: NDArray[np.bool_]) -> tuple[int, None]:
        """See Blue."""
        return self._agent.act(obs, {"suspicious_hosts": caught}), None


Critic: TypeAlias = Callable[[np.ndarray], np.ndarray]
"""What `critic_of` returns."""


class TrainedBlue:
    """A policy of this environment. critic: None if there is none. path: names it in errors.

    Raises CheckpointError if what it sees is shown in no evaluation.
    """

    def __init__(
        self,
        name: str,
        policy: NumpyPolicy,
        environment: Environment,
        critic: Critic | None = None,
        path: Path | None = None,
    ) -> None:
        self.name = name
        self.choice = "greedy" if policy.greedy else "sampled"
        self._policy = _WatchedPolicy(policy)
        self._actor = on_the_bits(self._policy, environment, path or name)
        self._actions = make_action_set(
            environment.actions if isinstance(environment, Cage2) else "all"
        )
        self._critic = critic

    def reset(self, seed: int) -> None:
        """See Blue."""
        self._actor.reset(seed)
        self._actions.begin([0])

    def decide(self, obs: NDArray[np.uint8], caught: NDArray[np.bool_]) -> tuple[int, Decision]:
        """See Blue."""
        # What each of its choices stands for depends on the steps before.
        choices = self._actions.chosen([0] * self._actions.n, np.arange(self._actions.n))
        self._policy.obs = None
        (action,), _ = self._actor.act(obs[None])
        self._actions.after([0], np.array([action]))
        seen = self._policy.obs
        if seen is None:  # It was not asked.
            return int(action), Decision(((ACTION_NAMES[action], 1.0),), None, is_opening=True)
        probability = np.zeros(len(ACTION_NAMES))
        np.add.at(probability, choices, _softmax(self._policy.policy.outputs(seen)[0]))
        likeliest = np.argsort(-probability, kind="stable")[:MOST_PROBABILITIES].tolist()
        if action not in likeliest:
            likeliest.append(int(action))
        value = None if self._critic is None else float(self._critic(seen)[0])
        shown = ((ACTION_NAMES[i], float(probability[i])) for i in likeliest if probability[i] > 0)
        return int(action), Decision(tuple(shown), value)


class _WatchedPolicy:
    """A policy that remembers what it saw last, [1, D]: an Actor."""

    def __init__(self, policy: NumpyPolicy) -> None:
        self.policy = policy
        self.policy_version = policy.policy_version
        self.reset = policy.reset
        self.obs: NDArray[Any] | None = None

    def act(self, obs: NDArray[Any], envs: Sequence[int] = (0,)) -> Choice:
        """See Actor."""
        self.obs = np.atleast_2d(obs)
        return self.policy.act(obs, envs)


def _softmax(logits: NDArray[Any]) -> NDArray[np.float64]:
    weights = np.exp(logits.astype(np.float64) - logits.max())
    return np.asarray(weights / weights.sum())


def load_blue(agent: Path, which: str | None = None, greedy: bool = True) -> Blue:
    """A run folder's agent, a checkpoint's, a policy file's, a released one or a scripted one, by
    its name. Raises CheckpointError."""
    if not agent.exists() and str(agent) in SCRIPTED_AGENTS:
        return ScriptedBlue(str(agent))
    from workflow_rl.runs.saved_agent import saved_path

    policy, environment = load_trained(agent, greedy, which)
    path = saved_path(agent, which)
    critic = _critic(path) if path.suffix == ".pt" else None
    return TrainedBlue(_name_of(agent), policy, environment, critic, path)


def _critic(path: Path) -> Critic:
    from workflow_rl.runs.checkpoint import load_checkpoint
    from workflow_rl.runs.saved_agent import critic_of

    return critic_of(load_checkpoint(path), path)


def _name_of(agent: Path) -> str:
    """What tells agents apart, without the path of a machine."""
    return "/".join(agent.absolute().parts[-2:]) if agent.is_file() else agent.absolute().name


# --- The episode ---------------------------------------------------------------------------------


def record_episode(
    blue: Blue, red_agent: str, max_steps: int = 100, seed: int = 0, episode: int = 0
) -> Recording:
    """Play episode number `episode` of the evaluation's cell. Raises RuntimeError where CybORG
    itself would fail."""
    from workflow_rl.cage2.compiled.simulator import CompiledSimulator

    spec = cell_spec(seed, max_steps, red_agent, episode)
    simulator = CompiledSimulator(max_steps)
    obs = simulator.reset(spec.env_seed, red_agent)
    caught = np.zeros(len(HOSTS), np.bool_)
    blue.reset(spec.action_seed)
    beginning, steps, total = _network(simulator.state, obs), list[Step](), 0.0
    for _ in range(max_steps):
        action, decision = blue.decide(obs.copy(), caught)
        obs, reward = simulator.step(action)
        caught = simulator.suspicious_hosts
        total += reward
        target = simulator.red_target
        steps.append(
            Step(
                blue_action=ACTION_NAMES[action],
                blue_success=SUCCESSES[simulator.blue_success],
                red_action=RED_ACTIONS[simulator.red_action],
                red_target=None if target < 0 else RED_TARGETS[target],
                red_text=simulator.red_text,
                red_success=SUCCESSES[simulator.red_success],
                caught=tuple(HOSTS[host] for host in np.flatnonzero(caught)),
                reward=reward,
                costs=_costs(simulator.state, ACTION_NAMES[action]),
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
    for host, bits in enumerate(obs.reshape(len(HOSTS), 4).tolist()):
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


# Most hosts are most of the time as some host was before.
_host_state = functools.lru_cache(maxsize=4096)(HostState)


def _costs(state: Any, blue_action: str) -> dict[str, float]:
    """See `compiled.reward`."""
    from workflow_rl.cage2.compiled.tables import RESTORE_COST, WORTH, WORTH_OF_OT_SERVICE

    costs: dict[str, float] = {}
    if blue_action.startswith("Restore"):
        costs[blue_action] = RESTORE_COST / 10
    for host, name in enumerate(HOSTS):
        if state["is_owned"] >> host & 1 and WORTH[host]:
            costs[f"{name} held by Red"] = int(WORTH[host]) / 10
    if not state["ot_running"]:
        costs[OT_SERVICE_STOPPED] = WORTH_OF_OT_SERVICE / 10
    return costs


def moments_of(costs: Sequence[Mapping[str, float]]) -> tuple[Moment, ...]:
    """What was lost in steps that follow one another, for the same cause, the costliest first."""
    moments = []
    for cause in dict.fromkeys(itertools.chain(*costs)):
        numbered = enumerate((step.get(cause, 0.0) for step in costs), 1)
        for is_lost, group in itertools.groupby(numbered, lambda one: one[1] > 0):
            if is_lost:
                steps = list(group)
                cost = round(sum(lost for _, lost in steps), 1)
                moments.append(Moment(cause, steps[0][0], steps[-1][0], cost))
    return tuple(sorted(moments, key=lambda moment: (-moment.cost, moment.first)))


# --- Held against CybORG -------------------------------------------------------------------------


class Comparison(NamedTuple):
    """Of a recording with CybORG. is_same: None if it could not be made."""

    is_same: bool | None
    text: str


class _Recorded:
    """Does what Blue did: a ScriptedAgent."""

    def __init__(self, recording: Recording) -> None:
        self._actions = [ACTION_NAMES.index(step.blue_action) for step in recording.steps]

    def reset(self, seed: int) -> None:
        self._left = iter(self._actions)

    def act(self, obs: Any, info: Any = None) -> int:
        return next(self._left)


def compare_with_cyborg(recording: Recording, networks: bool = True) -> Comparison:
    """Play the episode in CybORG too, if it is installed, and compare every step: observation,
    reward, actions, successes, and the networks, which takes most of the time."""
    from workflow_rl.cage2.cyborg.simulator_version import simulator_version

    try:
        lock_step = _lock_step(recording.max_steps)
    except ImportError as error:
        return Comparison(None, f"Not held against CybORG, which is not installed ({error}).")
    lock_step.networks = networks
    red_agent = recording.red_agent
    assert red_agent in RED_AGENTS
    spec = cell_spec(recording.seed, recording.max_steps, red_agent, recording.episode)
    difference = lock_step.play(_Recorded(recording), red_agent, spec.env_seed, recording.agent)
    version = simulator_version("cyborg")
    if difference is not None:
        return Comparison(False, f"Differs from {version} in step {difference.step}.")
    what = "the networks included" if networks else "in observation, reward, actions and successes"
    return Comparison(True, f"Every step was held against {version} and is the same, {what}.")


@functools.cache
def _lock_step(max_steps: int) -> LockStep:
    from workflow_rl.cage2.parity import LockStep

    return LockStep("cyborg", max_steps)
