"""An episode to watch, as one HTML page, and held against CybORG."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from workflow_rl.cage2.scenario2 import ACTION_NAMES, HOSTS, RED_ACTION_NAMES, RED_AGENTS
from workflow_rl.cage2.scoring.protocol import cell_spec
from workflow_rl.cage2.scoring.recording import Recording
from workflow_rl.reporting.replay_frame import framed

if TYPE_CHECKING:
    from workflow_rl.cage2.parity import LockStep

PAGES = "workflow_rl.cage2.scoring.pages"


class ReplayCheck(NamedTuple):
    """What comparing a recording with CybORG found. is_same: None if CybORG is not installed."""

    is_same: bool | None
    text: str


class _Repeated:
    """A ScriptedAgent that repeats actions."""

    def __init__(self, actions: Sequence[int]) -> None:
        self._actions = actions

    def reset(self, seed: int) -> None:
        self._left = iter(self._actions)

    def act(self, obs: Any, info: Any = None) -> int:
        return next(self._left)


def compare_with_cyborg(recording: Recording, networks: bool = True) -> ReplayCheck:
    """Play the episode in CybORG too, if it is installed, and compare every step.

    Each step's observation, reward, actions and successes are compared, and what Red is shown, if
    it is a trained red agent. networks: compare the networks as well, which takes most of the time.
    """
    from workflow_rl.cage2.cyborg.simulators import simulator_version

    version = simulator_version("cyborg")
    steps, red = recording.steps, None
    if all(step.red_choice.decision is not None for step in steps):
        red = _Repeated([RED_ACTION_NAMES.index(step.red_choice.action) for step in steps])
    elif recording.drawn not in RED_AGENTS:
        return ReplayCheck(None, f"A red agent of the user's own: not held against {version}.")
    try:
        lock_step = _lock_step(recording.max_steps)
    except ImportError as error:
        return ReplayCheck(None, f"Not held against CybORG, which is not installed ({error}).")
    lock_step.networks = networks
    cell = recording.seed, recording.max_steps, recording.red_agent, recording.episode
    seed = cell_spec(*cell).env_seed
    blue = _Repeated([ACTION_NAMES.index(step.blue_action) for step in steps])
    difference = lock_step.play(blue, recording.drawn, seed, recording.agent, red)
    if difference is not None:
        return ReplayCheck(False, f"Differs from {version} in step {difference.step}.")
    what = "the networks included" if networks else "in observation, reward, actions and successes"
    return ReplayCheck(True, f"Every step was held against {version} and is the same, {what}.")


@functools.cache
def _lock_step(max_steps: int) -> LockStep:
    from workflow_rl.cage2.parity import LockStep

    return LockStep("cyborg", max_steps)


def replay_page(recordings: Sequence[Recording], compared: Sequence[ReplayCheck]) -> str:
    """Return the page of an episode, or of one episode as two agents play it."""
    first = recordings[0]
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
    return framed(
        PAGES,
        f"{agents} against {first.opponent}",
        about,
        " ".join(dict.fromkeys(comparison.text for comparison in compared)),
        {**_scenario(), "recordings": recordings, "moments_shown": 3 if len(recordings) > 1 else 5},
    )


def _scenario() -> dict[str, Any]:
    from workflow_rl.cage2.compiled.description import SCENARIO2

    of = SCENARIO2.of
    members = zip(SCENARIO2.subnets, of["subnet_hosts"], of["n_subnet_hosts"], strict=True)
    by_name = {name: [HOSTS[host] for host in hosts[:n]] for name, hosts, n in members}
    return {
        "hosts": HOSTS,
        "red_actions": RED_ACTION_NAMES,
        # From where Red begins to what it is after.
        "subnets": {name: by_name[name] for name in ("User", "Enterprise", "Operational")},
        "leads": [
            (HOSTS[host], HOSTS[other])
            for host, explored in enumerate(of["explored_addresses"])
            for other in np.flatnonzero([explored >> i & 1 for i in range(len(HOSTS))])
            if other != host
        ],
    }
