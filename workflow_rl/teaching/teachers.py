"""Teachers, such as a user's function, the episodes that a teacher plays, and texts about them."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from workflow_rl.agents.policies.actors import Advised
from workflow_rl.agents.policies.distributions import Choice
from workflow_rl.agents.policies.numpy_policy import Actor, NumpyPolicy, Policy
from workflow_rl.agents.policies.team_policy import TeamPolicy
from workflow_rl.agents.spaces import Spaces
from workflow_rl.agents.team import ACTS, TeamLayout
from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.collection.async_collector import AsyncCollector
from workflow_rl.collection.messages import TooManyFailuresError
from workflow_rl.collection.pool import AnyPool
from workflow_rl.collection.rollout import what_is_not_finite
from workflow_rl.environments.action_mask import (
    choices_of,
    inner_spaces,
    without_mask,
    without_privileged,
)
from workflow_rl.environments.env_batch import EnvBatchFactory
from workflow_rl.environments.environment import Environment
from workflow_rl.environments.episode import EpisodeSpec
from workflow_rl.environments.flat_env import first_of
from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment
from workflow_rl.evaluation.intervals import Mean, mean_of
from workflow_rl.progress_bar import Progress

PROGRESS_STEPS = 10


class Teacher(NamedTuple):
    """An actor, and the factory of the envs that the actor plays in."""

    make_envs: EnvBatchFactory
    actor: Actor


def returns_in_words(told: Mapping[str, Any]) -> str:
    interval = math.nan if told["return_interval_95"] is None else told["return_interval_95"]
    return f"{Mean(told['return_mean'], interval).told(1)} in {told['episodes']} episodes"


def agreement_in_words(agreement: float | None) -> str:
    return "unknown" if agreement is None else f"{agreement:.1%}"


def plays_on(policy: Policy, spaces: Spaces) -> bool:
    """Return whether a policy can act on rows of an environment with these spaces."""
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
    """Return the number of episodes, and the mean return with its 95% interval."""
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
    """Return episodes of an actor, with policy version 0 and without advice. Raises
    TooManyFailuresError and StopRequested.

    n_envs: the number of all workers' envs. who: the actor's name on the progress bar.
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


class FunctionActor:
    """Plays by a user's function, or by a user's class, which makes an object for each episode.

    The function, or the objects' method `act`, takes an observation of the environment and returns
    an action of the environment. If the environment has masks, the mask is the second argument. If
    the objects have a method `reset`, it is called with the episode's seed. Inputs that only a
    critic sees are not passed. For a simulator or a guest, the observation is the row of numbers
    that policies see.

    n_seen: the size of an observation. masked: whether a row ends with a mask. observation: the
    space of observations, None for rows of numbers. action: the space of actions.
    """

    policy_version = 0

    def __init__(
        self,
        asked: Callable[..., Any],
        n_seen: int,
        masked: bool,
        observation: spaces.Space[Any] | None,
        action: spaces.Space[Any],
    ) -> None:
        self._asked, self._n_seen, self._masked = asked, n_seen, masked
        self._observation, self._action = observation, action
        self._acts: dict[int, Callable[..., Any]] = {}

    def reset(self, seed: int, env: int = 0, n_acted: int = 0) -> None:
        if isinstance(self._asked, type):
            player: Any = self._asked()
            if hasattr(player, "reset"):
                player.reset(seed)
            self._acts[env] = player.act

    def act(self, obs: NDArray[Any], envs: Sequence[int] = (0,)) -> Choice:
        """Return the actions for rows [M, D], and log-probabilities of 0."""
        actions = [self._chosen(row, env) for row, env in zip(obs, envs, strict=True)]
        return np.stack(actions), np.zeros(len(obs), np.float32)

    def _chosen(self, row: NDArray[Any], env: int) -> NDArray[Any]:
        seen: Any = row[: self._n_seen]
        if self._observation is not None:
            seen = spaces.unflatten(self._observation, seen)
        masks = [row[len(row) - sum(choices_of(self._action)) :] > 0] if self._masked else []
        return as_sampled(self._action, self._acts.get(env, self._asked)(seen, *masks))


