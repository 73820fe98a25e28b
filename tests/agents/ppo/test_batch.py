from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.agents.examples import example_trajectory
from tests.agents.ppo.small_agents import example_agent
from workflow_rl.agents.ppo.advantages import (
    Estimates,
    estimate_advantages,
    gae,
    gae_with_vtrace,
    lambda_estimates,
)
from workflow_rl.agents.ppo.minibatches import distinct_rows, stack_obs, whole_observations
from workflow_rl.agents.trajectory import Trajectory

# delta_t = r_t + 0.5 v_{t+1} - v_t is -2, 4, -2 where the value after the last step is 6. It is -2,
# 4, -5 if the episode terminates. Advantages and targets follow by hand, backwards:
#   GAE: A_t = delta_t + 0.25 A_{t+1}, and v_t = V_t + A_t.
#   V-trace: A_t = delta_t + 0.25 rho_{t+1} A_{t+1}, and v_t = V_t + rho_t A_t.
REWARD, VALUE = np.array([1.0, 2.0, 3.0]), np.array([4.0, 2.0, 8.0])
RATIO = np.array([0.5, 3.0, 0.25])  # Clipped, rho: 0.5, 1, 0.25.
BY_HAND = {
    (gae, False): ([-1.125, 3.5, -2.0], [2.875, 5.5, 6.0]),
    (gae, True): ([-1.3125, 2.75, -5.0], [2.6875, 4.75, 3.0]),
    (gae_with_vtrace, False): ([-1.03125, 3.875, -2.0], [3.484375, 5.875, 7.5]),
    (gae_with_vtrace, True): ([-1.078125, 3.6875, -5.0], [3.4609375, 5.6875, 6.75]),
}


@pytest.mark.parametrize(
    ("terminated", "truncated"),
    [(False, True), (False, False), (True, False), (True, True)],
    ids=["truncated", "goes on in the next unroll", "terminated", "both"],
)
@pytest.mark.parametrize("estimate", [gae, gae_with_vtrace])
def test_a_batch_bootstraps_unless_the_episode_terminated(estimate, terminated, truncated):
    trajectory = example_trajectory((REWARD / 2).tolist())
    batch = estimate_advantages(
        [trajectory._replace(terminated=terminated, truncated=truncated)],
        VALUE,
        np.array([6.0]),
        discount=0.5,
        gae_lambda=0.5,
        scaled=lambda reward: 2.0 * reward,
        ratio=RATIO,
        estimate=estimate,
    )
    assert (batch.advantage.tolist(), batch.return_.tolist()) == BY_HAND[estimate, terminated]


def batch_of(trajectories: list[Trajectory], **changes: Any) -> Estimates:
    """Estimates of values that differ from step to step; discount 0.9 and lambda 0.8."""
    obs, last_obs = stack_obs(trajectories)
    arguments: dict[str, Any] = {
        "value": np.sin(np.arange(len(obs), dtype=np.float64)),
        "last_value": np.cos(np.arange(len(last_obs), dtype=np.float64)),
        "discount": 0.9,
        "gae_lambda": 0.8,
    }
    return estimate_advantages(trajectories, **(arguments | changes))


def test_each_episode_is_bootstrapped_with_its_own_last_value():
    # One-step episodes, so A = r + 0.5 * last_value - v, the bootstrap term 0 where terminated.
    trajectories = [
        example_trajectory([1]),
        example_trajectory([2], terminated=True),
        example_trajectory([3]),
    ]
    batch = batch_of(
        trajectories,
        value=np.array([10.0, 20.0, 30.0]),
        last_value=np.array([2.0, 4.0, 6.0]),
        discount=0.5,
    )
    assert batch.advantage.tolist() == [1 + 1 - 10, 2 - 20, 3 + 3 - 30]


