"""Running mean and variance of observations, and the scale of returns, over all rollouts."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.trajectory import Trajectory

EPSILON = 1e-8
REWARD_LIMIT = 10.0
OPEN_EPISODES = 10_000


class RunningMoments:
    """Mean and (biased) variance of all rows so far, each float64 [D].

    Before the first row, the mean is 0 and the variance 1. alike: a number for each column, see
    `Network.alike`. Columns with equal numbers share statistics. Columns with -1 have none.
    """

    def __init__(self, size: int, alike: NDArray[np.int64] | None = None) -> None:
        self._alike = alike
        self.count = 0
        self.mean = np.zeros(size)
        self.variance = np.ones(size)

    def update(self, rows: NDArray[Any]) -> None:
        """Add rows [B, D], at least one: Chan et al. 1983, equations 2.1."""
        n = len(rows)
        mean, variance = rows.mean(axis=0, dtype=np.float64), rows.var(axis=0, dtype=np.float64)
        if self._alike is not None:
            mean, variance = _shared(mean, variance, self._alike)
        if self.count == 0:
            self.count, self.mean, self.variance = n, mean, variance
            return
        total = self.count + n
        delta = mean - self.mean
        between = np.square(delta) * self.count * n / total
        self.mean = self.mean + delta * n / total
        self.variance = (self.variance * self.count + variance * n + between) / total
        self.count = total

    @property
    def scale(self) -> NDArray[np.float64]:
        """Factors [D] that scale the rows to a standard deviation of 1."""
        return 1 / np.sqrt(self.variance + EPSILON)

    def mean_and_scale(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return mean and scale [D] for `PolicyParameters`."""
        return self.mean.astype(np.float32), self.scale.astype(np.float32)

    def state_dict(self) -> dict[str, Any]:
        return {
            "count": self.count,
            "mean": self.mean.tolist(),
            "variance": self.variance.tolist(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state_dict()`. Raises ValueError for rows of another size, and for
        impossible statistics."""
        count, mean, variance = _parts(state, "count", "mean", "variance")
        if type(count) is not int or not 0 <= count < 2**63:
            raise ValueError(f"running statistics of {count!r:.50} rows")
        for numbers in (mean, variance):
            if not isinstance(numbers, list) or not all(
                type(number) is float for number in numbers
            ):
                raise ValueError("some of its running statistics are no lists of numbers")
            if len(numbers) != len(self.mean):
                raise ValueError(f"statistics of {len(numbers)} numbers, not {len(self.mean)}")
        # The variance of very large returns is infinite.
        if not all(map(math.isfinite, mean)) or not all(number >= 0 for number in variance):
            raise ValueError("a mean or a variance of its running statistics cannot be one")
        self.count, self.mean, self.variance = count, np.array(mean), np.array(variance)


def _shared(
    mean: NDArray[np.float64], variance: NDArray[np.float64], alike: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return for each column the shared mean and variance [D] of all columns that are alike."""
    group = alike + 1
    count = np.maximum(np.bincount(group), 1)
    joint = (np.bincount(group, mean) / count)[group]
    spread = (np.bincount(group, variance + np.square(mean - joint)) / count)[group]
    return np.where(alike < 0, 0.0, joint), np.where(alike < 0, 1.0, spread)


class ReturnScale:
    """The scale of rewards: the standard deviation of all discounted returns so far.

    As in Engstrom et al. 2020, "Implementation matters in deep policy gradients", section 3, the
    return is summed forwards, R_t = discount * R_{t-1} + r_t, and is 0 before an episode. If
    decisions last several steps, R_{t-1} is discounted once for each step.
    """

    def __init__(self, discount: float) -> None:
        self.discount = discount
        self._moments = RunningMoments(1)
        self._open: dict[int, float] = {}  # Returns of unfinished episodes, by number.

    def update(self, trajectories: Sequence[Trajectory]) -> None:
        """Add a rollout, in the order of its episodes and steps."""
        returns: list[float] = []
        for trajectory in trajectories:
            running = self._open.pop(trajectory.episode, 0.0)
            decays = [self.discount] * trajectory.length
            if trajectory.durations is not None:
                decays[1:] = (self.discount ** trajectory.durations[:-1]).tolist()
            for reward, decay in zip(trajectory.reward.tolist(), decays, strict=True):
                running = decay * running + reward
                returns.append(running)
            if not trajectory.ended:
                self._open[trajectory.episode] = running
        # Dropped episodes never end, so the oldest open episodes are removed.
        for episode in list(self._open)[:-OPEN_EPISODES]:
            del self._open[episode]
        self._moments.update(np.array(returns)[:, None])

    @property
    def factor(self) -> float:
        return float(self._moments.scale[0])

    def scaled(self, reward: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return rewards [T], divided, and then clipped to REWARD_LIMIT on both sides."""
        return np.clip(reward * self.factor, -REWARD_LIMIT, REWARD_LIMIT)

    def forget_episodes(self) -> None:
        """Forget unfinished episodes, because another run repeats the numbers of episodes."""
        self._open.clear()

    def state_dict(self) -> dict[str, Any]:
        return {"moments": self._moments.state_dict(), "open": list(self._open.items())}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state_dict()`. Raises ValueError for other values."""
        moments, pairs = _parts(state, "moments", "open")
        self._moments.load_state_dict(moments)
        if not isinstance(pairs, list) or not all(map(_is_open_episode, pairs)):
            raise ValueError("the returns of its open episodes are no numbers")
        self._open = dict(pairs)


def _parts(state: Any, *names: str) -> list[Any]:
    if not isinstance(state, Mapping) or not state.keys() >= set(names):
        raise ValueError(f"its running statistics do not have {', '.join(names)}")
    return [state[name] for name in names]


def _is_open_episode(pair: Any) -> bool:
    """Return whether a value is a pair of an episode's number and its return so far."""
    return (
        isinstance(pair, list | tuple)
        and [type(number) for number in pair] == [int, float]
        and math.isfinite(pair[1])
    )
