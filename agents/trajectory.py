"""One episode as arrays, and what learning needs of it: advantages and a flat batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from agents.distributions import Actions
from agents.vtrace import vtrace

FloatArray = NDArray[np.float64]


class Trajectory(NamedTuple):
    """`T` steps of one episode: all of it, or what an unroll holds of it.

    `obs[t]` is what the agent saw when it chose `action[t]`.

    variant: of the env, such as its red agent; "" where it has none.
    obs: [T, D], the env's dtype; action: [T] or [T, K], as it was sampled; log_prob: float32 [T],
    of the action under the policy that chose it; reward: float64 [T].
    last_obs: [D], seen after the last action. If the episode `terminated` there, no more rewards
    were to come; otherwise, whether it was `truncated` or goes on in the next unroll, the value of
    last_obs stands for them.
    steps_before, return_before: the episode's steps before these, and the sum of their rewards.
    """

    episode: int
    variant: str
    policy_version: int
    obs: NDArray[np.generic]
    action: Actions
    log_prob: NDArray[np.float32]
    reward: FloatArray
    last_obs: NDArray[np.generic]
    terminated: bool
    truncated: bool
    steps_before: int = 0
    return_before: float = 0.0

    @property
    def ended(self) -> bool:
        """Whether the episode ended with the last step."""
        return self.terminated or self.truncated

    @property
    def length(self) -> int:
        """Number of steps, `T`."""
        return len(self.reward)

    @property
    def episode_return(self) -> float:
        """Undiscounted sum of the episode's rewards so far."""
        return self.return_before + float(self.reward.sum())


def generalized_advantages(
    reward: FloatArray,
    value: FloatArray,
    bootstrap_value: float,
    discount: float,
    gae_lambda: float,
) -> FloatArray:
    """Advantages of one episode: GAE(gamma, lambda), Schulman et al. 2016, equations 11 and 16.

    reward, value: [T]. bootstrap_value: the value of the state after the last step, 0 if the
    episode terminated there. Returns [T]. Never looks beyond the episode's end.
    """
    assert reward.shape == value.shape
    next_value = np.append(value[1:], bootstrap_value)
    delta = reward + discount * next_value - value
    advantage = np.empty_like(delta)
    running = 0.0
    for t in range(len(delta) - 1, -1, -1):
        running = delta[t] + discount * gae_lambda * running
        advantage[t] = running
    return advantage


class Batch(NamedTuple):
    """Flattened steps of several trajectories, `B` in all, in the order of the episode numbers.

    obs: float32 [B, D]; action: [B] or [B, K]; log_prob, value, advantage, return_: float32 [B].
    return_ is the critic's target: `advantage + value`, unless V-trace corrects it.
    """

    obs: NDArray[np.float32]
    action: Actions
    log_prob: NDArray[np.float32]
    value: NDArray[np.float32]
    advantage: NDArray[np.float32]
    return_: NDArray[np.float32]


def stack_obs(
    trajectories: Sequence[Trajectory],
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The observations acted on, float32 [B, D], and each episode's last one, float32 [N, D]."""
    obs = np.concatenate([trajectory.obs for trajectory in trajectories]).astype(np.float32)
    last_obs = np.stack([trajectory.last_obs for trajectory in trajectories]).astype(np.float32)
    return obs, last_obs


def distinct_rows(
    rows: NDArray[np.float32],
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The rows [U, D] that occur in `rows` [B, D], bit for bit, and for each of the B which it is.

    `distinct[index]` equals `rows`. The order of the distinct ones follows from their content.
    """
    whole_rows = np.ascontiguousarray(rows).view(np.dtype((np.void, rows.itemsize * rows.shape[1])))
    _, first, index = np.unique(whole_rows.ravel(), return_index=True, return_inverse=True)
    return rows[first], index


def make_batch(
    trajectories: Sequence[Trajectory],
    obs: NDArray[np.float32],
    value: FloatArray,
    last_value: FloatArray,
    discount: float,
    gae_lambda: float,
    scaled: Callable[[FloatArray], FloatArray] = lambda reward: reward,
    ratio: FloatArray | None = None,
) -> Batch:
    """Advantages episode by episode, then one flat batch.

    obs: [B, D] as `stack_obs` gives it; value: [B] and last_value: [N], the critic's estimates of
    `obs` and of each episode's last observation, in units of scaled reward. scaled: what the critic
    learns of rewards [T]. ratio: [B], where
    V-trace is to correct for the policy that acted; None: generalised advantages.
    """
    ends = np.cumsum([trajectory.length for trajectory in trajectories])
    assert len(obs) == len(value) == ends[-1]
    advantage, return_ = np.empty_like(value), np.empty_like(value)
    for n, (trajectory, end) in enumerate(zip(trajectories, ends, strict=True)):
        steps = slice(end - trajectory.length, end)
        episode = (
            scaled(trajectory.reward),
            value[steps],
            0.0 if trajectory.terminated else float(last_value[n]),
        )
        if ratio is None:
            advantage[steps] = generalized_advantages(*episode, discount, gae_lambda)
            return_[steps] = advantage[steps] + value[steps]
        else:
            advantage[steps], return_[steps] = vtrace(*episode, ratio[steps], discount, gae_lambda)
    return Batch(
        obs=obs,
        action=np.concatenate([trajectory.action for trajectory in trajectories]),
        log_prob=np.concatenate([trajectory.log_prob for trajectory in trajectories]),
        value=value.astype(np.float32),
        advantage=advantage.astype(np.float32),
        return_=return_.astype(np.float32),
    )
