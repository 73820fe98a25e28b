"""Blue agents that follow a fixed rule: the baselines of CAGE Challenge 2.

`react-remove` and `react-restore` play exactly like CybORG's `BlueReactRemoveAgent` and
`BlueReactRestoreAgent`. `decoys` is the strongest scripted agent.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.distributions import Choice
from workflow_rl.cage2.agent.blue import Blue
from workflow_rl.cage2.agent.records import records
from workflow_rl.cage2.compiled.description import tables_of
from workflow_rl.cage2.scenario.actions import DECOYS
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scenario2 import WORTH_IN_TENTHS
from workflow_rl.errors import ConfigError


class ScriptedBlue(Blue):
    """A blue agent that follows a rule. Its log-probabilities are NaN.

    A subclass defines the agent's memory of an episode, and how the agent chooses an action.

    reads_suspicious: whether the agent reads the suspicious hosts of a record."""

    reads_suspicious = False

    def __init__(self, name: str, network: Scenario) -> None:
        super().__init__(name, "scripted")
        self.network = network
        self._memories: dict[int, Any] = {}  # The memory of each env's episode.

    def memory(self, seed: int) -> Any:
        """Return the agent's memory at the beginning of an episode. The seed determines all random
        choices of the episode."""

    def choose(self, memory: Any, record: Any) -> int:
        """Return an index of the network's actions for a record, and update the memory."""
        raise NotImplementedError

    def into(self, network: Scenario) -> Blue:
        return scripted_blue(self.name, network)

    def reset(self, seed: int, env: int = 0, n_acted: int = 0) -> None:
        assert n_acted == 0, "the agent's memory of earlier steps is not known"
        self._memories[env] = self.memory(seed)

    def act(self, obs: NDArray[Any], envs: Sequence[int] = (0,)) -> Choice:
        actions = [
            self.choose(self._memories[env], record) for env, record in zip(envs, obs, strict=True)
        ]
        return np.array(actions), np.full(len(actions), np.nan, np.float32)


class SleepAgent(ScriptedBlue):
    def choose(self, memory: None, record: Any) -> int:
        return self.network.action_names.index("Sleep")


class RandomAgent(ScriptedBlue):
    """An agent that draws all actions with equal probability."""

    def memory(self, seed: int) -> np.random.Generator:
        return np.random.default_rng(seed)

    def choose(self, memory: np.random.Generator, record: Any) -> int:
        return int(memory.integers(len(self.network.action_names)))


@dataclass
class Treatments:
    """The memory of a react agent. queue: the hosts that wait for treatment, the next host first.
    has_monitored: whether the agent's last action was Monitor."""

    queue: list[int] = field(default_factory=list)
    has_monitored: bool = False


class ReactAgent(ScriptedBlue):
    """An agent that monitors until it sees a suspicious process, and then treats the hosts in turn.

    CybORG's agents react to suspicious processes only. The 52 bits also show a host as exploited if
    Red guessed SSH passwords there, so this agent reads the mask of suspicious hosts. As in CybORG,
    the agent never treats User0, where Red begins. While the agent treats a host, it does not
    notice new suspicious hosts.

    treatment: the kind of action that treats a host."""

    reads_suspicious = True

    def __init__(self, name: str, network: Scenario, treatment: str) -> None:
        super().__init__(name, network)
        first = f"{treatment} {network.hosts[0]}"
        if first not in network.action_names:
            raise ConfigError("scenario", f"Blue cannot {treatment} in {network}")
        self._first_treatment = network.action_names.index(first)
        self._monitor = network.action_names.index("Monitor")
        self._of_red = network.hosts.index(network.red_host)

    def memory(self, seed: int) -> Treatments:
        return Treatments()

    def choose(self, memory: Treatments, record: Any) -> int:
        if memory.has_monitored:
            for host in np.flatnonzero(record["suspicious"]).tolist():
                if host != self._of_red and host not in memory.queue:
                    memory.queue.append(host)
        memory.has_monitored = not memory.queue
        if memory.has_monitored:
            return self._monitor
        return self._first_treatment + memory.queue.pop(0)


