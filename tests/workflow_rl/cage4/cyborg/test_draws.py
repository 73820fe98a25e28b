import numpy as np
import pytest

from workflow_rl.cage4.cyborg.draws import Draws
from workflow_rl.cage4.cyborg.true_state import generator_state


@pytest.mark.parametrize("seed", [0, 5, 2**40])
def test_draws_and_states_are_numpys(seed: int) -> None:
    ours = Draws(seed)
    theirs = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed)))
    kinds = np.random.default_rng(1)
    for _ in range(1500):
        n = int(kinds.integers(1, 90))
        kind = kinds.integers(7)
        if kind == 0:
            assert ours.integers(n) == theirs.integers(n)
        elif kind == 1:
            assert ours.random() == theirs.random()
        elif kind == 2:
            ours.skip_shuffle(n)
            theirs.shuffle(list(range(n)))
        elif kind == 3:
            assert ours.choice(list(range(n))) == theirs.choice(list(range(n)))
        elif kind == 4:
            p = kinds.dirichlet(np.ones(n)).tolist()
            assert ours.choice(range(n), p=p) == theirs.choice(range(n), p=p)
        elif kind == 5:
            bounds = {"low": 3, "high": 3 + n, "endpoint": True}
            assert ours.integers(**bounds) == theirs.integers(**bounds)
        else:
            pairs = [(f"red_agent_{i}", "host") for i in range(n)]
            assert ours.choice(pairs, replace=False) == tuple(theirs.choice(pairs, replace=False))
        assert ours.state() == generator_state(theirs.bit_generator.state)


def test_large_ranges_reject_as_numpy_does() -> None:
    n = 3 * 2**30  # A quarter of the words is rejected.
    ours, theirs = Draws(3), np.random.default_rng(3)
    assert [ours.integers(n) for _ in range(200)] == [int(theirs.integers(n)) for _ in range(200)]


def test_what_numpy_refuses_is_refused() -> None:
    draws = Draws(1)
    with pytest.raises(ValueError, match="empty"):
        draws.choice([])
    with pytest.raises(ValueError, match="sum to 1"):
        draws.choice([1, 2], p=[0.5, 0.6])
    with pytest.raises(ValueError, match="low >= high"):
        draws.integers(0)


def test_no_seed_gives_different_streams() -> None:
    assert Draws().integers(2**31) != Draws().integers(2**31)
