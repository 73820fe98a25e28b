import itertools
import json
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agents.examples import example_trajectory
from workflow_rl.agents.ppo import running_statistics
from workflow_rl.agents.ppo.running_statistics import ReturnScale, RunningMoments
from workflow_rl.agents.trajectory import Trajectory

NUMBERS = st.floats(-1e3, 1e3, width=32)


def piece(
    episode: int, rewards: Sequence[float], ended: bool = True, terminated: bool = True
) -> Trajectory:
    """Steps of an episode; the last ones of it if it `ended`."""
    return example_trajectory(rewards)._replace(
        episode=episode, terminated=ended and terminated, truncated=ended and not terminated
    )


def moments_of(scale: ReturnScale) -> tuple[int, float, float]:
    moments = scale._moments
    return moments.count, float(moments.mean[0]), float(moments.variance[0])


def test_moments_by_hand():
    moments = RunningMoments(2)
    mean, scale = moments.mean_and_scale()
    assert (mean.tolist(), scale.tolist()) == ([0, 0], [1, 1])
    assert mean.dtype == scale.dtype == np.float32
    moments.update(np.array([[1, 10]], np.uint8))
    assert (moments.mean.tolist(), moments.variance.tolist()) == ([1, 10], [0, 0])
    assert np.isfinite(moments.mean_and_scale()).all()
    moments.update(np.array([[3, 10], [5, 250]], np.uint8))
    assert moments.count == 3
    assert moments.mean == pytest.approx([3, 90])
    assert moments.variance == pytest.approx([8 / 3, 2 * 80**2 / 3 + 160**2 / 3])
    assert moments.scale == pytest.approx([math.sqrt(3 / 8), 1 / math.sqrt(12_800)])


@given(
    rows=st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=30),
    cuts=st.lists(st.integers(1, 29), max_size=5),
)
def test_moments_are_those_of_all_rows_however_they_are_split(rows, cuts):
    whole = np.array(rows, np.float32)
    moments = RunningMoments(2)
    for part in np.split(whole, sorted(cuts)):
        if len(part):
            moments.update(part)
    exact = whole.astype(np.float64)
    assert moments.count == len(rows)
    np.testing.assert_allclose(moments.mean, exact.mean(axis=0), atol=1e-9)
    np.testing.assert_allclose(moments.variance, exact.var(axis=0), rtol=1e-9, atol=1e-8)


def test_a_small_variance_far_from_0_is_not_lost():
    rows = (1e6 + np.random.default_rng(0).normal(size=(5000, 1))).astype(np.float32)
    moments = RunningMoments(1)
    for part in np.array_split(rows, 40):
        moments.update(part)
    assert moments.variance == pytest.approx(rows.astype(np.float64).var(axis=0), rel=1e-6)


ODD_MOMENTS = [
    *({"count": count} for count in (-1, 2.0, True, "5", None, [5], 2**63)),
    *({"mean": mean} for mean in ([0.0, math.nan], [math.inf, 0.0], ["0", 0.0], [[0.0], [0.0]])),
    *({"mean": mean} for mean in ([0.0], [0.0, 0.0, 0.0], 0.0, "00", None)),
    *({"variance": variance} for variance in ([1.0, -1e-9], [math.nan, 1.0], [1.0], [1], 1.0)),
]


@pytest.mark.parametrize("odd", ODD_MOMENTS)
def test_moments_that_there_cannot_be_are_refused(odd):
    moments = RunningMoments(2)
    state = {"count": 4, "mean": [0.0, 1.0], "variance": [1.0, 0.5]}
    with pytest.raises(ValueError, match=r"statistics"):
        moments.load_state_dict({**state, **odd})
    assert moments.state_dict() == RunningMoments(2).state_dict()
    missing = {name: part for name, part in state.items() if name not in odd}
    with pytest.raises(ValueError, match=r"do not have"):
        moments.load_state_dict(missing)
    moments.load_state_dict(state)
    assert moments.state_dict() == state


@pytest.mark.parametrize(
    "odd", [{1: 2.0}, 5, [3], [[1]], [[1, 2.0, 3.0]], [["1", 2.0]], [[1, "2"]], [[1, math.nan]]]
)
def test_open_episodes_that_there_cannot_be_are_refused(odd):
    scale = ReturnScale(0.9)
    with pytest.raises(ValueError, match="open episodes"):
        scale.load_state_dict({**scale.state_dict(), "open": odd})
    for state in ([], 3, {}, {"moments": 3, "open": []}, {"open": []}):
        with pytest.raises(ValueError, match="do not have"):
            scale.load_state_dict(state)  # type: ignore[arg-type]


