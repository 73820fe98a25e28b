from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agents.examples import example_trajectory
from workflow_rl.agents.ppo.advantages import (
    estimate_advantages,
    gae_with_vtrace,
    lambda_estimates,
)
from workflow_rl.agents.ppo.minibatches import stack_obs

# delta_t = r_t + 0.5 v_{t+1} - v_t is -2, 4, -2; the last is -5 if the episode terminates.
REWARD = np.array([1.0, 2.0, 3.0])
VALUE = np.array([4.0, 2.0, 8.0])
BOOTSTRAP_VALUE = 6.0
RATIO = np.array([0.5, 3.0, 0.25])  # Clipped: 0.5, 1, 0.25.

# A_t = delta_t + 0.25 rho_{t+1} A_{t+1} and v_t = V_t + rho_t A_t, by hand, backwards:
#   A_2 = -2, A_1 = 4 - 0.25 * 0.25 * 2 = 3.875, A_0 = -2 + 0.25 * 3.875 = -1.03125
#   v_2 = 8 - 0.5, v_1 = 2 + 3.875, v_0 = 4 - 0.515625
CUT = ([-1.03125, 3.875, -2.0], [3.484375, 5.875, 7.5])
#   A_2 = -5, A_1 = 4 - 0.25 * 0.25 * 5 = 3.6875, A_0 = -2 + 0.25 * 3.6875 = -1.078125
#   v_2 = 8 - 1.25, v_1 = 2 + 3.6875, v_0 = 4 - 0.5390625
TERMINATED = ([-1.078125, 3.6875, -5.0], [3.4609375, 5.6875, 6.75])

numbers = st.floats(-100, 100)
shares = st.floats(0, 1)
ratios = st.floats(0, 10)


@st.composite
def episodes(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, float, np.ndarray]:
    """Rewards [T], values [T], a bootstrap value and ratios [T]."""
    length = draw(st.integers(1, 12))
    reward, value, ratio = (
        np.array(draw(st.lists(each, min_size=length, max_size=length)))
        for each in (numbers, numbers, ratios)
    )
    return reward, value, draw(numbers), ratio


@pytest.mark.parametrize(("bootstrap_value", "expected"), [(6.0, CUT), (0.0, TERMINATED)])
def test_advantages_and_targets_by_hand(
    bootstrap_value: float, expected: tuple[list[float], list[float]]
) -> None:
    advantage, target = lambda_estimates(REWARD, VALUE, bootstrap_value, 0.5, 0.5, RATIO)
    assert (advantage.tolist(), target.tolist()) == expected


@given(episodes(), shares, shares)
def test_targets_are_the_sum_of_equation_1(
    episode: tuple[np.ndarray, np.ndarray, float, np.ndarray], discount: float, trace_decay: float
) -> None:
    reward, value, bootstrap_value, ratio = episode
    next_value = [*value[1:], bootstrap_value]
    expected = []
    for s in range(len(reward)):
        target, weight = value[s], 1.0
        for t in range(s, len(reward)):
            delta = min(1, ratio[t]) * (reward[t] + discount * next_value[t] - value[t])
            target += weight * delta
            weight *= discount * trace_decay * min(1, ratio[t])
        expected.append(target)
    _, target = lambda_estimates(reward, value, bootstrap_value, discount, trace_decay, ratio)
    np.testing.assert_allclose(target, expected, atol=1e-9)


@given(episodes(), shares)
def test_at_lambda_1_advantages_are_those_of_impala(
    episode: tuple[np.ndarray, np.ndarray, float, np.ndarray], discount: float
) -> None:
    reward, value, bootstrap_value, ratio = episode
    advantage, target = lambda_estimates(reward, value, bootstrap_value, discount, 1.0, ratio)
    next_target = np.append(target[1:], bootstrap_value)
    np.testing.assert_allclose(advantage, reward + discount * next_target - value, atol=1e-9)


@given(episodes(), shares, shares)
def test_on_policy_they_are_generalised_advantages_to_the_bit(
    episode: tuple[np.ndarray, np.ndarray, float, np.ndarray], discount: float, trace_decay: float
) -> None:
    reward, value, bootstrap_value, _ = episode
    ones = np.ones_like(reward)
    advantage, target = lambda_estimates(
        reward, value, bootstrap_value, discount, trace_decay, ones
    )
    expected = lambda_estimates(reward, value, bootstrap_value, discount, trace_decay)[0]
    assert advantage.tolist() == expected.tolist()
    assert target.tolist() == (expected + value).tolist()


