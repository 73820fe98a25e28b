from typing import Any

import numpy as np
import pytest

from workflow_rl.cage4.compiled.generator import (
    GENERATOR,
    below,
    choice_by_weight,
    random,
    seed,
    seed_words,
    shuffle_draws,
)
from workflow_rl.cage4.compiled.jit import entry_point

RECORD = np.dtype(GENERATOR, align=True)
WEIGHTS = np.array([0.25, 0.0, 0.25, 0.5])
BELOW, RANDOM, SHUFFLE, CHOICE = range(4)


@entry_point
def start(generators: Any, words: Any) -> None:
    seed(generators[0], words)


@entry_point
def draw(generators: Any, kind: int, n: int, cumulated: Any) -> float:
    if kind == BELOW:
        return float(below(generators[0], n))
    if kind == RANDOM:
        return random(generators[0])
    if kind == SHUFFLE:
        shuffle_draws(generators[0], n)
        return 0.0
    return float(choice_by_weight(generators[0], cumulated, len(cumulated)))


def draw_of_numpy(generator: np.random.Generator, kind: int, n: int) -> float:
    if kind == BELOW:
        return float(generator.choice(list(range(n))))
    if kind == RANDOM:
        return generator.random()
    if kind == SHUFFLE:
        generator.shuffle(list(range(n)))
        return 0.0
    return float(generator.choice(list(range(len(WEIGHTS))), p=WEIGHTS))


@pytest.mark.parametrize("value", [0, 7, 2**32, 2**63 + 5, 2**200 + 1])
def test_draws_and_states_are_those_of_numpy(value: int) -> None:
    numpys = np.random.Generator(np.random.PCG64(np.random.SeedSequence(value)))
    own = np.zeros(1, RECORD)
    start(own, seed_words(value))
    plan = np.random.default_rng(1)
    cumulated = np.cumsum(WEIGHTS) / WEIGHTS.sum()
    for _ in range(3_000):
        kind, n = int(plan.integers(4)), int(plan.integers(1, 200))
        assert draw(own, kind, n, cumulated) == draw_of_numpy(numpys, kind, n)
        state: Any = numpys.bit_generator.state
        word = int(own["pcg_high"][0]) << 64 | int(own["pcg_low"][0])
        assert word == state["state"]["state"]
        kept = (own["has_half"][0], own["half"][0])
        assert kept == (state["has_uint32"], state["uinteger"])
