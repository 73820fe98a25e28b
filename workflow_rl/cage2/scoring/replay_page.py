"""An episode to watch, as one HTML page, and held against CybORG."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from workflow_rl.cage.replay_frame import framed
from workflow_rl.cage2.agent.scripted import ScriptedBlue
from workflow_rl.cage2.compiled.description import tables_of
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scenario2 import RED_AGENTS
from workflow_rl.cage2.scoring.protocol import cell_spec
from workflow_rl.cage2.scoring.recording import Recording

if TYPE_CHECKING:
    from workflow_rl.cage2.parity import LockStep

PAGES = "workflow_rl.cage2.scoring.pages"


class ReplayCheck(NamedTuple):
    """What comparing a recording with CybORG found. is_same: None if CybORG is not installed."""

    is_same: bool | None
    text: str


class _Repeated(ScriptedBlue):
    """A blue agent that repeats a recording's actions."""

    def __init__(self, recording: Recording, network: Scenario) -> None:
        super().__init__(recording.agent, network)
        names = network.action_names
        self._actions = [names.index(step.blue_action) for step in recording.steps]

    def memory(self, seed: int) -> Iterator[int]:
        return iter(self._actions)

    def choose(self, memory: Iterator[int], record: Any) -> int:
        return next(memory)


def compare_with_cyborg(
    recording: Recording, networks: bool = True, scenario: Scenario | None = None
) -> ReplayCheck:
    """Play the episode in CybORG too, if it is installed, and compare every step.

    Each step's observation, reward, actions and successes are compared, and what Red is shown, if
    it is a trained red agent. networks: compare the networks as well, which takes most of the time.
    scenario: what was played; None is Scenario 2.
    """
    from workflow_rl.cage2.cyborg.simulators import simulator_version
    from workflow_rl.cage2.red_parity import DrawnRed

    scenario = scenario or Scenario.scenario2()
    version = simulator_version("cyborg")
    if scenario.is_cage1:
        return ReplayCheck(None, f"Played by the rules of CAGE-1, which {version} does not know.")
    steps, red = recording.steps, None
    if all(step.red_choice.decision is not None for step in steps):
        names = scenario.red_action_names
        actions = iter([names.index(step.red_choice.action) for step in steps])
        red = DrawnRed(lambda mask, random: next(actions), len(names))
    elif recording.drawn not in RED_AGENTS:
        return ReplayCheck(None, f"A red agent of the user's own: not held against {version}.")
    try:
        lock_step = _lock_step(recording.max_steps, scenario)
    except ImportError as error:
        return ReplayCheck(None, f"Not held against CybORG, which is not installed ({error}).")
    lock_step.networks = networks
    cell = recording.seed, recording.max_steps, recording.red_agent, recording.episode
    seed = cell_spec(*cell).env_seed
    blue = _Repeated(recording, scenario)
    difference = lock_step.play(blue, recording.drawn, seed, recording.agent, red)
    if difference is not None:
        return ReplayCheck(False, f"Differs from {version} in step {difference.step}.")
    what = "the networks included" if networks else "in observation, reward, actions and successes"
    return ReplayCheck(True, f"Every step was held against {version} and is the same, {what}.")


@functools.cache
def _lock_step(max_steps: int, scenario: Scenario) -> LockStep:
    from workflow_rl.cage2.parity import LockStep

    return LockStep("cyborg", max_steps, scenario=scenario)


def replay_page(
    recordings: Sequence[Recording],
    compared: Sequence[ReplayCheck],
    scenario: Scenario | None = None,
) -> str:
    """Return the page of an episode, or of one episode as two agents play it. scenario: None is
    Scenario 2."""
    scenario, first = scenario or Scenario.scenario2(), recordings[0]
    agents = " and ".join(recording.agent for recording in recordings)
    returns = "; ".join(
        f"{recording.agent}, {recording.choice} actions: return {recording.episode_return:.1f}"
        for recording in recordings
    )
    about = (
        f"{returns}. Episode {first.episode} of the {first.max_steps}-step cell of an evaluation "
        f"with seed {first.seed}."
    )
    if len(recordings) > 1:
        about += " Chance is the same for both until their actions differ."
    if not scenario.is_scenario2:
        about += f" The network: {scenario}."
    return framed(
        PAGES,
        f"{agents} against {first.opponent}",
        about,
        " ".join(dict.fromkeys(comparison.text for comparison in compared)),
        {
            **_network_of(scenario),
            "recordings": recordings,
            "moments_shown": 3 if len(recordings) > 1 else 5,
        },
    )


def _network_of(scenario: Scenario) -> dict[str, Any]:
    tables = tables_of(scenario)
    of, hosts = tables.of, scenario.hosts
    leads = [
        (host, other)
        for host, explored in enumerate(of["explored_addresses"].tolist())
        for other in range(len(hosts))
        if other != host and explored >> other & 1
    ]
    # From where Red begins to what it is after.
    subnet, order = of["subnet"].tolist(), [int(of["subnet"][of["red_host"]])]
    for at in order:
        order += dict.fromkeys(
            subnet[other]
            for host, other in leads
            if subnet[host] == at and subnet[other] not in order
        )
    order += [number for number in range(len(tables.subnets)) if number not in order]
    names = [tuple(tables.subnets)[number] for number in order]
    return {
        "hosts": hosts,
        "red_host": scenario.red_host,
        "red_actions": scenario.red_action_names,
        "subnets": {name: scenario.subnets[name] for name in names},
        "leads": [(hosts[host], hosts[other]) for host, other in leads],
    }