@given(episodes(), shares, shares)
def test_ratios_above_1_count_as_1(
    episode: tuple[np.ndarray, np.ndarray, float, np.ndarray], discount: float, trace_decay: float
) -> None:
    *rest, ratio = episode
    clipped = np.array([min(1.0, each) for each in ratio])
    for ours, theirs in zip(
        lambda_estimates(*rest, discount, trace_decay, ratio),
        lambda_estimates(*rest, discount, trace_decay, clipped),
        strict=True,
    ):
        assert ours.tolist() == theirs.tolist()


@given(st.lists(st.tuples(shares, shares, numbers), min_size=2, max_size=5))
def test_the_target_is_fixed_at_the_value_of_the_policy_theorem_1_names(
    actions: list[tuple[float, float, float]],
) -> None:
    """One state, one step: the expected target equals V where V is that of min(mu, pi) / sum."""
    mu, pi, reward = (np.array(column) for column in zip(*actions, strict=True))
    mu, pi = (mu + 0.1) / (mu + 0.1).sum(), (pi + 0.1) / (pi + 0.1).sum()
    common = np.minimum(mu, pi)
    value = np.array([common @ reward / common.sum()])
    targets = [
        lambda_estimates(np.array([r]), value, 0.0, 0.9, 0.9, np.array([p / m]))[1][0]
        for m, p, r in zip(mu, pi, reward, strict=True)
    ]
    assert mu @ targets == pytest.approx(value[0], abs=1e-9)


def test_the_arguments_are_left_as_they_were() -> None:
    arguments = [array.copy() for array in (REWARD, VALUE, RATIO)]
    lambda_estimates(arguments[0], arguments[1], BOOTSTRAP_VALUE, 0.5, 0.5, arguments[2])
    for argument, original in zip(arguments, (REWARD, VALUE, RATIO), strict=True):
        assert argument.tolist() == original.tolist()


@pytest.mark.parametrize(
    ("terminated", "truncated", "expected"),
    [(False, True, CUT), (False, False, CUT), (True, False, TERMINATED)],
    ids=["truncated", "goes on in the next unroll", "terminated"],
)
def test_a_batch_bootstraps_unless_the_episode_terminated(
    terminated: bool, truncated: bool, expected: tuple[list[float], list[float]]
) -> None:
    trajectory = example_trajectory((REWARD / 2).tolist())
    trajectory = trajectory._replace(terminated=terminated, truncated=truncated)
    last_value = np.array([BOOTSTRAP_VALUE])
    batch = estimate_advantages(
        [trajectory],
        VALUE,
        last_value,
        0.5,
        0.5,
        lambda reward: 2.0 * reward,
        RATIO,
        gae_with_vtrace,
    )
    assert (batch.advantage.tolist(), batch.return_.tolist()) == expected


@given(
    st.lists(st.tuples(st.integers(1, 8), st.booleans()), min_size=2, max_size=6),
    st.integers(0, 5),
    st.integers(0, 2**32 - 1),
)
def test_nothing_leaks_from_one_episode_into_another(
    shapes: list[tuple[int, bool]], chosen: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    trajectories = [
        example_trajectory(random.normal(size=length).tolist(), terminated=terminated, seed=n)
        for n, (length, terminated) in enumerate(shapes)
    ]
    chosen %= len(trajectories)
    obs, last_obs = stack_obs(trajectories)
    value, ratio = random.normal(size=len(obs)), random.uniform(0.5, 1.5, len(obs))
    last_value = random.normal(size=len(last_obs))
    owner = np.repeat(np.arange(len(shapes)), [length for length, _ in shapes])
    changed = trajectories.copy()
    changed[chosen] = trajectories[chosen]._replace(reward=trajectories[chosen].reward + 100)
    other_ratio = np.where(owner == chosen, ratio / 4, ratio)
    before, after, reweighed = (
        estimate_advantages(
            some, value, last_value, 0.9, 0.8, ratio=some_ratio, estimate=gae_with_vtrace
        )
        for some, some_ratio in ((trajectories, ratio), (changed, ratio), (changed, other_ratio))
    )
    for name in ("advantage", "return_"):
        differs = getattr(before, name) != getattr(after, name)
        assert differs.tolist() == (owner == chosen).tolist()
    assert (owner[after.return_ != reweighed.return_] == chosen).all()
    assert (after.return_ != reweighed.return_).any()