def test_a_batch_holds_the_steps_in_the_order_of_the_trajectories():
    first, second = example_trajectory([1, 2, 3], seed=1), example_trajectory([4, 5], seed=2)
    second = second._replace(log_prob=np.array([-0.5, -0.25], np.float32))
    _, batch, _ = example_agent().make_batch([first, second])
    assert batch.action.tolist() == [*first.action.tolist(), *second.action.tolist()]
    assert batch.log_prob.tolist() == [*first.log_prob.tolist(), -0.5, -0.25]
    assert batch.action.dtype == torch.int64
    for name in ("log_prob", "value", "advantage", "return_"):
        assert getattr(batch, name).dtype == torch.float32, name
        assert len(getattr(batch, name)) == 5, name


@given(
    st.lists(st.tuples(st.integers(1, 8), st.booleans()), min_size=2, max_size=6),
    st.integers(0, 5),
    st.integers(0, 2**32 - 1),
)
def test_nothing_leaks_from_one_episode_into_another(shapes, chosen, seed):
    random = np.random.default_rng(seed)
    trajectories = [
        example_trajectory(random.normal(size=length).tolist(), terminated=terminated, seed=n)
        for n, (length, terminated) in enumerate(shapes)
    ]
    chosen %= len(trajectories)
    owner = np.repeat(np.arange(len(shapes)), [length for length, _ in shapes])
    ratio = random.uniform(0.5, 1.5, len(owner))
    changed = trajectories.copy()
    changed[chosen] = trajectories[chosen]._replace(reward=trajectories[chosen].reward + 100)
    other_ratio = np.where(owner == chosen, ratio / 4, ratio)
    before, after, reweighed = (
        batch_of(some, ratio=some_ratio, estimate=gae_with_vtrace)
        for some, some_ratio in ((trajectories, ratio), (changed, ratio), (changed, other_ratio))
    )
    for name in ("advantage", "return_"):
        differs = getattr(before, name) != getattr(after, name)
        assert differs.tolist() == (owner == chosen).tolist()
    assert (owner[after.return_ != reweighed.return_] == chosen).all()
    assert (after.return_ != reweighed.return_).any()


@given(n_rows=st.integers(1, 40), n_kinds=st.integers(1, 6), seed=st.integers(0, 99))
def test_distinct_rows_are_the_rows_each_once(n_rows, n_kinds, seed):
    random = np.random.default_rng(seed)
    rows = random.normal(size=(n_kinds, 3)).astype(np.float32)[
        random.integers(n_kinds, size=n_rows)
    ]
    distinct, index = distinct_rows(rows)
    assert np.array_equal(distinct[index], rows)
    assert len(distinct) == len({row.tobytes() for row in rows})
    # Their order follows from their content.
    backward, _ = distinct_rows(rows[::-1])
    assert np.array_equal(distinct, backward)


@given(
    n_steps=st.integers(1, 60),
    n_kinds=st.integers(1, 8),
    n_parts=st.integers(1, 9),
    seed=st.integers(0, 99),
)
def test_parts_of_whole_observations_have_every_step_once(n_steps, n_kinds, n_parts, seed):
    obs_index = np.random.default_rng(seed).integers(n_kinds, size=n_steps)
    parts = list(whole_observations(obs_index, n_parts, np.random.default_rng(seed)))
    assert sorted(step for steps, *_ in parts for step in steps.tolist()) == list(range(n_steps))
    for steps, distinct, row in parts:
        assert np.array_equal(distinct[row], obs_index[steps])
    seen = [kind for _, distinct, _ in parts for kind in distinct.tolist()]
    assert sorted(seen) == sorted(set(obs_index.tolist()))
    assert len(parts) <= n_parts


@pytest.mark.parametrize("n_parts", [1, 2, 3, 4, 6])
def test_parts_of_whole_observations_are_of_the_same_size_where_they_can(n_parts):
    parts = whole_observations(np.repeat(np.arange(12), 5), n_parts, np.random.default_rng(0))
    assert [len(steps) for steps, *_ in parts] == [60 // n_parts] * n_parts
    uneven = np.repeat(np.arange(1000), np.tile([1, 2, 3, 4], 250))
    sizes = [len(one[0]) for one in whole_observations(uneven, n_parts, np.random.default_rng(0))]
    assert sizes == pytest.approx([2500 / n_parts] * n_parts, abs=4)


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
