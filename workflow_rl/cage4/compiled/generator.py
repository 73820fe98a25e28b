"""The methods of NumPy's `Generator` that CybORG uses, with equal draws of `PCG64`.

Source: O'Neill, "PCG: A Family of Simple Fast Space-Efficient Statistically Good Algorithms for
Random Number Generation" (2014), PCG XSL RR 128/64; Lemire, "Fast Random Integer Generation in an
Interval" (2019). A draw of 32 bits uses half a word. The other half is kept for the next draw.

A generator `g` is any record with the fields of GENERATOR."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage4.compiled.jit import compiled, int64, multiply_add

FACTOR_HIGH, FACTOR_LOW = np.uint64(2549297995355413924), np.uint64(4865540595714422341)
GENERATOR: list[Any] = [
    ("pcg_high", np.uint64),
    ("pcg_low", np.uint64),
    ("increment_high", np.uint64),
    ("increment_low", np.uint64),
    # The half that is kept for the next draw. Its use clears only `has_half`, as in NumPy.
    ("half", np.uint32),
    ("has_half", np.uint8),
]
ONE, ROTATION, HALF = np.uint64(1), np.uint64(58), np.uint64(32)
TOP, BITS = np.uint64(63), np.uint64(64)
DOUBLE_SHIFT = np.uint64(11)
WORD = 0xFFFFFFFF


def seed_words(seed: int | None) -> NDArray[np.uint64]:
    """Return the four words that `SeedSequence(seed)` hands to PCG64."""
    return np.random.SeedSequence(seed).generate_state(4, np.uint64).astype(np.uint64)


@compiled
def seed(g: Any, words: Any) -> None:
    """Start the generator as `PCG64(SeedSequence)` does, with the `seed_words` `[4]`."""
    g.increment_high = (words[2] << ONE) | (words[3] >> TOP)
    g.increment_low = (words[3] << ONE) | ONE
    # One step from state 0 gives the increment. Then PCG64 adds the first two words to the state.
    low = g.increment_low + words[1]
    carry = ONE if low < words[1] else np.uint64(0)
    g.pcg_low = low
    g.pcg_high = g.increment_high + words[0] + carry
    g.half = 0
    g.has_half = 0
    next_word(g)


@compiled
def next_word(g: Any) -> Any:
    """Return the next 64 random bits."""
    high, low = multiply_add(
        g.pcg_high, g.pcg_low, FACTOR_HIGH, FACTOR_LOW, g.increment_high, g.increment_low
    )
    g.pcg_high = high
    g.pcg_low = low
    folded = high ^ low
    rotation = high >> ROTATION
    return (folded >> rotation) | (folded << ((BITS - rotation) & TOP))


@compiled
def next_half(g: Any) -> int:
    """Return the next 32 random bits."""
    if g.has_half:
        g.has_half = 0
        return int64(g.half)
    word = next_word(g)
    g.has_half = 1
    g.half = np.uint32(word >> HALF)
    return int64(word & np.uint64(WORD))


@compiled
def random(g: Any) -> float:
    """`random()`: 53 random bits in [0, 1)."""
    return int64(next_word(g) >> DOUBLE_SHIFT) * (1.0 / 9007199254740992.0)


@compiled
def below(g: Any, n: int) -> int:
    """`integers(n)`, which is also the index of `choice` from n elements. n = 1 draws nothing."""
    if n == 1:
        return 0
    product = next_half(g) * n
    low = product & WORD
    if low < n:
        threshold = (WORD + 1 - n) % n
        while low < threshold:
            product = next_half(g) * n
            low = product & WORD
    return product >> 32


@compiled
def shuffle_draws(g: Any, n: int) -> None:
    """Make the draws of `shuffle` for n elements. CybORG does not use the shuffled order."""
    mask = 1
    while mask < n - 1:
        mask = 2 * mask + 1
    for i in range(n - 1, 0, -1):
        while (mask >> 1) >= i:
            mask >>= 1
        while (next_half(g) & mask) > i:
            pass


@compiled
def choice_by_weight(g: Any, cumulated: Any, n: int) -> int:
    """Return the index of `choice(p=...)` from n elements. cumulated: `[n]`, the sums of p."""
    draw = random(g)
    i = 0
    while i < n - 1 and cumulated[i] <= draw:
        i += 1
    return i
