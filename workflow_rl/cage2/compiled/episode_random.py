"""An episode's random generator as Python's `random.Random`, for attackers written in Python."""

from __future__ import annotations

import random
from typing import Any

from numpy.typing import NDArray

from workflow_rl.cage2.compiled.generator import next_word
from workflow_rl.cage2.compiled.jit import entry_point


@entry_point
def draw_word(states: Any, env: int) -> int:
    """Return the next 32 random bits of an env."""
    return next_word(states[env])


class EpisodeRandom(random.Random):
    """The generator of `states[env]`: the simulator's next draws follow on those made here.

    All methods but `seed`, `getstate` and `setstate` draw as those of Python's global `random` do
    in CybORG. A copy draws from the copy of the states.
    """

    def __init__(self, states: NDArray[Any], env: int, gauss_next: float | None = None) -> None:
        self._states = states
        self._env = env
        self.gauss_next = gauss_next

    def __reduce__(self) -> tuple[Any, ...]:
        return EpisodeRandom, (self._states, self._env, self.gauss_next)

    def random(self) -> float:
        """Return a number from 0 to 1, of 53 random bits."""
        high, low = self.getrandbits(27), self.getrandbits(26)
        return (high * 67108864.0 + low) * (1.0 / 9007199254740992.0)

    def getrandbits(self, k: int, /) -> int:
        """Return k random bits."""
        bits = 0
        for i in range(0, k, 32):
            word = int(draw_word(self._states, self._env))
            bits |= word >> max(0, 32 - (k - i)) << i
        return bits
