"""The draws of Python's `random`: the Mersenne Twister MT19937 and the methods that CybORG uses.

Source: Matsumoto and Nishimura, "Mersenne Twister" (1998), with its `init_by_array`, N and M. The
methods follow `random.Random` of CPython 3.11, which draws the same numbers in 3.12 and 3.13.

A generator `g` is any record with the fields `mt`, uint32 `[624]`, and `mt_index`, the position of
the next word. A word is renewed when it is drawn. CPython renews all 624 words at once, which gives
the same sequence. But most episodes draw few words, and renew only these."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from workflow_rl.cage2.compiled.jit import compiled

N, M = 624, 397
WORD = 0xFFFFFFFF
GENERATOR = np.dtype([("mt", np.uint32, N), ("mt_index", np.uint16)], align=True)


_words = [19650218]
for _i in range(1, N):
    _words.append((1812433253 * (_words[-1] ^ (_words[-1] >> 30)) + _i) & WORD)
INITIAL_WORDS = np.array(_words, np.uint32)
"""The words of `init_genrand(19650218)`, from which `init_by_array` starts."""


@compiled
def seed(g: Any, value: int) -> None:
    """Follow `random.seed(value)`, for 0 <= value < 2**63."""
    mt = g.mt
    low, high = value & WORD, value >> 32
    n_keys = 1 if high == 0 else 2
    previous = np.int64(INITIAL_WORDS[0])
    i = 1
    key = 0
    for n_renewed in range(N):
        mixed = (previous ^ (previous >> 30)) * 1664525
        # The last round renews `mt[1]` again, the word that the first round renewed.
        word = np.int64(INITIAL_WORDS[i] if n_renewed < N - 1 else mt[i])
        key_word = low if key == 0 else high
        previous = ((word ^ mixed) + key_word + key) & WORD
        mt[i] = previous
        key = key + 1 if key + 1 < n_keys else 0
        i += 1
        if i == N:
            i = 1
            mt[0] = previous
    for _ in range(N - 1):
        mixed = (previous ^ (previous >> 30)) * 1566083941
        previous = ((np.int64(mt[i]) ^ mixed) - i) & WORD
        mt[i] = previous
        i += 1
        if i == N:
            i = 1
            mt[0] = previous
    mt[0] = 0x80000000
    g.mt_index = 0


@compiled
def next_word(g: Any) -> Any:
    """Return the next 32 random bits."""
    mt = g.mt
    i = np.int64(g.mt_index)
    following = i + 1 if i + 1 < N else 0
    middle = i + M if i + M < N else i + M - N
    word = (np.int64(mt[i]) & 0x80000000) | (np.int64(mt[following]) & 0x7FFFFFFF)
    # The constant enters only if the word's lowest bit is set: -1 has all bits, and 0 has none.
    word = np.int64(mt[middle]) ^ (word >> 1) ^ ((-(word & 1)) & 0x9908B0DF)
    mt[i] = word
    g.mt_index = following
    # The generator's "tempering" mixes the bits of the word that is returned.
    word ^= word >> 11
    word ^= (word << 7) & 0x9D2C5680
    word ^= (word << 15) & 0xEFC60000
    return word ^ (word >> 18)


@compiled
def random(g: Any) -> float:
    """Follow `random()`: return a number of 53 random bits in [0, 1)."""
    high = next_word(g) >> 5
    low = next_word(g) >> 6
    return (high * 67108864.0 + low) * (1.0 / 9007199254740992.0)


@compiled
def bit_length(n: int) -> int:
    """Follow `int.bit_length`, for 0 <= n."""
    bits = 0
    while n:
        n >>= 1
        bits += 1
    return bits


@compiled
def randbelow(g: Any, n: int) -> int:
    """Follow `_randbelow_with_getrandbits`, which `randrange(n)` and `choice` call. Returns 0 for
    n = 1, but draws words until the first bit is 0."""
    shift = 32 - bit_length(n)
    drawn = next_word(g) >> shift
    while drawn >= n:
        drawn = next_word(g) >> shift
    return drawn


@compiled
def choices_index(g: Any, n: int) -> int:
    """Return the index of the element that `choices(population)` draws from n elements."""
    return math.floor(random(g) * n)


@compiled
def sample(g: Any, n: int, k: int, chosen: Any, pool: Any) -> None:
    """Write `sample(range(n), k)` into chosen `[k]`. pool `[n]` is working space.

    As in CPython, the numbers of a short population are taken out of a pool. For a long population,
    `pool` is not used: a number that was drawn before is replaced by another draw."""
    longest = 21
    if k > 5:
        power = 1
        while power < 3 * k:
            power *= 4
        longest += power
    if n <= longest:
        for i in range(n):
            pool[i] = i
        for i in range(k):
            j = randbelow(g, n - i)
            chosen[i] = pool[j]
            pool[j] = pool[n - i - 1]
        return
    for i in range(k):
        repeated = True
        while repeated:
            j = randbelow(g, n)
            repeated = False
            for earlier in range(i):
                repeated |= chosen[earlier] == j
        chosen[i] = j


@compiled
def shuffle(g: Any, items: Any, n: int) -> None:
    """Follow `shuffle` on the first n items."""
    for i in range(n - 1, 0, -1):
        j = randbelow(g, i + 1)
        items[i], items[j] = items[j], items[i]


@compiled
def shuffle_nibbles(g: Any, packed: int, n: int) -> int:
    """Follow `shuffle` on n <= 15 items of four bits each. The lowest four bits are item 0."""
    for i in range(n - 1, 0, -1):
        j = randbelow(g, i + 1)
        # Changing both items by their difference in bits swaps them.
        difference = ((packed >> (4 * i)) ^ (packed >> (4 * j))) & 15
        packed ^= (difference << (4 * i)) | (difference << (4 * j))
    return packed
