"""Blue agents that follow a fixed rule: the baselines of CAGE Challenge 2.

They read the observation of the env, and return the index of an action. `react-remove` and
`react-restore` play exactly like CybORG's `BlueReactRemoveAgent` and `BlueReactRestoreAgent`.
`decoys` is the strongest of them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage2.compiled.description import tables_of
from workflow_rl.cage2.compiled.tables import DECOYS, WORTH_IN_TENTHS
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scenario2 import ACTION_NAMES


class ScriptedAgent(Protocol):
    """An agent that plays one episode after another."""

    def reset(self, seed: int) -> None:
        """Prepare for an episode; the seed determines any draws made in it."""

    def act(self, obs: NDArray[np.uint8], info: Mapping[str, Any] | None = None) -> int:
        """Choose an action, given what the env returned last: obs uint8 [bits], and info."""


class SleepAgent:
    """An agent that never does anything."""

    def __init__(self, scenario: Scenario) -> None:
        self._sleep = scenario.action_names.index("Sleep")

    def reset(self, seed: int = 0) -> None:
        pass

    def act(self, obs: NDArray[np.uint8], info: Mapping[str, Any] | None = None) -> int:
        return self._sleep


class RandomAgent:
    """An agent that draws all actions with equal probability."""

    def __init__(self, scenario: Scenario) -> None:
        self._n_actions = len(scenario.action_names)

    def reset(self, seed: int = 0) -> None:
        self._generator = np.random.default_rng(seed)

    def act(self, obs: NDArray[np.uint8], info: Mapping[str, Any] | None = None) -> int:
        return int(self._generator.integers(self._n_actions))


def require_bits(obs: NDArray[np.uint8], scenario: Scenario) -> None:
    """Raise ValueError for an observation of another scenario."""
    if len(obs) != scenario.obs_size:
        raise ValueError(
            f"the observation has {len(obs)} bits, and those of {scenario} have "
            f"{scenario.obs_size}: make the agent for your scenario, see make_scripted_agent"
        )


class ReactAgent:
    """An agent that monitors until a process is caught, and then treats the hosts in turn.

    The 52 bits do not suffice: they show a host as exploited if a process was caught, and also if
    SSH passwords were guessed, but CybORG's agents react to the former alone. So the agent reads
    `info["suspicious_hosts"]`, a mask of hosts `[13]`. As in CybORG, it leaves User0, where Red
    begins, to Red, and misses what is seen while it treats a host.

    Args:
        treatment: the kind of action that treats a host.

    Raises:
        ValueError: Blue has no such action in the scenario.
    """

    def __init__(self, scenario: Scenario, treatment: str) -> None:
        first = f"{treatment} {scenario.hosts[0]}"
        if first not in scenario.action_names:
            raise ValueError(f"Blue cannot {treatment} in {scenario}")
        self._scenario = scenario
        self._first_treatment = scenario.action_names.index(first)
        self._monitor = scenario.action_names.index("Monitor")
        self._of_red = scenario.hosts.index(scenario.red_host)
        self._queue: list[int] = []
        self._monitored = False

    def reset(self, seed: int = 0) -> None:
        self._queue = []
        self._monitored = False

    def act(self, obs: NDArray[np.uint8], info: Mapping[str, Any] | None = None) -> int:
        if info is None or "suspicious_hosts" not in info:
            raise ValueError("a react agent needs info['suspicious_hosts'], as Cage2Env returns it")
        require_bits(obs, self._scenario)
        if self._monitored:
            for host in np.flatnonzero(info["suspicious_hosts"]).tolist():
                if host != self._of_red and host not in self._queue:
                    self._queue.append(host)
        self._monitored = not self._queue
        return self._first_treatment + self._queue.pop(0) if self._queue else self._monitor


class DecoyAgent:
    """An agent that first sets up decoys on the hosts that are worth most, and then analyses all
    hosts in turn.

    The agent removes Red from a host that looks compromised. It restores the host if Red is
    privileged there, or if the host still looks compromised after the removal. A Restore ends the
    decoys of the host, so the agent sets up decoys there again.

    Raises ValueError if Blue has no such actions, or the compiled simulator does not play the
    scenario.
    """

    DECOYS_A_HOST = 3
    KINDS = (
        *("Misinform", "DecoyHarakaSMPT", "DecoyTomcat", "DecoyApache", "DecoyFemitter"),
        *("DecoySvchost", "DecoySmss", "DecoySSHD", "DecoyVsftpd"),
    )

    def __init__(self, scenario: Scenario) -> None:
        self._actions = {name: index for index, name in enumerate(scenario.action_names)}
        for kind in ("Analyse", "Remove", "Restore"):
            if f"{kind} {scenario.hosts[0]}" not in self._actions:
                raise ValueError(f"Blue cannot {kind} in {scenario}")
        self._scenario = scenario
        tables, names = tables_of(scenario), scenario.hosts
        worth = tables.of["worth_of_host"] + 10 * np.isin(names, scenario.ot_hosts)
        # Red's first host stays Red's, and no attacker of the challenge goes to Blue's server.
        is_treated = (tables.of["n_blue_sessions"] == 1) & (np.array(names) != scenario.red_host)
        treated = [host for host in np.argsort(-worth, kind="stable") if is_treated[host]]
        self._hosts = {names[host]: int(host) for host in treated}
        fits = dict(zip(DECOYS, tables.decoy_fits.T, strict=True))
        self._decoys = {
            names[host]: [
                kind
                for kind in self.KINDS
                if f"{kind} {names[host]}" in self._actions
                and (kind not in fits or fits[kind][host])
            ][: self.DECOYS_A_HOST]
            for host in sorted(treated)
            if worth[host] > WORTH_IN_TENTHS["Low"]
        }
        self.reset()

    def reset(self, seed: int = 0) -> None:
        self._missing = {host: list(kinds) for host, kinds in self._decoys.items()}
        self._analysed = list(self._hosts)
        self._removed = ""

    def act(self, obs: NDArray[np.uint8], info: Mapping[str, Any] | None = None) -> int:
        require_bits(obs, self._scenario)
        removed, self._removed = self._removed, ""
        shown = {
            name: tuple(obs[4 * host + 2 : 4 * host + 4]) for name, host in self._hosts.items()
        }
        compromised = [name for name, bits in shown.items() if any(bits)]
        for name in compromised:
            if all(shown[name]) or name == removed:
                if name in self._decoys:
                    self._missing[name] = list(self._decoys[name])
                return self._actions[f"Restore {name}"]
        if compromised:
            self._removed = compromised[0]
            return self._actions[f"Remove {compromised[0]}"]
        missing = [name for name, kinds in self._missing.items() if kinds]
        if missing:
            behind = min(
                missing, key=lambda name: len(self._decoys[name]) - len(self._missing[name])
            )
            return self._actions[f"{self._missing[behind].pop(0)} {behind}"]
        self._analysed.append(self._analysed.pop(0))
        return self._actions[f"Analyse {self._analysed[-1]}"]


_AGENTS: dict[str, Callable[[Scenario], ScriptedAgent]] = {
    "sleep": SleepAgent,
    "random": RandomAgent,
    "react-remove": functools.partial(ReactAgent, treatment="Remove"),
    "react-restore": functools.partial(ReactAgent, treatment="Restore"),
    "decoys": DecoyAgent,
}
SCRIPTED_AGENTS = tuple(_AGENTS)


def make_scripted_agent(name: str, scenario: Scenario | None = None) -> ScriptedAgent:
    """Make the scripted agent of this name, one of `SCRIPTED_AGENTS`.

    scenario: what it plays; None: Scenario 2. Raises ValueError.
    """
    if name not in _AGENTS:
        raise ValueError(f"agent={name!r}: choose one of {', '.join(SCRIPTED_AGENTS)}")
    return _AGENTS[name](scenario or Scenario.scenario2())


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
"""Blue agents that draw a kind of action, then a host. They reach states that scripted agents
seldom reach."""
HOARDERS = {
    "decoys-only": {"Decoy": 1.0},
    # CybORG sets up any number of these on one host.
    "stacked-decoys": {"DecoyVsftpd": 1.0},
    "decoys-on-one-host": {"DecoyVsftpd Enterprise1": 1.0},
}
"""Blue agents that fill a network with what nothing removes, for long episodes."""


class MixedAgent:
    """A blue agent that draws the kind of an action by weight, then the action.

    weights: probability of each kind, by the first letters of the actions' names.
    """

    def __init__(
        self, weights: Mapping[str, float], action_names: Sequence[str] = ACTION_NAMES
    ) -> None:
        groups = {
            kind: [i for i, name in enumerate(action_names) if name.startswith(kind)]
            for kind in weights
        }
        self._groups = [group for group in groups.values() if group]
        self._weights = [weights[kind] for kind, group in groups.items() if group]
        if not all(groups.values()):
            self._weights = [weight / sum(self._weights) for weight in self._weights]

    def reset(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def act(self, obs: Any, info: Any = None) -> int:
        group = self._generator.choice(len(self._groups), p=self._weights)
        return int(self._generator.choice(self._groups[group]))


def make_blue_agent(name: str, scenario: Scenario | None = None) -> ScriptedAgent:
    """Return one of SCRIPTED_AGENTS, MIXTURES or HOARDERS. scenario: None is Scenario 2.

    Raises ValueError if Blue has no such actions.
    """
    scenario = scenario or Scenario.scenario2()
    mixture = {**MIXTURES, **HOARDERS}.get(name)
    if mixture is None:
        return make_scripted_agent(name, scenario)
    if not any(action.startswith(tuple(mixture)) for action in scenario.action_names):
        raise ValueError(f"Blue has no action {' or '.join(mixture)} in {scenario}")
    return MixedAgent(mixture, scenario.action_names)
