"""A recording held against CybORG."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

from workflow_rl.cage2.scenario2 import ACTION_NAMES
from workflow_rl.cage2.scoring.protocol import cell_spec
from workflow_rl.cage2.scoring.recording import Recording

if TYPE_CHECKING:
    from workflow_rl.cage2.parity import LockStep


class Comparison(NamedTuple):
    """What comparing a recording with CybORG found. is_same: None if CybORG is not installed."""

    is_same: bool | None
    text: str


class _Recorded:
    """A ScriptedAgent that repeats the Blue actions of a recording."""

    def __init__(self, recording: Recording) -> None:
        self._actions = [ACTION_NAMES.index(step.blue_action) for step in recording.steps]

    def reset(self, seed: int) -> None:
        self._left = iter(self._actions)

    def act(self, obs: Any, info: Any = None) -> int:
        return next(self._left)


def compare_with_cyborg(recording: Recording, networks: bool = True) -> Comparison:
    """Play the episode in CybORG too, if it is installed, and compare every step.

    Each step's observation, reward, actions and successes are compared. networks: compare the
    networks as well, which takes most of the time.
    """
    from workflow_rl.cage2.cyborg.simulator_version import simulator_version

    try:
        lock_step = _lock_step(recording.max_steps)
    except ImportError as error:
        return Comparison(None, f"Not held against CybORG, which is not installed ({error}).")
    lock_step.networks = networks
    red_agent = recording.red_agent
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
