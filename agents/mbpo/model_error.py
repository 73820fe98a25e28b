"""The error of a learned model, measured on episodes that it did not learn from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.mbpo.dynamics import Dynamics
from workflow_rl.agents.trajectory import Trajectory


class Errors(NamedTuple):
    """Errors of predictions 1 to K steps ahead, with the real actions, float64 [K].

    obs: the absolute differences of an observation's numbers, summed, and averaged over the starts.
    For bits this is the number of wrong bits; real numbers are in units of their standard
    deviation. reward: root mean squared error of the step's reward.
    """

    obs: NDArray[np.float64]
    reward: NDArray[np.float64]


def errors_ahead(
    dynamics: Dynamics, episodes: Sequence[Trajectory], n_steps: int, random: np.random.Generator
) -> tuple[Errors, Errors]:
    """Return the errors of the model's draws, and those of predicting that nothing changes.

    Predictions start at every step, except an episode's first, that has `n_steps` after it. Raises
    ValueError if there is none.
    """
    starts = [(episode, t) for episode in episodes for t in range(1, episode.length - n_steps + 1)]
    if not starts:
        raise ValueError(f"no episode has more than {n_steps} steps")

    def real(values: str, ahead: int) -> NDArray[Any]:
        return np.stack([getattr(episode, values)[t + ahead] for episode, t in starts])

    def real_obs(ahead: int) -> NDArray[Any]:
        rows = [
            episode.obs[t + ahead] if t + ahead < episode.length else episode.last_obs
            for episode, t in starts
        ]
        return np.stack(rows).astype(np.float64)

    first, last_reward = real("obs", 0), real("reward", -1)
    scale = np.ones(first.shape[1])
    if not dynamics.bits:
        scale = first.std(axis=0)
        scale[scale == 0] = np.inf
    imagined, found = first, []
    for ahead in range(n_steps):
        step, _ = dynamics.imagine(imagined, real("action", ahead), random)
        imagined = step.next_obs
        expected, reward = real_obs(ahead + 1), real("reward", ahead)
        found.append(
            [
                (np.abs(obs - expected) / scale).sum(axis=1).mean()
                for obs in (imagined, first.astype(np.float64))
            ]
            + [np.sqrt(np.square(seen - reward).mean()) for seen in (step.reward, last_reward)]
        )
    of_model, of_nothing, reward_of_model, reward_of_nothing = np.array(found).T
    return Errors(of_model, reward_of_model), Errors(of_nothing, reward_of_nothing)