class TeamOfFunctions:
    """Plays all agents of a team. Each agent has its own actor, with its own seed."""

    policy_version = 0

    def __init__(self, layout: TeamLayout, actors: Sequence[FunctionActor]) -> None:
        self._layout, self._actors = layout, actors

    def reset(self, seed: int, env: int = 0, n_acted: int = 0) -> None:
        for k, actor in enumerate(self._actors):
            actor.reset(seed + k, env)

    def act(self, obs: NDArray[Any], envs: Sequence[int] = (0,)) -> Choice:
        """Return joint actions for rows [M, row_size], and log-probabilities of 0."""
        layout = self._layout
        acts = layout.status(obs) == ACTS
        actions = np.zeros((len(obs), layout.action_ends[-1]), layout.action_dtype)
        for row, k in np.argwhere(acts).tolist():
            seen = layout.seen_by(k, obs[[row]], (k,))
            chosen = np.ravel(self._actors[k].act(seen, [envs[row]])[0])
            end = layout.action_ends[k]
            actions[row, end - len(chosen) : end] = chosen
        return actions, np.zeros(acts.shape, np.float32)


def actor_of(asked: Callable[..., Any], environment: Environment) -> Actor:
    """Return an actor that plays by a user's function or class: see `FunctionActor`. In a team,
    each agent plays by it."""
    declared = environment.spaces()
    layout = declared.team
    if layout is None:
        return FunctionActor(asked, declared.obs_dim, declared.masked, *spaces_of(environment))
    observed: list[spaces.Space[Any] | None] = [None] * layout.n_agents
    actions: Sequence[spaces.Space[Any]] = [*map(spaces.Discrete, layout.n_actions)]
    if isinstance(environment, GymnasiumEnvironment) and environment.facts.team is not None:
        observed = [*map(without_mask, environment.facts.team.values())]
        actions = inner_spaces(environment.facts.action)
    actors = []
    for k in range(layout.n_agents):
        masked = layout.masked and layout.mask_sizes[k] > 0
        actors.append(FunctionActor(asked, layout.obs_sizes[k], masked, observed[k], actions[k]))
    return TeamOfFunctions(layout, actors)


def spaces_of(
    environment: Environment,
) -> tuple[spaces.Space[Any] | None, spaces.Space[Any]]:
    """Return the space of an actor's observations, None for rows of numbers, and of actions."""
    declared = environment.spaces()
    if not isinstance(environment, GymnasiumEnvironment):
        return None, spaces.Discrete(declared.distribution.n_outputs)
    shown = without_privileged(environment.facts.observation)
    return without_mask(shown) if declared.masked else shown, environment.facts.action


def as_sampled(space: spaces.Space[Any], action: Any) -> NDArray[Any]:
    """Return an action of the environment in the form that policies sample. Raises ValueError."""
    try:
        chosen = np.concatenate([*_parts(space, action)])
    except (LookupError, TypeError, ValueError):
        raise ValueError(" ".join(f"{action!r:.80} is no action of {space}".split())) from None
    if isinstance(space, spaces.Discrete):
        return chosen.reshape(())
    return chosen if choices_of(space) else chosen.astype(np.float32)


def _parts(space: spaces.Space[Any], action: Any) -> Iterator[NDArray[Any]]:
    """Yield an action's choices, counted from 0, and its numbers. Raises ValueError, LookupError or
    TypeError."""
    if isinstance(space, spaces.Tuple | spaces.Dict):
        has_names, inner = isinstance(space, spaces.Dict), inner_spaces(space)
        if isinstance(action, Mapping) != has_names or len(action) != len(inner):
            raise ValueError
        given = [action[name] for name in space.spaces] if has_names else action
        for part, of in zip(inner, given, strict=True):
            yield from _parts(part, of)
        return
    numbers, chooses = np.asarray(action), bool(choices_of(space))
    typed = numbers.astype(space.dtype)
    if numbers.shape != space.shape or numbers.dtype.kind not in "biu" + "f" * (not chooses):
        raise ValueError
    if chooses and not (space.contains(typed) and (typed == numbers).all()):
        raise ValueError
    yield np.ravel((typed - first_of(space)).astype(np.int64) if chooses else typed)
