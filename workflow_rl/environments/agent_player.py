"""What `load_agent` returns: a trained agent that plays, or a team of several agents."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space, iterate
from numpy.typing import NDArray

from workflow_rl.agents.policies.actors import WatchedPolicy, probabilities, watch_policy
from workflow_rl.agents.policies.distributions import Categorical
from workflow_rl.agents.policies.further_distributions import MultiCategorical
from workflow_rl.agents.policies.numpy_policy import Actor
from workflow_rl.agents.policies.team_policy import TeamPolicy
from workflow_rl.agents.team import ABSENT, ACTS, BUSY
from workflow_rl.environments.action_mask import (
    MASK,
    inner_spaces,
    mask_in,
    mask_reader,
    without_mask,
)
from workflow_rl.environments.challenge import NOTHING
from workflow_rl.environments.environment import ENV, Environment
from workflow_rl.environments.flat_env import Flatten, Unflatten, flattener, unflattener
from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment
from workflow_rl.environments.joint_env import TeamRows, is_busy, is_idle
from workflow_rl.errors import ConfigError, ObservationError

Critic: TypeAlias = Callable[[NDArray[Any]], NDArray[np.float64]]
"""Returns the values [N] of observations [N, D], which are the policy's inputs."""


class Decided(NamedTuple):
    """How an agent decided.

    action: an action of the environment. probabilities: the probability of each action, float64
    [A]; a list of arrays for an action of several choices. None for an action of real numbers, and
    for an action that the policy did not choose, such as a fixed opening. value: the discounted
    return that the critic expects, in the environment's own rewards; None without a critic.
    """

    action: Any
    probabilities: NDArray[np.float64] | list[NDArray[np.float64]] | None
    value: float | None


class Agent:
    """A trained agent that plays one episode after another. Each thread must load its own agent.
    `load_agent` makes one.

    Args:
        make_actor: makes an actor on flat observations. With True, it chooses the likeliest action.
        greedy: the argument of `make_actor` with which the agent plays.
        space: the space of observations; None if observations are flat already.
        actions: the space of actions; None if actions are the policy's numbers.
        masked: whether the policy takes the environment's masks.
        critic: returns the policy's critic, or None.
    """

    def __init__(
        self,
        make_actor: Callable[[bool], Actor],
        greedy: bool,
        space: spaces.Space[Any] | None = None,
        actions: spaces.Space[Any] | None = None,
        masked: bool = False,
        critic: Callable[[], Critic | None] = lambda: None,
    ) -> None:
        self.greedy = greedy
        self.policy = make_actor(greedy)
        self._make_actor = make_actor
        self._space = space
        self._flatten: Flatten = np.asarray
        if space is not None:
            self._flatten = flattener(without_mask(space) if masked else space)
        self._unflatten: Unflatten = int if actions is None else unflattener(actions)
        self._read_mask = mask_reader(actions) if actions is not None and masked else None
        self._find_critic = critic
        self._critic: Critic | None = None
        self._watched: WatchedPolicy | None = None
        self._actors = {greedy: self.policy}
        # Pairs of `greedy` and an env's number. Env 0 needs no first reset.
        self._begun = {(greedy, 0)}
        self._seed = 0

    def reset(self, seed: int = 0) -> None:
        """Begin an episode, whose random choices, if it makes any, follow from `seed`."""
        self._seed = seed
        self.policy.reset(seed)
        self._begun = {(self.greedy, 0)}

    def act(self, observation: Any, action_mask: Any = None, order: str | None = None) -> Any:
        """Return an action of the environment for one of its observations. Raises ValueError for an
        observation that is not in the environment's space, and for a wrong order.

        action_mask: `info["action_mask"]`, if the agent learned with masks in the info. A mask in
        the observation is found automatically. order: only for an agent that repairs groups in an
        order: the order from now on, such as "servers,users".
        """
        if order is not None:
            if not hasattr(self.policy, "ask"):
                raise ValueError("this agent takes no order")
            self.policy.ask(order=order)
        action, _ = self.policy.act(self._row(observation, action_mask)[None])
        return self._unflatten(action[0])

    def decide(self, observation: Any, action_mask: Any = None) -> Decided:
        """Act as `act` does, and return how the agent decided."""
        if self._watched is None:
            self.policy, self._watched = watch_policy(self.policy)
            self._actors[self.greedy] = self.policy
            self._critic = self._find_critic()
        policy, meant = self._watched, getattr(self.policy, "meant", None)
        actions = None if meant is None else meant()
        policy.obs = policy.outputs = None
        action = self.act(observation, action_mask)
        if policy.obs is None or policy.outputs is None:
            return Decided(action, None, None)
        value = None if self._critic is None else float(self._critic(policy.obs)[0])
        distribution = policy.policy.distribution
        if isinstance(distribution, MultiCategorical):
            parts = [probabilities(policy.outputs[:, part]) for part in distribution.outputs]
            return Decided(action, parts, value)
        if not isinstance(distribution, Categorical):
            return Decided(action, None, value)
        shares = probabilities(policy.outputs)
        if actions is not None:
            shares = np.bincount(actions, shares, self.policy.n_actions)
        return Decided(action, shares, value)

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Sequence[bool] | NDArray[np.bool_] | None = None,
        deterministic: bool | None = None,
        action_masks: Any = None,
    ) -> tuple[Any, Any]:
        """Return actions and the state, as models of Stable-Baselines3 do for its
        `evaluate_policy`.

        observation: of one environment, or of several in one array (or a Dict of arrays). state: is
        returned unchanged, because the agent itself remembers each environment's episode.
        episode_start: in which environments an episode begins. None: in new environments.
        deterministic: choose the likeliest actions, or sample actions; None: as the agent plays.
        action_masks: the masks of all environments, if the agent learned with masks in the info.
        """
        greedy = self.greedy if deterministic is None else bool(deterministic)
        if greedy not in self._actors:
            self._actors[greedy] = self._make_actor(greedy)
        actor, several = self._actors[greedy], self._several(observation)
        observations = [observation] if several is None else several
        masks = [None] * len(observations) if action_masks is None else np.atleast_2d(action_masks)
        rows = np.stack(list(map(self._row, observations, masks)))
        begins = np.zeros(len(rows)) if episode_start is None else np.atleast_1d(episode_start)
        for env in range(len(rows)):
            if begins[env] or (greedy, env) not in self._begun:
                self._seed += 1
                actor.reset(self._seed, env)
                self._begun.add((greedy, env))
        chosen, _ = actor.act(rows, range(len(rows)))
        actions = [self._unflatten(action) for action in chosen]
        if isinstance(actions[0], tuple | dict):
            return (actions[0] if several is None else actions), state
        return (np.asarray(actions[0]) if several is None else np.stack(actions)), state

    def _row(self, observation: Any, action_mask: Any) -> NDArray[Any]:
        obs = self._flatten(observation)
        if not np.isfinite(obs).all():
            raise ObservationError(f"the observation holds {obs[~np.isfinite(obs)][0]}")
        if self._read_mask is None:
            if action_mask is not None:
                warnings.warn("the agent learned without masks, and heeds none", stacklevel=3)
            return obs
        mask = mask_in(observation, {MASK: action_mask})
        if mask is None:
            raise ObservationError(
                "the agent learned with masks of actions: give act the action_mask too"
            )
        return np.append(obs, self._read_mask(mask).astype(obs.dtype))

    def _several(self, observation: Any) -> list[Any] | None:
        """Return a list of the environments' observations; None for one environment."""
        if self._space is None:
            return list(observation) if np.ndim(observation) > 1 else None
        space, part = self._space, observation
        while isinstance(space, spaces.Dict | spaces.Tuple):
            name: Any = next(iter(space.spaces)) if isinstance(space, spaces.Dict) else 0
            space, part = space.spaces[name], part[name]
        if np.ndim(part) == len(space.shape or ()):
            return None
        return list(iterate(batch_space(self._space, len(part)), observation))


