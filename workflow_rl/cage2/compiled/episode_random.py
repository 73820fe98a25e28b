"""A `random.Random` that draws from an episode's generator, for attackers written in Python."""

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
    """The random generator of `states[env]`, which the simulator and a Python attacker share.

    A method draws the same number as Python's global `random` draws in CybORG. `seed`, `getstate`
    and `setstate` are not supported. A deep copy draws from its own copy of the states."""

    def __init__(self, states: NDArray[Any], env: int, gauss_next: float | None = None) -> None:
        self._states = states
        self._env = env
        self.gauss_next = gauss_next

    def __reduce__(self) -> tuple[Any, ...]:
        return EpisodeRandom, (self._states, self._env, self.gauss_next)

    def random(self) -> float:
        """Return a number of 53 random bits in [0, 1), computed as in CPython."""
        high, low = self.getrandbits(27), self.getrandbits(26)
        return (high * 67108864.0 + low) * (1.0 / 9007199254740992.0)

    def getrandbits(self, k: int, /) -> int:
        """Return k random bits."""
        bits = 0
        for i in range(0, k, 32):
            word = int(draw_word(self._states, self._env))
            n_bits = min(32, k - i)
            bits |= (word >> (32 - n_bits)) << i
        return bits
