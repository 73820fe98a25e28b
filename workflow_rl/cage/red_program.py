"""The interface of attackers that are written in Python, for all challenges."""

import functools
import random
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from workflow_rl.suggestions import question, word_meant


class RedProgram(Protocol):
    """An attacker in one env, which plays one episode after another."""

    def begin(self, random: random.Random) -> None:
        """Begin an episode.

        random: the episode's own generator. If an attacker draws only from this generator, the same
        seed gives the same episode."""

    def act(self, seen: Any) -> int | str:
        """Return the next action: an index into `seen.action_names`, or one of these names.

        seen: Red's observations, a `Seen` of the challenge's module `attackers`."""


class Asleep:
    """An attacker that does nothing: `SleepAgent`."""

    def begin(self, random: random.Random) -> None:
        pass

    def act(self, seen: Any) -> str:
        return "Sleep"


@functools.cache
def indices_of(action_names: tuple[str, ...]) -> Mapping[str, int]:
    return {name: index for index, name in enumerate(action_names)}


def action_index(action: Any, action_names: tuple[str, ...], who: str = "Red") -> int:
    """Return the index of an agent's action. Raises ValueError. who: the agent, for its message."""
    index = indices_of(action_names).get(action, action) if isinstance(action, str) else action
    if isinstance(index, int | np.integer) and 0 <= index < len(action_names):
        return int(index)
    meant = question(word_meant(action, action_names)[:3]) if isinstance(action, str) else ""
    raise ValueError(
        f"{who}'s action={action!r}: it is no index from 0 to {len(action_names) - 1}, and no name "
        f"in seen.action_names.{meant}"
    )
