import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agents.examples import episode_of
from workflow_rl.agents.replay import ReplayBuffer, Transitions, transitions_of


def numbered(first: int, count: int) -> Transitions:
    """Steps whose every number is their own."""
    n = np.arange(first, first + count)
    return Transitions(n[:, None].astype(np.int64), n, n.astype(float), n[:, None] + 1, n % 2 == 0)


def test_steps_of_trajectories() -> None:
    first, second = np.array([[3], [4], [5]], np.uint8), np.array([[7], [8]], np.uint8)
    steps = transitions_of(
        [
            episode_of(first, [0, 1], [0.5, 1.5], terminated=True),
            episode_of(second, [0], [0.5]),
        ]
    )

    assert steps.obs[:, 0].tolist() == [3, 4, 7]
    assert steps.next_obs[:, 0].tolist() == [4, 5, 8]
    assert steps.action.tolist() == [0, 1, 0]
    assert steps.reward.tolist() == [0.5, 1.5, 0.5]
    assert steps.terminated.tolist() == [False, True, False]
    assert steps.obs.dtype == np.uint8


@given(capacity=st.integers(1, 20), sizes=st.lists(st.integers(1, 30), min_size=1, max_size=8))
def test_the_last_steps_are_kept(capacity: int, sizes: list[int]) -> None:
    buffer, total = ReplayBuffer(capacity), 0
    for size in sizes:
        buffer.add(numbered(total, size))
        total += size

    kept = list(range(max(0, total - capacity), total))
    assert sorted(buffer.steps.action.tolist()) == kept
    for column in (buffer.steps.obs[:, 0], buffer.steps.reward, buffer.steps.next_obs[:, 0] - 1):
        assert column.tolist() == buffer.steps.action.tolist()
    newest = buffer.steps.at(buffer.newest(3)).action.tolist()
    assert newest == kept[-3:]
    assert (len(buffer), buffer.n_added) == (len(kept), total)


@given(
    capacity=st.integers(1, 20),
    sizes=st.lists(st.integers(1, 30), min_size=1, max_size=5),
    cuts=st.lists(st.integers(1, 20), max_size=3),
    more=st.integers(1, 30),
)
def test_a_loaded_buffer_goes_on_alike(
    capacity: int, sizes: list[int], cuts: list[int], more: int
) -> None:
    buffer, again, total = ReplayBuffer(capacity), ReplayBuffer(capacity), 0
    for size in sizes:
        buffer.add(numbered(total, size))
        total += size

    held = buffer.numbered(buffer.oldest, total)
    assert held.action.tolist() == list(range(max(0, total - capacity), total))
    ends = sorted({0, held.n_steps, *(min(cut, held.n_steps) for cut in cuts)})
    again.load(total, (held.at(slice(*part)) for part in itertools.pairwise(ends)))
    for _ in range(2):
        assert again.n_added == buffer.n_added
        for ours, theirs in zip(again.steps, buffer.steps, strict=True):
            np.testing.assert_array_equal(ours, theirs)
            assert ours.dtype == theirs.dtype
        for one in (buffer, again):
            one.add(numbered(total, more))


def test_an_empty_buffer_is_loaded() -> None:
    again = ReplayBuffer(4)
    again.add(numbered(0, 3))
    again.load(0, [])
    assert len(again) == 0
    again.add(numbered(0, 3))
    assert again.steps.action.tolist() == [0, 1, 2]


@pytest.mark.parametrize("count", [1, 3, 5])
def test_fewer_steps_than_there_have_been_are_refused(count: int) -> None:
    with pytest.raises(ValueError, match="another size"):
        ReplayBuffer(8).load(4, [numbered(0, count)])