class Team:
    """A trained team that plays one episode after another. Each thread must load its own team.

    Args:
        policy: acts on joint rows.
        rows: makes the rows, and the agents' actions.
    """

    def __init__(self, policy: TeamPolicy, rows: TeamRows) -> None:
        self.policy = policy
        self.agents = policy.parameters.layout.agents
        self._rows = rows
        self._read_masks = mask_reader(rows.masked_actions) if policy.masked else None
        rows.has_masks = policy.masked
        self.reset()

    def reset(self, seed: int = 0) -> None:
        """Begin an episode, whose random choices, if it makes any, follow from `seed`."""
        self.policy.reset(seed)

    def act(
        self, observations: Mapping[str, Any], infos: Mapping[str, Any] = NOTHING
    ) -> dict[str, Any]:
        """Return the action of each agent that has an observation and is not busy. If the team
        learned with masks, an agent whose mask forbids all actions takes its first action.

        infos: the infos of a ParallelEnv. If `infos[agent]["busy_steps"]` is above 0, the agent is
        busy. `infos[agent]["action_mask"]`, or the entry of an observation, is the agent's mask.

        Raises ObservationError for an observation that is not in its space, for an unknown agent,
        and for missing masks if the team learned with masks.
        """
        if unknown := [agent for agent in observations if agent not in self.agents]:
            raise ObservationError(f"{unknown[0]} is not of this team: {', '.join(self.agents)}")
        status: dict[str, int] = dict.fromkeys(self.agents, ABSENT)
        idle = []
        for agent, obs in observations.items():
            status[agent] = BUSY if is_busy(agent, infos) else ACTS
            takes_masks = self._read_masks is not None and status[agent] == ACTS
            if takes_masks and is_idle(obs, infos.get(agent)):
                status[agent] = BUSY
                idle.append(agent)
        rows, statuses = self._rows, [*status.values()]
        row = rows.row(observations, statuses)
        if self._read_masks is not None:
            masks = rows.masks(observations, infos, statuses)
            if masks is None:
                raise ObservationError(
                    "the team learned with masks of actions: give act the infos too"
                )
            row = np.append(row, self._read_masks(masks).astype(row.dtype))
        joint = self.policy.act(row[None])[0][0]
        decided = [agent for agent, now in status.items() if now == ACTS]
        return {agent: rows.action(agent, joint) for agent in decided} | {
            agent: rows.first_action(agent) for agent in idle
        }


def team_of(policy: TeamPolicy, environment: Environment) -> Team:
    """Return the team that plays in an environment.

    In a simulator or a guest, agent k's observation is already an array of numbers [D_k]. Raises
    ConfigError if the environment has another team, or cannot be made.
    """
    layout = policy.parameters.layout
    if environment.spaces().team != layout:
        raise ConfigError(ENV, f"{environment.env_id} has another team")
    if isinstance(environment, GymnasiumEnvironment):
        if (observed := environment.facts.team) is not None:
            joint = environment.facts
            actions = dict(zip(layout.agents, inner_spaces(joint.action), strict=True))
            return Team(policy, TeamRows(layout, observed, actions, joint.observation.dtype))
    else:
        environment.actor_on_observations(policy)
    numbers = [spaces.Box(-np.inf, np.inf, (size,)) for size in layout.obs_sizes]
    shown = dict(zip(layout.agents, numbers, strict=True))
    chosen = dict(zip(layout.agents, map(spaces.Discrete, layout.n_actions), strict=True))
    return Team(policy, TeamRows(layout, shown, chosen, np.float32))
