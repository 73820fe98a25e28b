"""The steps of a rollout as one flat batch, in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.distributions import Actions
from workflow_rl.agents.ppo.advantages import Estimator, ValuedEpisodes, gae
from workflow_rl.agents.settings import ConfigError
from workflow_rl.agents.trajectory import FloatArray, Trajectory


class Batch(NamedTuple):
    """Flattened steps of several trajectories, `B` in all, in the order of the trajectories.

    action: [B] or [B, K]; log_prob, value, advantage, return_: float32 [B].
    return_ is the critic's target.
    """

    action: Actions
    log_prob: NDArray[np.float32]
    value: NDArray[np.float32]
    advantage: NDArray[np.float32]
    return_: NDArray[np.float32]


def stack_obs(trajectories: Sequence[Trajectory]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the observations acted on [B, D] and the last ones [N, D], in the env's dtype."""
    obs = np.concatenate([trajectory.obs for trajectory in trajectories])
    return obs, np.stack([trajectory.last_obs for trajectory in trajectories])


def distinct_rows(rows: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the distinct rows [U, D] of `rows` [B, D], and the index [B] with
    `distinct[index] == rows`.

    Rows are compared bit for bit. The order of the distinct rows follows from their content.
    """
    rows = np.ascontiguousarray(rows)
    keys = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1])))[:, 0].tolist()
    # A dict hashes each row once: np.unique would compare every row with a dozen others.
    where = {key: n for n, key in enumerate(keys)}
    place = {key: n for n, key in enumerate(sorted(where))}
    index = np.fromiter(map(place.__getitem__, keys), np.int64, len(keys))
    return rows[[where[key] for key in place]], index


def in_parts(
    sizes: NDArray[np.int64], n_parts: int, shuffle: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Divide things of these sizes [N] at random into at most `n_parts` parts of nearly the same
    size in all. Returns the things of each part."""
    order = shuffle.permutation(len(sizes))
    middles = np.cumsum(sizes[order]) - sizes[order] / 2
    targets = sizes.sum() * np.arange(1, n_parts) / n_parts
    return [part for part in np.split(order, np.searchsorted(middles, targets)) if len(part)]


def whole_observations(
    obs_index: NDArray[np.int64], n_parts: int, shuffle: np.random.Generator
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]]:
    """Divide steps at random into parts of about the same size, without dividing an observation.

    obs_index: [B], the observation of each step. Yields for every part its steps [M], their
    distinct observations [U], and the place of each step's observation among these [M].
    """
    by_obs = np.argsort(obs_index, kind="stable")
    distinct, first, count = np.unique(obs_index[by_obs], return_index=True, return_counts=True)
    for part in in_parts(count, n_parts, shuffle):
        row = np.repeat(np.arange(len(part)), count[part])
        within = np.arange(len(row)) - np.repeat(np.cumsum(count[part]) - count[part], count[part])
        yield by_obs[first[part][row] + within], distinct[part], row


def make_batch(
    trajectories: Sequence[Trajectory],
    value: FloatArray,
    last_value: FloatArray,
    discount: float,
    gae_lambda: float,
    scaled: Callable[[FloatArray], FloatArray] = lambda reward: reward,
    ratio: FloatArray | None = None,
    estimate: Estimator = gae,
) -> Batch:
    """Return the batch of trajectories, with advantages that are computed episode by episode.

    value: [B], and last_value: [N], the critic's estimates of the observations acted on and of each
    episode's last observation, in units of scaled reward. scaled: scales rewards [B].
    ratio: [B], the present policy's probabilities over those of the policy that acted; None if they
    are the same. Raises ConfigError if `estimate` gives what is no estimate.
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
        # Episodes of one length together: a loop of Python over all steps takes as long as a
        # gradient step.
        alike = np.flatnonzero(lengths == length)
        steps = ends[alike] - length + np.arange(length)[:, None]
        episodes = ValuedEpisodes(
            reward[steps], value[steps], bootstrap[alike], over[steps], gae_lambda, ratio[steps]
        )
        advantage[steps], return_[steps] = _checked(estimate(episodes), steps.shape)
    return Batch(
        action=np.concatenate([trajectory.action for trajectory in trajectories]),
        log_prob=np.concatenate([trajectory.log_prob for trajectory in trajectories]),
        value=value.astype(np.float32),
        advantage=advantage.astype(np.float32),
        return_=return_.astype(np.float32),
    )


def _checked(estimated: Any, shape: tuple[int, ...]) -> Any:
    """Return advantages and targets. NumPy would stretch arrays of other shapes."""
    shapes = [np.shape(part) for part in estimated] if isinstance(estimated, tuple) else None
    if shapes != [shape, shape]:
        found = f"a {type(estimated).__name__}" if shapes is None else f"shapes {shapes}"
        raise ConfigError(
            "algorithm",
            f"its estimator of advantages must return two arrays, advantages and targets, of shape "
            f"{shape} each, and returns {found}",
        )
    return estimated
