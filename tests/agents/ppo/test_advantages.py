"""V-trace is what its paper defines, and on policy it is generalised advantage estimation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from workflow_rl.agents.ppo.advantages import lambda_estimates

NUMBERS, SHARES, RATIOS = st.floats(-100, 100), st.floats(0, 1), st.floats(0, 10)


class Episode(NamedTuple):
    """Rewards and values [T], the value after the last step, and the discount of each step [T]."""

    reward: np.ndarray
    value: np.ndarray
    bootstrap_value: float
    discount: np.ndarray


@st.composite
def episodes(draw: st.DrawFn) -> tuple[Episode, np.ndarray]:
    """An episode, and the ratio of each of its steps [T]."""
    length = draw(st.integers(1, 12))
    reward, value, discount, ratio = (
        np.array(draw(st.lists(each, min_size=length, max_size=length)))
        for each in (NUMBERS, NUMBERS, SHARES, RATIOS)
    )
    return Episode(reward, value, draw(NUMBERS), discount), ratio


@given(episodes(), SHARES)
def test_targets_are_the_sum_of_equation_1(drawn, trace_decay):
    episode, ratio = drawn
    reward, value, bootstrap_value, discount = episode
    next_value = [*value[1:], bootstrap_value]
    expected = []
    for s in range(len(reward)):
        target, weight = value[s], 1.0
        for t in range(s, len(reward)):
            delta = min(1, ratio[t]) * (reward[t] + discount[t] * next_value[t] - value[t])
            target += weight * delta
            weight *= discount[t] * trace_decay * min(1, ratio[t])
        expected.append(target)
    _, target = lambda_estimates(*episode, trace_decay, ratio)
    np.testing.assert_allclose(target, expected, atol=1e-9)


@given(episodes(), SHARES)
def test_on_policy_they_are_generalised_advantages_to_the_bit(drawn, trace_decay):
    episode, ratio = drawn
    advantage, target = lambda_estimates(*episode, trace_decay, np.ones_like(ratio))
    expected, _ = lambda_estimates(*episode, trace_decay)
    assert advantage.tolist() == expected.tolist()
    assert target.tolist() == (expected + episode.value).tolist()
