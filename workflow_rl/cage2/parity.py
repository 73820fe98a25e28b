"""The compiled simulator and CybORG in lock-step: the first difference between them, if any."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from workflow_rl.cage.processes import in_processes
from workflow_rl.cage2.agent.blue import Blue, records
from workflow_rl.cage2.agent.scripted import SCRIPTED_AGENTS, ScriptedBlue, scripted_blue
from workflow_rl.cage2.cyborg.cyborg_state import cyborg_network
from workflow_rl.cage2.env.cage2_env import Cage2Env
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage2.interface import OWN_RED, Simulator
from workflow_rl.cage2.red_parity import OutsideRed, RedSides
from workflow_rl.cage2.scenario.loading import scenario_of
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scenario2 import SCENARIO2

if TYPE_CHECKING:
    from workflow_rl.cage2.compiled.simulator import CompiledSimulator

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
BLUE_AGENTS = (*SCRIPTED_AGENTS, *MIXTURES)
EPISODES_OF_A_SHARE = 50


class Difference(NamedTuple):
    """Where an episode first differs.

    step: 0 is the reset. what: what differs, by name, in CybORG and in the compiled simulator.
    networks: both networks after the step.
    """

    red_agent: str
    blue: str
    seed: int
    step: int
    what: dict[str, tuple[Any, Any]]
    networks: tuple[dict[str, Any], dict[str, Any]]

    def __str__(self) -> str:
        lines = [
            f"{self.red_agent}, blue {self.blue}, seed {self.seed}: first difference in step "
            f"{self.step}",
            *_side_by_side(self.what),
            "the networks after that step (* differs)",
            *_side_by_side(_paired(*self.networks)),
        ]
        return "\n".join(lines)


class MixedAgent(ScriptedBlue):
    """A blue agent that draws the kind of an action by weight, then the action.

    weights: probability of each kind, by the first letters of the actions' names.
    """

    def __init__(self, weights: Mapping[str, float], network: Scenario) -> None:
        super().__init__("mixed", network)
        groups = {
            kind: [i for i, name in enumerate(network.action_names) if name.startswith(kind)]
            for kind in weights
        }
        self._groups = [group for group in groups.values() if group]
        self._weights = [weights[kind] for kind, group in groups.items() if group]
        if not all(groups.values()):
            self._weights = [weight / sum(self._weights) for weight in self._weights]

    def memory(self, seed: int) -> np.random.Generator:
        return np.random.default_rng(seed)

    def choose(self, memory: np.random.Generator, record: Any) -> int:
        group = memory.choice(len(self._groups), p=self._weights)
        return int(memory.choice(self._groups[group]))


def make_blue_agent(name: str, scenario: Scenario | None = None) -> ScriptedBlue:
    """Return one of `BLUE_AGENTS` or `HOARDERS`. scenario: None is Scenario 2.

    Raises ValueError if Blue has no such actions.
    """
    scenario = scenario or Scenario.scenario2()
    mixture = {**MIXTURES, **HOARDERS}.get(name)
    if mixture is None:
        return scripted_blue(name, scenario)
    if not any(action.startswith(tuple(mixture)) for action in scenario.action_names):
        raise ValueError(f"Blue has no action {' or '.join(mixture)} in {scenario}")
    return MixedAgent(mixture, scenario)


class LockStep:
    """CybORG and the compiled simulator, which play the same episodes step by step.

    Args:
        simulator: which CybORG, one of `interface.SIMULATORS`.
        max_steps: length of an episode.
        scenario: what they play, see `Cage2Env`.
        networks: also compare the networks, and the number of random words drawn, at every step.
            This finds hidden differences too, and is ten times as slow. May be set between
            episodes.
    """

    def __init__(
        self,
        simulator: str = "cyborg",
        max_steps: int = 100,
        networks: bool = False,
        scenario: Any = SCENARIO2,
    ) -> None:
        # Here and not above: the command line should not wait for numba.
        from workflow_rl.cage2.compiled.description import tables_of
        from workflow_rl.cage2.compiled.network import compiled_network
        from workflow_rl.cage2.compiled.simulator import CompiledSimulator

        scenario = scenario_of(scenario)
        tables = tables_of(scenario)
        self._made = simulator, max_steps, scenario
        self._env = Cage2Env("SleepAgent", max_steps, simulator, "uint8", scenario=scenario)
        self._compiled = CompiledSimulator(max_steps, tables=tables)
        self._compiled_network = functools.partial(compiled_network, tables=tables)
        self._reds: RedSides | None = None
        self.networks = networks

    def play(
        self,
        blue_agent: Blue,
        red_agent: str,
        seed: int,
        blue: str = "",
        red: OutsideRed | None = None,
    ) -> Difference | None:
        """Return the first difference in one episode, if any. The blue agent sees CybORG.

        red: the red agent, unless CybORG has one of this name. It sees rows, see `red_parity`.
        """
        env, compiled, reds = self._env, self._compiled, None
        if red is not None:
            reds = self._reds = self._reds or RedSides(*self._made)
            env, compiled = reds.env, reds.compiled
            red.reset(seed)
        obs, info = env.reset(seed=seed, options=None if reds else {"red_agent": red_agent})
        shown = {"observation": obs.tolist()}
        same = compiled.reset(seed, OWN_RED if reds else red_agent)
        same_shown = {"observation": same.tolist()}
        blue_agent.reset(seed)
        for step in itertools.count():
            if reds is not None and "error" not in same_shown:
                for seen, of_red in zip((shown, same_shown), reds.shown(), strict=True):
                    seen |= of_red
            if self.networks:
                shown |= cyborg_network(env)
                same_shown |= self._compiled_network(compiled.state)
            if repr(shown) != repr(same_shown):
                what = {
                    name: pair
                    for name, pair in _paired(shown, same_shown).items()
                    if repr(pair[0]) != repr(pair[1])
                }
                networks = cyborg_network(env), self._compiled_network(compiled.state)
                return Difference(red_agent, blue, seed, step, what, networks)
            if step == env.max_steps:
                return None
            shown_to_blue = records(env.scenario, obs[None], info["suspicious_hosts"])
            action = int(blue_agent.act(shown_to_blue)[0][0])
            if reds is not None and red is not None:
                reds.choose(red)
            try:
                obs, reward, *_, info = env.step(action)
            except (LookupError, ValueError, NotImplementedError):
                # In some networks, CybORG's own red agents fail.
                if _fails(compiled, action):
                    return None
                raise
            try:
                same, same_reward = compiled.step(action)
            except RuntimeError as error:
                same_shown = {"error": str(error)}
                continue
            shown = {
                "observation": obs.tolist(),
                "reward": reward,
                **_facts(env._simulator),
            }
            same_shown = {
                "observation": same.tolist(),
                "reward": same_reward,
                **_facts(compiled),
            }
        raise AssertionError("an episode ends")


def _fails(compiled: CompiledSimulator, action: int) -> bool:
    """Return whether the compiled simulator cannot go on because CybORG fails."""
    from workflow_rl.cage2.compiled.state import CYBORG_FAILS

    try:
        compiled.step(action)
    except RuntimeError:
        return bool(compiled.state["error"] == CYBORG_FAILS)
    return False


def _facts(simulator: Simulator) -> dict[str, Any]:
    blue, red = simulator.texts
    blue_success, red_kind, red_target, red_success, caught = simulator.facts
    return {
        "blue_action": blue,
        "blue_success": blue_success,
        "red_action": red,
        "red_kind": red_kind,
        "red_target": red_target,
        "red_success": red_success,
        "suspicious_hosts": np.flatnonzero(caught).tolist(),
    }


class WorkShare(NamedTuple):
    """Episodes of a pair of agents that one process plays in turn. networks: compare them too.
    red: see `LockStep.play`."""

    red_agent: str
    blue: str
    agent: Blue
    seeds: range
    networks: bool
    red: OutsideRed | None = None


def shares_of(
    red_agents: Mapping[str, OutsideRed | None],
    agents: Mapping[str, Blue],
    seeds: range,
    n_networks: int,
) -> Iterator[WorkShare]:
    """Yield the shares pair by pair, in the order of the seeds.

    red_agents: those that are not CybORG's, by name; None for CybORG's.

    The networks are compared in the first `n_networks` episodes of each pair.
    """
    for (red_agent, red), (blue, agent) in itertools.product(red_agents.items(), agents.items()):
        for part, networks in ((seeds[:n_networks], True), (seeds[n_networks:], False)):
            for i in range(0, len(part), EPISODES_OF_A_SHARE):
                share = part[i : i + EPISODES_OF_A_SHARE]
                yield WorkShare(red_agent, blue, agent, share, networks, red)


@functools.cache
def _lock_step(simulator: str, max_steps: int, scenario: Scenario) -> LockStep:
    return LockStep(simulator, max_steps, scenario=scenario)


def _first_difference(
    share: WorkShare, simulator: str, max_steps: int, scenario: Scenario
) -> Difference | None:
    lock_step = _lock_step(simulator, max_steps, scenario)
    lock_step.networks = share.networks
    for seed in share.seeds:
        difference = lock_step.play(share.agent, share.red_agent, seed, share.blue, share.red)
        if difference is not None:
            return difference
    return None


def first_differences(
    shares: Sequence[WorkShare],
    simulator: str,
    max_steps: int,
    n_workers: int,
    scenario: Scenario | None = None,
) -> Iterator[Difference | None]:
    """Yield the first difference of each share, if any, in the order of the shares. scenario: None
    is Scenario 2."""
    scenario = scenario or Scenario.scenario2()
    # The simulator is compiled once here, for all processes.
    Cage2(simulator="compiled", max_steps=max_steps, scenario=scenario.text).check()
    play = functools.partial(
        _first_difference, simulator=simulator, max_steps=max_steps, scenario=scenario
    )
    yield from in_processes(play, shares, n_workers)


def _paired(ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    names = list(dict.fromkeys((*ours, *theirs)))
    return {name: (ours.get(name), theirs.get(name)) for name in names}


def _side_by_side(pairs: dict[str, tuple[Any, Any]], width: int = 60) -> list[str]:
    names = max(map(len, pairs), default=0)
    lines = [f"  {'':{names}}  {'CybORG':{width}}  compiled"]
    for name, (reference, compiled) in pairs.items():
        mark = " " if repr(reference) == repr(compiled) else "*"
        first, right = _chunks(str(reference), width), _chunks(str(compiled), width)
        for i, (a, b) in enumerate(itertools.zip_longest(first, right, fillvalue="")):
            label = name if i == 0 else ""
            lines.append(f"{mark} {label:{names}}  {a:{width}}  {b}".rstrip())
    return lines


def _chunks(text: str, width: int) -> list[str]:
    return [text[i : i + width] for i in range(0, len(text), width)] or [""]
