from __future__ import annotations

from typing import Any

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
    lambda_estimates,
)
from workflow_rl.agents.ppo.minibatches import distinct_rows, stack_obs, whole_observations
from workflow_rl.agents.trajectory import Trajectory

REWARD = np.array([1.0, 2.0, 3.0])
VALUE = np.array([4.0, 2.0, 8.0])
BOOTSTRAP_VALUE = 6.0

numbers = st.floats(-100, 100)
shares = st.floats(0, 1)


@st.composite
def episodes(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, float]:
    """Rewards [T], values [T] and a bootstrap value."""
    length = draw(st.integers(1, 20))
    reward, value = (draw(st.lists(numbers, min_size=length, max_size=length)) for _ in range(2))
    return np.array(reward), np.array(value), draw(numbers)


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


def test_advantages_of_a_truncated_episode_by_hand() -> None:
    # delta_t = r_t + 0.5 v_{t+1} - v_t:  1 + 1 - 4 = -2,  2 + 4 - 2 = 4,  3 + 0.5 * 6 - 8 = -2
    # A_t = delta_t + 0.25 A_{t+1}:  A_2 = -2,  A_1 = 4 - 0.5 = 3.5,  A_0 = -2 + 0.875 = -1.125
    advantage = lambda_estimates(REWARD, VALUE, BOOTSTRAP_VALUE, 0.5, 0.5)[0]
    assert advantage.tolist() == [-1.125, 3.5, -2.0]


def test_advantages_of_a_terminated_episode_by_hand() -> None:
    # The last delta is 3 - 8 = -5.  A_2 = -5,  A_1 = 4 - 1.25 = 2.75,  A_0 = -2 + 0.6875 = -1.3125
    advantage = lambda_estimates(REWARD, VALUE, 0.0, 0.5, 0.5)[0]
    assert advantage.tolist() == [-1.3125, 2.75, -5.0]


def test_lambda_1_by_hand() -> None:
    # Discounted returns: 3 + 0.5 * 6 = 6,  2 + 0.5 * 6 = 5,  1 + 0.5 * 5 = 3.5; less the values.
    advantage = lambda_estimates(REWARD, VALUE, BOOTSTRAP_VALUE, 0.5, 1.0)[0]
    assert advantage.tolist() == [-0.5, 3.0, -2.0]


@given(episodes(), shares)
def test_lambda_1_is_the_discounted_return_minus_the_value(
    episode: tuple[np.ndarray, np.ndarray, float], discount: float
) -> None:
    reward, value, bootstrap_value = episode
    rewards = [*reward, bootstrap_value]
    returns = [
        sum(discount ** (k - t) * rewards[k] for k in range(t, len(rewards)))
        for t in range(len(reward))
    ]
    advantage = lambda_estimates(reward, value, bootstrap_value, discount, 1.0)[0]
    np.testing.assert_allclose(advantage, returns - value, atol=1e-9)


@given(episodes(), shares)
def test_lambda_0_is_the_td_error(
    episode: tuple[np.ndarray, np.ndarray, float], discount: float
) -> None:
    reward, value, bootstrap_value = episode
    next_value = [*value[1:], bootstrap_value]
    td_error = [
        r + discount * v_next - v for r, v, v_next in zip(reward, value, next_value, strict=True)
    ]
    advantage = lambda_estimates(reward, value, bootstrap_value, discount, 0.0)[0]
    assert advantage.tolist() == td_error


@given(episodes(), shares, shares)
def test_values_that_predict_perfectly_leave_no_advantage(
    episode: tuple[np.ndarray, np.ndarray, float], discount: float, gae_lambda: float
) -> None:
    reward, _, bootstrap_value = episode
    value = np.empty_like(reward)
    following = bootstrap_value
    for t in reversed(range(len(reward))):
        following = value[t] = reward[t] + discount * following
    advantage = lambda_estimates(reward, value, bootstrap_value, discount, gae_lambda)[0]
    np.testing.assert_allclose(advantage, 0, atol=1e-9)


def test_the_arguments_are_left_as_they_were() -> None:
    reward, value = REWARD.copy(), VALUE.copy()
    lambda_estimates(reward, value, BOOTSTRAP_VALUE, 0.5, 0.5)[0]
    assert reward.tolist() == REWARD.tolist()
    assert value.tolist() == VALUE.tolist()


def test_length_and_episode_return() -> None:
    trajectory = example_trajectory([1.5, -2.0, 0.25])
    assert trajectory.length == 3
    assert trajectory.episode_return == -0.25


def test_stack_obs_keeps_the_steps_and_the_last_observations_apart() -> None:
    first, second = example_trajectory([1, 2], seed=1), example_trajectory([3], seed=2)
    obs, last_obs = stack_obs([first, second])
    assert obs.dtype == last_obs.dtype == first.obs.dtype
    assert obs.tolist() == [*first.obs.tolist(), *second.obs.tolist()]
    assert last_obs.tolist() == [first.last_obs.tolist(), second.last_obs.tolist()]


