"""Who teaches, the episodes that a teacher plays, and how they are told."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from workflow_rl.agents.policies.actors import Advised
from workflow_rl.agents.policies.numpy_policy import Actor, NumpyPolicy, Policy
from workflow_rl.agents.policies.team_policy import TeamPolicy
from workflow_rl.agents.spaces import Spaces
from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.collection.async_collector import AsyncCollector
from workflow_rl.collection.failures import TooManyFailuresError
from workflow_rl.collection.pool import AnyPool
from workflow_rl.collection.rollout import what_is_not_finite
from workflow_rl.environments.env_batch import EnvBatchFactory
from workflow_rl.environments.episode import EpisodeSpec
from workflow_rl.evaluation.intervals import Mean, mean_of
from workflow_rl.progress_bar import Progress

PROGRESS_STEPS = 10


class Teacher(NamedTuple):
    """An actor, and what makes the envs that it plays in."""

    make_envs: EnvBatchFactory
    actor: Actor


def returns_in_words(told: Mapping[str, Any]) -> str:
    """Return what `returns_of` says as text."""
    interval = math.nan if told["return_interval_95"] is None else told["return_interval_95"]
    return f"{Mean(told['return_mean'], interval).told(1)} in {told['episodes']} episodes"


def agreement_in_words(agreement: float | None) -> str:
    """Return a copy's agreement with its teacher as text. None: the agreement cannot be told."""
    return "unknown" if agreement is None else f"{agreement:.1%}"


def plays_on(policy: Policy, spaces: Spaces) -> bool:
    """Return whether a policy acts on rows of an environment with these spaces."""
    if isinstance(policy, TeamPolicy):
        return policy.parameters.layout == spaces.team
    assert isinstance(policy, NumpyPolicy)
    theirs = policy.network.n_inputs, policy.distribution, policy.masked
    return (
        spaces.team is None
        and theirs == (spaces.obs_dim, spaces.distribution, spaces.masked)
        and policy.parameters.n_further == spaces.privileged
    )


def returns_of(trajectories: Sequence[Trajectory]) -> dict[str, Any]:
    """Return the number of episodes, and the mean of their returns with its 95% interval."""
    mean = mean_of([[trajectory.episode_return for trajectory in trajectories]]).plain()
    return {"episodes": len(trajectories)} | {f"return_{name}": x for name, x in mean.items()}


def teaching_episodes(
    actor: Actor,
    pool: AnyPool,
    specs: Sequence[EpisodeSpec],
    n_envs: int,
    envs_per_worker: int,
    quiet: bool,
    who: str = "the teacher",
) -> list[Trajectory]:
    """Return episodes as an agent of version 0 would have played them. Raises TooManyFailuresError
    and StopRequested.

    n_envs: of the pool's workers together. who: what the progress bar calls the actor.
    """
    size = max(math.ceil(len(specs) / PROGRESS_STEPS), 2 * n_envs)
    trajectories: list[Trajectory] = []
    with pool, Progress(quiet, len(specs), "ep", desc=f"{who} plays") as bar:
        collector = AsyncCollector(pool, envs_per_worker)
        for first in range(0, len(specs), size):
            block = specs[first : first + size]
            trajectories += collector.collect(actor, block).trajectories
            bar.update(len(block))
    if (problem := what_is_not_finite(trajectories)) is not None:
        raise TooManyFailuresError(problem)
    if len(trajectories) < min(2, len(specs)):
        raise TooManyFailuresError("fewer than 2 of its episodes can be played")
    if isinstance(actor, Advised):
        trajectories = [actor.without(trajectory) for trajectory in trajectories]
    return [trajectory._replace(policy_version=0) for trajectory in trajectories]