@dataclass
class Defence:
    """The memory of a decoy agent. missing: the decoys that each host lacks. to_analyse: the hosts,
    in the order of analysis. removed: the host of a Remove in the last step, or ""."""

    missing: dict[str, list[str]]
    to_analyse: list[str]
    removed: str = ""


class DecoyAgent(ScriptedBlue):
    """An agent that first sets up decoys on the most valuable hosts, and then analyses hosts in
    turn.

    The agent removes Red from a host that looks compromised. The agent restores the host if Red is
    privileged there, or if the host still looks compromised after the removal. A Restore ends the
    host's decoys, so the agent sets up decoys there again."""

    DECOYS_A_HOST = 3
    KINDS = (
        "Misinform", "DecoyHarakaSMPT", "DecoyTomcat", "DecoyApache", "DecoyFemitter",
        "DecoySvchost", "DecoySmss", "DecoySSHD", "DecoyVsftpd",
    )  # fmt: skip

    def __init__(self, name: str, network: Scenario) -> None:
        super().__init__(name, network)
        self._actions = {name: index for index, name in enumerate(network.action_names)}
        for kind in ("Analyse", "Remove", "Restore"):
            if f"{kind} {network.hosts[0]}" not in self._actions:
                raise ConfigError("scenario", f"Blue cannot {kind} in {network}")
        tables = tables_of(network)
        names = network.hosts
        worth = tables.of["worth_of_host"] + 10 * np.isin(names, network.ot_hosts)
        # Blue cannot free Red's first host. The challenge's attackers never attack Blue's server.
        is_treated = (tables.of["n_blue_sessions"] == 1) & (np.array(names) != network.red_host)
        treated = [host for host in np.argsort(-worth, kind="stable") if is_treated[host]]
        self._hosts = {names[host]: int(host) for host in treated}
        fits = dict(zip(DECOYS, tables.decoy_fits.T, strict=True))
        self._decoys: dict[str, list[str]] = {}
        for host in sorted(treated):
            if worth[host] > WORTH_IN_TENTHS["Low"]:
                kinds = [kind for kind in self.KINDS if f"{kind} {names[host]}" in self._actions]
                possible = [kind for kind in kinds if kind not in fits or fits[kind][host]]
                self._decoys[names[host]] = possible[: self.DECOYS_A_HOST]

    def memory(self, seed: int) -> Defence:
        missing = {host: list(kinds) for host, kinds in self._decoys.items()}
        return Defence(missing, list(self._hosts))

    def choose(self, memory: Defence, record: Any) -> int:
        return self._actions[self._chosen(memory, record["obs"])]

    def _chosen(self, memory: Defence, obs: NDArray[np.uint8]) -> str:
        removed = memory.removed
        memory.removed = ""
        compromise = obs.reshape(-1, 4)[:, 2:]  # Both bits of a host are set if Red is privileged.
        shown = {name: compromise[host] for name, host in self._hosts.items()}
        compromised = [name for name, bits in shown.items() if any(bits)]
        for name in compromised:
            if all(shown[name]) or name == removed:
                if name in self._decoys:
                    memory.missing[name] = list(self._decoys[name])
                return f"Restore {name}"
        if compromised:
            memory.removed = compromised[0]
            return f"Remove {compromised[0]}"
        missing = [name for name, kinds in memory.missing.items() if kinds]
        if missing:
            n_decoys = [len(self._decoys[name]) - len(memory.missing[name]) for name in missing]
            # The first host among those with the fewest decoys.
            host = missing[n_decoys.index(min(n_decoys))]
            return f"{memory.missing[host].pop(0)} {host}"
        memory.to_analyse.append(memory.to_analyse.pop(0))
        return f"Analyse {memory.to_analyse[-1]}"


_AGENTS: dict[str, Callable[[str, Scenario], ScriptedBlue]] = {
    "sleep": SleepAgent,
    "random": RandomAgent,
    "react-remove": functools.partial(ReactAgent, treatment="Remove"),
    "react-restore": functools.partial(ReactAgent, treatment="Restore"),
    "decoys": DecoyAgent,
}
SCRIPTED_AGENTS = tuple(_AGENTS)