@pytest.mark.parametrize(
    ("terminated", "advantage"), [(False, [-1.125, 3.5, -2.0]), (True, [-1.3125, 2.75, -5.0])]
)
def test_only_a_truncated_episode_is_bootstrapped(terminated: bool, advantage: list[float]) -> None:
    # The three-step episodes worked out by hand above.
    batch = batch_of(
        [example_trajectory(REWARD.tolist(), terminated=terminated)],
        value=VALUE,
        last_value=np.array([BOOTSTRAP_VALUE]),
        discount=0.5,
        gae_lambda=0.5,
    )
    assert batch.advantage.tolist() == advantage
    assert batch.return_.tolist() == (np.array(advantage) + VALUE).tolist()


def test_an_episode_that_is_terminated_and_truncated_at_once_is_not_bootstrapped() -> None:
    both = example_trajectory(REWARD.tolist(), terminated=True)._replace(truncated=True)
    terminated = example_trajectory(REWARD.tolist(), terminated=True)
    assert batch_of([both]).advantage.tolist() == batch_of([terminated]).advantage.tolist()


def test_each_episode_is_bootstrapped_with_its_own_last_value() -> None:
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


def test_a_batch_holds_the_steps_in_the_order_of_the_trajectories() -> None:
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
def test_nothing_leaks_from_one_episode_into_another(
    shapes: list[tuple[int, bool]], chosen: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    trajectories = [
        example_trajectory(random.normal(size=length).tolist(), terminated=terminated, seed=n)
        for n, (length, terminated) in enumerate(shapes)
    ]
    chosen %= len(trajectories)
    changed = trajectories.copy()
    changed[chosen] = trajectories[chosen]._replace(reward=trajectories[chosen].reward + 100)
    owner = np.repeat(np.arange(len(shapes)), [length for length, _ in shapes])
    differs = batch_of(trajectories).advantage != batch_of(changed).advantage
    assert differs.tolist() == (owner == chosen).tolist()


def test_scaling_multiplies_the_rewards_and_not_the_values() -> None:
    # Twice these rewards are those of the truncated episode worked out by hand.
    batch = batch_of(
        [example_trajectory([0.5, 1.0, 1.5])],
        value=VALUE,
        last_value=np.array([BOOTSTRAP_VALUE]),
        discount=0.5,
        gae_lambda=0.5,
        scaled=lambda reward: 2.0 * reward,
    )
    assert batch.advantage.tolist() == [-1.125, 3.5, -2.0]


def test_values_that_do_not_fit_the_steps_are_refused() -> None:
    with pytest.raises(AssertionError):
        batch_of([example_trajectory([1, 2, 3])], value=np.zeros(4))


@given(n_rows=st.integers(1, 40), n_kinds=st.integers(1, 6), seed=st.integers(0, 99))
def test_distinct_rows_are_the_rows_each_once(n_rows: int, n_kinds: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    rows = random.normal(size=(n_kinds, 3)).astype(np.float32)[
        random.integers(n_kinds, size=n_rows)
    ]
    distinct, index = distinct_rows(rows)
    assert np.array_equal(distinct[index], rows)
    assert len(distinct) == len({row.tobytes() for row in rows})


def test_the_order_of_distinct_rows_follows_from_their_content() -> None:
    rows = np.array([[1, 0], [0, 1], [1, 0]], np.float32)
    forward, _ = distinct_rows(rows)
    backward, _ = distinct_rows(rows[::-1])
    assert np.array_equal(forward, backward)


@given(
    n_steps=st.integers(1, 60),
    n_kinds=st.integers(1, 8),
    n_parts=st.integers(1, 9),
    seed=st.integers(0, 99),
)
def test_parts_of_whole_observations_have_every_step_once(
    n_steps: int, n_kinds: int, n_parts: int, seed: int
) -> None:
    obs_index = np.random.default_rng(seed).integers(n_kinds, size=n_steps)
    parts = list(whole_observations(obs_index, n_parts, np.random.default_rng(seed)))
    assert sorted(step for steps, *_ in parts for step in steps.tolist()) == list(range(n_steps))
    for steps, distinct, row in parts:
        assert np.array_equal(distinct[row], obs_index[steps])
    seen = [kind for _, distinct, _ in parts for kind in distinct.tolist()]
    assert sorted(seen) == sorted(set(obs_index.tolist()))
    assert len(parts) <= n_parts


@pytest.mark.parametrize("n_parts", [1, 2, 3, 4, 6])
def test_parts_of_whole_observations_are_of_the_same_size_where_they_can(n_parts: int) -> None:
    parts = whole_observations(np.repeat(np.arange(12), 5), n_parts, np.random.default_rng(0))
    assert [len(steps) for steps, *_ in parts] == [60 // n_parts] * n_parts


def test_parts_of_whole_observations_are_of_about_the_same_size() -> None:
    obs_index = np.repeat(np.arange(1000), np.tile([1, 2, 3, 4], 250))
    sizes = [len(steps) for steps, *_ in whole_observations(obs_index, 5, np.random.default_rng(0))]
    assert sizes == pytest.approx([500] * 5, abs=4)
