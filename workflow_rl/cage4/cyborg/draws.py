"""NumPy's generator in Python: with equal draws, but a single draw is five times as fast."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from workflow_rl.cage4.cyborg.true_state import generator_state

HALF = 2**32 - 1
WORDS_AT_ONCE = 512
SUM_TOLERANCE = float(np.sqrt(np.finfo(np.float64).eps))


class Draws:
    """The methods of `numpy.random.Generator(PCG64(seed))` that CybORG calls, bit for bit.

    NumPy makes a random word in 3 ns, but each call of a method takes a microsecond. So words are
    made in blocks. Whole numbers are drawn by Lemire's method from half words. The second half of a
    word is kept for the next draw. A shuffle draws by masks and rejection.

    Args:
        seed: 0 or more, or None for a seed from the operating system.
    """

    def __init__(self, seed: int | None = None) -> None:
        self._generator = np.random.PCG64(np.random.SeedSequence(seed))
        self._block: Iterator[int] = iter(())
        self._has_half = False
        self._half_word = 0
        self._next_word = self._words().__next__

    def _words(self) -> Iterator[int]:
        while True:
            self._block = iter(self._generator.random_raw(WORDS_AT_ONCE).tolist())
            yield from self._block

    def _next_half(self) -> int:
        if self._has_half:
            self._has_half = False
            return self._half_word
        word = self._next_word()
        self._half_word = word >> 32
        self._has_half = True
        return word & HALF

    def random(self) -> float:
        """Return a float from 0 up to 1."""
        return (self._next_word() >> 11) * 2.0**-53

    def integers(self, low: int, high: int | None = None, endpoint: bool = False) -> int:
        """Return a whole number from low to high - 1, or from low to high if endpoint is true. If
        high is not given, return a whole number from 0 to low - 1."""
        if high is None:
            low, high = 0, low
        n_values = high - low
        if endpoint:
            n_values += 1
        if n_values < 1:
            raise ValueError("low >= high")
        if n_values == 1:
            return low
        product = self._next_half() * n_values
        if (product & HALF) < n_values:
            least = (HALF + 1 - n_values) % n_values
            while (product & HALF) < least:
                product = self._next_half() * n_values
        return low + (product >> 32)

    def choice(
        self, a: Any, size: None = None, replace: bool = True, p: Sequence[float] | None = None
    ) -> Any:
        """Return one element of a sequence, or a whole number below `a`.

        p: the elements' probabilities. replace: ignored, because one element is drawn.
        """
        if p is not None:
            sums = list(accumulate(p))
            if abs(sums[-1] - 1.0) > SUM_TOLERANCE:
                raise ValueError("probabilities do not sum to 1")
            return a[bisect_right([weight / sums[-1] for weight in sums], self.random())]
        if isinstance(a, int):
            return self.integers(0, a)
        if not a:
            raise ValueError("a cannot be empty unless no samples are taken")
        return a[self.integers(0, len(a))]

    def skip_shuffle(self, n: int) -> None:
        """Make the draws that a shuffle of n elements makes."""
        next_half = self._next_half
        for last in range(n - 1, 0, -1):
            mask = (1 << last.bit_length()) - 1
            while (next_half() & mask) > last:
                pass

    def state(self) -> tuple[int, int, int, int]:
        """Return the state as `Simulator.generator_state` does."""
        # The generator is ahead by the words of the block that are not used yet.
        rewound = np.random.PCG64()
        rewound.state = self._generator.state
        rewound.advance(-self._block.__length_hint__())  # type: ignore[attr-defined]
        high, low, _, _ = generator_state(rewound.state)
        return high, low, int(self._has_half), self._half_word