def scripted_blue(name: str, network: Scenario | None = None) -> ScriptedBlue:
    """Return the scripted agent of this name, one of `SCRIPTED_AGENTS`.

    network: the agent's scenario, by default Scenario 2. Raises ValueError for another name, and
    ConfigError if Blue lacks the agent's actions in the network."""
    if name not in _AGENTS:
        raise ValueError(f"agent={name!r}: choose one of {', '.join(SCRIPTED_AGENTS)}")
    return _AGENTS[name](name, network or Scenario.scenario2())


MIXTURES = {
    "mixed-decoys": {"Decoy": 0.8, "Monitor": 0.1, "Restore": 0.1},
    "all-kinds": {
        "Sleep": 0.2,
        "Monitor": 0.2,
        "Analyse": 0.2,
        "Remove": 0.15,
        "Decoy": 0.15,
        "Restore": 0.1,
    },
}
"""Blue agents that draw a kind of action, then an action of this kind. They reach states that the
other scripted agents seldom reach."""
HOARDERS = {
    "decoys-only": {"Decoy": 1.0},
    # CybORG allows any number of DecoyVsftpd on one host.
    "stacked-decoys": {"DecoyVsftpd": 1.0},
    "decoys-on-one-host": {"DecoyVsftpd Enterprise1": 1.0},
}
"""Blue agents that only set up decoys, so that hosts fill with processes in long episodes."""


class MixedAgent(ScriptedBlue):
    """A blue agent that draws a kind of action by its weight, then an action of this kind.

    weights: the probability of each kind. A kind is the beginning of its actions' names."""

    def __init__(self, weights: Mapping[str, float], network: Scenario) -> None:
        super().__init__("mixed", network)
        self._groups: list[list[int]] = []
        self._weights: list[float] = []
        for kind, weight in weights.items():
            group = [i for i, name in enumerate(network.action_names) if name.startswith(kind)]
            if group:
                self._groups.append(group)
                self._weights.append(weight)
        if len(self._groups) < len(weights):
            self._weights = [weight / sum(self._weights) for weight in self._weights]

    def memory(self, seed: int) -> np.random.Generator:
        return np.random.default_rng(seed)

    def choose(self, memory: np.random.Generator, record: Any) -> int:
        group = memory.choice(len(self._groups), p=self._weights)
        return int(memory.choice(self._groups[group]))


def make_blue_agent(name: str, network: Scenario | None = None) -> ScriptedBlue:
    """Return one of SCRIPTED_AGENTS, MIXTURES or HOARDERS. network: by default Scenario 2.

    Raises ValueError if Blue has none of the agent's actions."""
    network = network or Scenario.scenario2()
    mixture = {**MIXTURES, **HOARDERS}.get(name)
    if mixture is None:
        return scripted_blue(name, network)
    if not any(action.startswith(tuple(mixture)) for action in network.action_names):
        raise ValueError(f"Blue has no action {' or '.join(mixture)} in {network}")
    return MixedAgent(mixture, network)


class ScriptedAgent:
    """A scripted agent that plays episodes of `Cage2Env`, one after another."""

    def __init__(self, blue: ScriptedBlue) -> None:
        self._blue = blue
        self.reset()

    def reset(self, seed: int = 0) -> None:
        """Prepare for an episode. The seed determines all random choices of the episode."""
        self._blue.reset(seed)

    def act(self, obs: NDArray[Any], info: Mapping[str, Any] | None = None) -> int:
        """Return an index of the network's actions. obs, info: the env's last results.

        Raises ValueError for an observation of another scenario, and if a react agent gets no
        `info` with "suspicious_hosts"."""
        network = self._blue.network
        suspicious = (info or {}).get("suspicious_hosts")
        if suspicious is None and self._blue.reads_suspicious:
            raise ValueError("a react agent needs info['suspicious_hosts'], as Cage2Env returns it")
        if len(obs) != network.obs_size:
            raise ValueError(
                f"the observation has {len(obs)} bits, and observations of {network} have "
                f"{network.obs_size}: make the agent for your scenario, see make_scripted_agent"
            )
        caught = False if suspicious is None else suspicious
        actions, _ = self._blue.act(records(network, np.asarray(obs)[None], caught))
        return int(actions[0])


def make_scripted_agent(name: str, scenario: Scenario | None = None) -> ScriptedAgent:
    """Return the scripted agent of this name: see `scripted_blue`."""
    return ScriptedAgent(scripted_blue(name, scenario))
