"""Advantages: generalised advantage estimation, and V-trace."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.trajectory import Float64Array, Trajectory
from workflow_rl.errors import ConfigError


class ValuedEpisodes(NamedTuple):
    """`N` episodes of equal length for an estimator of advantages, float64.

    reward, value: [T, N], both in units of scaled reward. bootstrap_value: [N], the value of the
    state after the last step, 0 if the episode terminated there. discount: [T, N], over the steps
    of each decision. gae_lambda: the setting. ratio: [T, N], pi(a|s) / mu(a|s), the probability of
    the learning policy over that of the acting policy. The ratio is 1 without a policy lag.
    """

    reward: Float64Array
    value: Float64Array
    bootstrap_value: Float64Array
    discount: Float64Array
    gae_lambda: float
    ratio: Float64Array


Estimator: TypeAlias = Callable[[ValuedEpisodes], tuple[Float64Array, Float64Array]]
"""An estimator returns the advantages [T, N] and the critic's targets [T, N]."""


def gae(episodes: ValuedEpisodes) -> tuple[Float64Array, Float64Array]:
    """Estimate without a correction for older policies."""
    return lambda_estimates(*episodes[:5])


def gae_with_vtrace(episodes: ValuedEpisodes) -> tuple[Float64Array, Float64Array]:
    """Estimate with V-trace's correction for older policies."""
    return lambda_estimates(*episodes)


def lambda_estimates(
    reward: Float64Array,
    value: Float64Array,
    bootstrap_value: float | Float64Array,
    discount: float | Float64Array,
    gae_lambda: float,
    ratio: Float64Array | None = None,
) -> tuple[Float64Array, Float64Array]:
    """Return advantages and the critic's targets by GAE(gamma, lambda), Schulman et al. 2016,
    equations 11 and 16, or by V-trace, Espeholt et al. 2018, "IMPALA".

    reward, value: [T] of an episode, or [T, N] of N episodes of equal length. Both results have the
    same shape. bootstrap_value: [N], the value of the state after the last step, 0 if the episode
    terminated there. discount: a number, or an array of the shape of `reward` for decisions of
    several steps. ratio: of the shape of `reward`, see `ValuedEpisodes`. None means ratios of 1,
    which give GAE.

    With rho_t = min(1, ratio_t) and c_t = lambda * rho_t (rho_bar = c_bar = 1, lambda as in
    remark 2), V-trace's equation 1 in the recursive form of remark 1 gives the target
    v_t = V_t + e_t:

        delta_t = r_t + gamma * V_{t+1} - V_t
        e_t = rho_t * delta_t + gamma * c_t * e_{t+1} = rho_t * A_t
        A_t = delta_t + gamma * lambda * e_{t+1}

    A_t is the advantage. At lambda = 1, A_t is section 4.2's r_t + gamma * v_{t+1} - V_t. If all
    ratios are 1, A and v are those of GAE(gamma, lambda). The paper multiplies A_t by rho_t. This
    function does not, because PPO's surrogate multiplies by a ratio to the same mu.
    """
    rho = np.ones_like(reward) if ratio is None else np.minimum(1.0, ratio)
    assert reward.shape == value.shape == rho.shape
    next_value = np.append(value[1:], np.broadcast_to(bootstrap_value, (1, *value.shape[1:])), 0)
    delta = reward + discount * next_value - value
    advantage = np.empty_like(delta)
    decay = np.broadcast_to(np.asarray(discount * gae_lambda), value.shape)
    correction = np.zeros(value.shape[1:])
    for t in range(len(delta) - 1, -1, -1):
        advantage[t] = delta[t] + decay[t] * correction
        correction = rho[t] * advantage[t]
    return advantage, value + rho * advantage


class Estimates(NamedTuple):
    """The advantages and the critic's targets of several trajectories' steps, float32 [B]."""

    advantage: NDArray[np.float32]
    return_: NDArray[np.float32]


def estimate_advantages(
    trajectories: Sequence[Trajectory],
    value: Float64Array,
    last_value: Float64Array,
    discount: float,
    gae_lambda: float,
    scaled: Callable[[Float64Array], Float64Array] = lambda reward: reward,
    ratio: Float64Array | None = None,
    estimate: Estimator = gae,
) -> Estimates:
    """Return estimates for the steps of trajectories, computed separately for each episode.

    value: [B], the critic's values of the observations acted on. last_value: [N], the values of the
    episodes' last observations. Values are in units of scaled reward. scaled: scales rewards [B].
    ratio: [B], the present policy's probabilities over the acting policy's, or None if they are
    equal. Raises ConfigError if the results of `estimate` have wrong shapes.
    """
    lengths = np.array([trajectory.length for trajectory in trajectories])
    ends = np.cumsum(lengths)
    assert len(value) == ends[-1]
    advantage, return_ = np.empty_like(value), np.empty_like(value)
    reward = scaled(np.concatenate([trajectory.reward for trajectory in trajectories]))
    terminated = [trajectory.terminated for trajectory in trajectories]
    bootstrap = np.where(terminated, 0.0, last_value)
    ratio = np.ones_like(value) if ratio is None else ratio
    over = np.full_like(value, discount)
    if trajectories[0].durations is not None:
        durations: list[Any] = [trajectory.durations for trajectory in trajectories]
        over = discount ** np.concatenate(durations)
    for length in np.unique(lengths):
        # Episodes of one length are computed together. A Python loop over all steps would take as
        # long as a gradient step.
        alike = np.flatnonzero(lengths == length)
        steps = ends[alike] - length + np.arange(length)[:, None]
        episodes = ValuedEpisodes(
            reward[steps], value[steps], bootstrap[alike], over[steps], gae_lambda, ratio[steps]
        )
        advantage[steps], return_[steps] = _checked(estimate(episodes), steps.shape)
    return Estimates(advantage.astype(np.float32), return_.astype(np.float32))


def _checked(estimated: Any, shape: tuple[int, ...]) -> Any:
    """Return advantages and targets if their shapes are right. NumPy would broadcast others."""
    shapes = [np.shape(part) for part in estimated] if isinstance(estimated, tuple) else None
    if shapes != [shape, shape]:
        found = f"a {type(estimated).__name__}" if shapes is None else f"shapes {shapes}"
        raise ConfigError(
            "algorithm",
            f"its estimator of advantages must return two arrays, advantages and targets, of shape "
            f"{shape} each, and returns {found}",
        )
    return estimated