def test_the_scale_of_returns_by_hand():
    scale = ReturnScale(discount=0.5)
    rewards = np.array([3.0, -4.0])
    assert scale.scaled(rewards) == pytest.approx(rewards)
    scale.update([piece(0, [1, 2, 4]), piece(1, [3])])
    # Returns so far: 1, 0.5 + 2, 1.25 + 4; and 3.
    returns = [1, 2.5, 5.25, 3]
    deviation = math.sqrt(sum((x - 2.9375) ** 2 for x in returns) / 4)
    assert moments_of(scale) == pytest.approx((4, 2.9375, deviation**2))
    assert scale.scaled(rewards) == pytest.approx(rewards / deviation)
    # The sign of a reward never changes: the mean is not taken off.
    assert scale.scaled(np.array([1e3, -1e3])).tolist() == [10, -10]


@given(
    episodes=st.lists(st.lists(NUMBERS, min_size=1, max_size=8), min_size=1, max_size=4),
    cuts=st.lists(st.integers(1, 7), max_size=3),
    discount=st.floats(0, 1),
)
def test_cutting_episodes_into_pieces_changes_nothing(episodes, cuts, discount):
    whole, in_pieces, in_rollouts = (ReturnScale(discount) for _ in range(3))
    whole.update([piece(number, rewards) for number, rewards in enumerate(episodes)])
    pieces = [
        [
            piece(number, rewards[start:end], ended=end >= len(rewards))
            for number, rewards in enumerate(episodes)
            if start < len(rewards)
        ]
        for start, end in itertools.pairwise([0, *sorted(set(cuts)), 8])
    ]
    in_pieces.update(
        sorted((p for rollout in pieces for p in rollout), key=lambda one: one.episode)
    )
    assert in_pieces.state_dict() == whole.state_dict()
    for rollout in pieces:
        if rollout:
            in_rollouts.update(rollout)
    assert moments_of(in_rollouts) == pytest.approx(moments_of(whole), rel=1e-6, abs=1e-4)


@pytest.mark.parametrize("terminated", [True, False])
def test_an_episode_that_has_ended_does_not_leak_into_the_next(terminated):
    scale = ReturnScale(discount=1.0)
    scale.update([piece(0, [100.0], terminated=terminated)])
    # Even one of the same number, as nothing of it is open any more.
    scale.update([piece(0, [1.0]), piece(1, [2.0])])
    assert moments_of(scale)[1] == pytest.approx((100 + 1 + 2) / 3)
    going_on = ReturnScale(discount=1.0)
    going_on.update([piece(0, [100.0], ended=False)])
    going_on.update([piece(0, [1.0]), piece(1, [2.0])])
    assert moments_of(going_on)[1] == pytest.approx((100 + 101 + 2) / 3)


def test_episodes_whose_ends_never_come_are_forgotten(monkeypatch):
    monkeypatch.setattr(running_statistics, "OPEN_EPISODES", 3)
    scale = ReturnScale(discount=1.0)
    for episode in range(5):
        scale.update([piece(episode, [1.0], ended=False)])
    assert dict(scale.state_dict()["open"]) == {2: 1, 3: 1, 4: 1}


def test_the_scale_goes_on_from_plain_values_in_the_middle_of_episodes():
    scale, again = ReturnScale(0.9), ReturnScale(0.9)
    scale.update([piece(0, [1, 2], ended=False), piece(1, [3])])
    again.load_state_dict(json.loads(json.dumps(scale.state_dict())))
    for one in (scale, again):
        one.update([piece(0, [4])])
    assert again.state_dict() == scale.state_dict()
    assert moments_of(again)[0] == 4
    # 1, 2.9 and, from there, 6.61; and 3.
    assert moments_of(again)[1] == pytest.approx((1 + 2.9 + 3 + 0.9 * 2.9 + 4) / 4)


def test_columns_that_are_alike_share_their_statistics():
    moments = RunningMoments(4, np.array([0, 1, 0, -1]))
    moments.update(np.array([[1.0, 10, 3, 7], [5, 30, 7, 9]]))
    # The first and the third column have 1, 5, 3 and 7 together. The last has no statistics.
    assert moments.mean == pytest.approx([4, 20, 4, 0])
    assert moments.variance == pytest.approx([5, 100, 5, 1])
