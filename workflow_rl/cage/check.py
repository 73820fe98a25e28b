"""Scored episodes that are played again on the challenge's CybORG: their totals must be equal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from workflow_rl.collection.failures import TooManyFailuresError


class PlayedTwice(NamedTuple):
    """An episode that was played twice. name: what an error calls the episode."""

    name: str
    compiled: float
    cyborg: float


class SimulatorsDifferError(TooManyFailuresError):
    """An episode has another total on CybORG than in compiled code."""


def checked(episodes: Sequence[PlayedTwice], simulator: str) -> str:
    """Return a line that says how many totals are equal: all of them.

    simulator: name and version of CybORG. Raises SimulatorsDifferError for the first total that is
    not equal.
    """
    for episode in episodes:
        if episode.compiled != episode.cyborg:
            raise SimulatorsDifferError(
                f"episode {episode.name} has the total {episode.compiled} in compiled code, and "
                f"{episode.cyborg} on {simulator}"
            )
    n = len(episodes)
    return f"{n} of {n} episodes have the same total on {simulator}."
