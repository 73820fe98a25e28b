"""The compiled generator against CPython's `random`, draw for draw."""

import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workflow_rl.cage2.compiled.doors import door
from workflow_rl.cage2.compiled import generator as functions
from workflow_rl.cage2.compiled.generator import GENERATOR

NAMES = ("choices_index", "next_word", "randbelow", "random", "sample", "seed", "shuffle_nibbles")
compiled_random = SimpleNamespace(**{name: door(getattr(functions, name)) for name in NAMES})
SEEDS = st.integers(0, 2**63 - 1) | st.integers(0, 2**33) | st.integers(0, 5)


def seeded(seed: int) -> tuple[random.Random, Any]:
    generator = np.zeros(1, GENERATOR)[0]
    compiled_random.seed(generator, seed)
    return random.Random(seed), generator


@given(SEEDS)
def test_words_are_those_of_cpython(seed: int) -> None:
    cpython, generator = seeded(seed)
    # More than two rounds of the 624 words.
    for _ in range(1300):
        assert compiled_random.next_word(generator) == cpython.getrandbits(32)


@pytest.mark.parametrize("seed", [0, 1, 2**32 - 1, 2**32, 2**32 + 1, 2**63 - 1])
def test_seeds_of_one_word_and_of_two(seed: int) -> None:
    cpython, generator = seeded(seed)
    assert compiled_random.random(generator) == cpython.random()


@given(SEEDS, st.lists(st.integers(1, 2**31), max_size=40) | st.lists(st.integers(1, 20)))
def test_randrange_and_choice(seed: int, sizes: list[int]) -> None:
    cpython, generator = seeded(seed)
    for n in sizes:
        assert compiled_random.randbelow(generator, n) == cpython.randrange(n)
        assert compiled_random.randbelow(generator, n) == cpython.choice(range(n))


@given(SEEDS, st.lists(st.integers(1, 30), max_size=40))
def test_random_and_choices(seed: int, sizes: list[int]) -> None:
    cpython, generator = seeded(seed)
    for n in sizes:
        assert compiled_random.random(generator) == cpython.random()
        assert compiled_random.choices_index(generator, n) == cpython.choices(range(n))[0]


@given(SEEDS, st.integers(0, 120), st.integers(0, 5))
@settings(max_examples=200)
def test_sample_from_short_and_long_populations(seed: int, n: int, k: int) -> None:
    k = min(k, n)
    cpython, generator = seeded(seed)
    chosen, pool = np.zeros(max(k, 1), np.int64), np.zeros(max(n, 1), np.int64)
    compiled_random.sample(generator, n, k, chosen, pool)
    assert chosen[:k].tolist() == cpython.sample(range(n), k)
    assert compiled_random.random(generator) == cpython.random()


@pytest.mark.parametrize(("n", "k"), [(21, 5), (22, 5), (4096, 3), (14, 4)])
def test_sample_where_cpython_changes_its_method(n: int, k: int) -> None:
    for seed in range(20):
        cpython, generator = seeded(seed)
        chosen, pool = np.zeros(k, np.int64), np.zeros(n, np.int64)
        compiled_random.sample(generator, n, k, chosen, pool)
        assert chosen.tolist() == cpython.sample(range(n), k)


@given(SEEDS, st.integers(1, 15))
def test_shuffle(seed: int, n: int) -> None:
    cpython, generator = seeded(seed)
    expected = list(range(n))
    cpython.shuffle(expected)
    packed = compiled_random.shuffle_nibbles(generator, sum(i << 4 * i for i in range(n)), n)
    assert [packed >> 4 * i & 15 for i in range(n)] == expected
