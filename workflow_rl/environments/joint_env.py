"""A team of a PettingZoo ParallelEnv or AECEnv as one Gymnasium environment: see `agents.team`."""

import itertools
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from workflow_rl.agents.policies.distributions import Distribution
from workflow_rl.agents.policies.entity_layout import are_tables
from workflow_rl.agents.team import ABSENT, ACTS, BUSY, CUT_OFF, TeamLayout
from workflow_rl.environments.action_mask import (
    MASK,
    begun,
    choices_of,
    flat_mask,
    mask_in,
    privileged_space,
    require_choices,
    without_mask,
)
from workflow_rl.environments.answers import COSTS, as_flag, as_reward, of_a_team, parallel
from workflow_rl.environments.environment import ENV
from workflow_rl.environments.flat_env import (
    distribution_over,
    flat_space,
    flattener,
    require_not_old,
    stepped,
    unflattener,
)
from workflow_rl.errors import ConfigError, ObservationError

LONGEST_NAME = 200


def require_names(agents: Sequence[Any]) -> None:
    """Raise ConfigError for names of agents that files and tables cannot hold."""
    is_text = all(
        type(agent) is str and 0 < len(agent) <= LONGEST_NAME and agent.isprintable()
        for agent in agents
    )
    if not is_text or not 0 < len(set(agents)) == len(agents):
        raise ConfigError(
            ENV,
            f"its agents are {agents!r:.200}: name each by another printable text of up to "
            f"{LONGEST_NAME} characters, such as 'agent_0'",
        )


def joint_spaces(
    observed: Mapping[str, spaces.Box],
    actions: Mapping[str, spaces.Space[Any]],
    shared_reward: bool,
    state: spaces.Box | None = None,
    entities: Any = None,
) -> tuple[TeamLayout, spaces.Box]:
    """Return the layout of a row, and the space of rows.

    observed: the spaces of flat observations, by agent. actions: the spaces of actions, by agent.
    state: the space of flat states, or None. entities: the environment's attribute `entities`.

    Raise ConfigError for actions that are not supported, for names of agents that files
    and tables cannot hold, and for entities that do not fit the agents.
    """
    require_names(list(actions))
    for agent, space in actions.items():
        require_not_old(space, f"action space of {agent}:")
    flat = list(observed.values())
    distributions: tuple[Distribution, ...] = tuple(map(distribution_over, actions.values()))
    n_actions = tuple(of.n_outputs for of in distributions)
    sizes = tuple(int(space.shape[0]) for space in flat)
    states = [] if state is None else [state]
    state_size = sum(int(space.shape[0]) for space in states)
    own_rewards, tables = not shared_reward, _tables_of(tuple(observed), entities)
    try:
        layout = TeamLayout(
            *(tuple(observed), sizes, n_actions, own_rewards, False, state_size, tables),
            distributions=distributions,
        )
    except ValueError as error:
        raise ConfigError(ENV, str(error)) from None
    is_small = shared_reward and all(space.dtype == np.uint8 for space in [*flat, *states])
    dtype: Any = np.uint8 if is_small else np.float32
    # An absent agent shows zeros.
    k = len(flat)
    low = [np.minimum(space.low, 0) for space in flat] + [np.zeros(k)]
    high = [np.maximum(space.high, 0) for space in flat] + [np.full(k, CUT_OFF)]
    if layout.own_rewards:
        low, high = [*low, np.full(k, -np.inf)], [*high, np.full(k, np.inf)]
    low, high = low + [space.low for space in states], high + [space.high for space in states]
    bounds = np.concatenate(low).astype(dtype), np.concatenate(high).astype(dtype)
    return layout, spaces.Box(*bounds, dtype=dtype)


def _tables_of(agents: tuple[str, ...], entities: Any) -> tuple[Mapping[str, Any], ...]:
    """Return each agent's tables of entities, or nothing. Raise ConfigError.

    entities: tables by agent. Other environments use this attribute for objects on their map.
    """
    if not isinstance(entities, Mapping) or not any(map(are_tables, entities.values())):
        return ()
    if set(entities) != set(agents):
        raise ConfigError(
            ENV, f"entities: it has tables for {', '.join(map(str, entities))}, and its agents "
            f"are {', '.join(agents)}"
        )  # fmt: skip
    return tuple(entities[agent] for agent in agents)


def own_rewards(paid: Any) -> NDArray[np.float32]:
    """Return agents' rewards as float32. Raise ObservationError if float32 cannot hold a reward."""
    try:
        with np.errstate(over="raise"):
            return np.asarray(paid).astype(np.float32)
    except FloatingPointError:
        raise ObservationError(f"float32 cannot hold the agents' rewards {paid}") from None


class TeamRows:
    """Makes rows, see `agents.team`, from agents' observations, and splits joint actions.

    observed: the spaces of observations, by agent. actions: the spaces of actions, by agent. dtype:
    the rows' dtype. flat_dtype: the dtype of flat observations; None: see `flat_space`.
    masked_actions: see `maskable`. has_masks: whether a mask has been seen so far.
    """

    def __init__(
        self,
        layout: TeamLayout,
        observed: Mapping[str, spaces.Space[Any]],
        actions: Mapping[str, spaces.Space[Any]],
        dtype: Any,
        flat_dtype: Any = None,
    ) -> None:
        self._layout = layout
        self._flatten = {
            agent: flattener(without_mask(space), flat_dtype, agent)
            for agent, space in observed.items()
        }
        self._unflatten = {agent: unflattener(space) for agent, space in actions.items()}
        self._dtype = dtype
        self._ends = np.cumsum(layout.obs_sizes).tolist()
        self.masked_actions = spaces.Tuple(
            [space for space in actions.values() if choices_of(space)]
        )
        self.has_masks = False

    def row(
        self,
        seen: Mapping[str, Any],
        status: Sequence[int],
        rewards: Mapping[str, float] = MappingProxyType({}),
    ) -> NDArray[Any]:
        """Return a row without masks [obs_dim]. seen: observations of the agents that are there.

        Raises ObservationError for an observation that is not in its space.
        """
        layout = self._layout
        row = np.zeros(layout.obs_dim, self._dtype)
        for agent, size, end in zip(layout.agents, layout.obs_sizes, self._ends, strict=True):
            if agent in seen:
                row[end - size : end] = self._flatten[agent](_without_mask(seen[agent]))
        layout.status(row[None])[:] = status
        if layout.own_rewards:
            paid = [rewards.get(agent, 0.0) for agent in layout.agents]
            layout.rewards(row[None])[:] = own_rewards(paid)
        return row

    def masks(
        self, obs: Mapping[str, Any], infos: Mapping[str, Any], status: Sequence[int]
    ) -> NDArray[Any] | None:
        """Return the masks of all agents [A], ones for agents that do not decide. If no agent has a
        mask, return None, or all ones if no agent decides and the team has masks."""
        layout = self._layout
        sizes = layout.mask_sizes
        masks = [
            mask_in(obs.get(agent), infos.get(agent, {})) if size else None
            for agent, size in zip(layout.agents, sizes, strict=True)
        ]
        if all(mask is None for mask in masks):
            return None if ACTS in status or not self.has_masks else np.ones(sum(sizes))
        self.has_masks = True
        masks = [None if mask is None else flat_mask(mask) for mask in masks]
        for agent, mask, n in zip(layout.agents, masks, sizes, strict=True):
            if mask is not None and mask.shape != (n,):
                raise ObservationError(
                    f"the action mask of {agent} has shape {mask.shape}, not ({n},)"
                )
        parts = zip(masks, status, sizes, strict=True)
        return np.concatenate(
            [np.ones(n) if mask is None or now != ACTS else mask for mask, now, n in parts]
        )

    def action(self, agent: str, joint: NDArray[Any]) -> Any:
        number = self._layout.agents.index(agent)
        return self._unflatten[agent](self._layout.action_of(number, joint[None])[0])

    def first_action(self, agent: str) -> Any:
        """Return the action of an agent whose mask forbids all actions."""
        return self.action(agent, np.zeros(self._layout.action_ends[-1], self._layout.action_dtype))


def _without_mask(obs: Any) -> Any:
    if not isinstance(obs, Mapping) or MASK not in obs:
        return obs
    return {name: part for name, part in obs.items() if name != MASK}


def is_busy(agent: str, infos: Mapping[str, Any]) -> bool:
    """Return whether an agent does not decide in this step by its info, and gets no action."""
    return bool((infos.get(agent) or {}).get("busy_steps", 0))


def is_idle(obs: Any, info: Any) -> bool:
    """Return whether an agent does not decide in this step, because its mask forbids all actions.
    The environment gets the agent's first action."""
    mask = mask_in(obs, info)
    return mask is not None and not np.any(flat_mask(mask))


class JointEnv(gymnasium.Env[NDArray[Any], Any]):
    """Several agents as one: a row of observations, and a tuple of actions.

    An agent decides if it is in `agents`, is not busy by `infos[agent]["busy_steps"]`, and has no
    mask that forbids all actions. An agent whose mask forbids all actions takes its first action.
    Other agents' actions are not passed to the environment. The reward is the sum of the agents'
    rewards, or their common reward if the environment has `shared_reward`. A reward after an
    agent's end is kept until the agent is back. The episode ends when no agent is left. A cost is
    the sum of all agents' costs with this name.

    masks: whether masks count. layout: the places of the parts of a row. rows: makes the rows.
    masked_actions: see `maskable`.

    Raises ConfigError for spaces that are not supported. `reset` and `step` raise ObservationError
    if an agent's observation or reward is missing, also a truncated agent's last observation, or if
    agents that ended stay in `agents`.
    """

    def __init__(self, env: Any, masks: bool = True) -> None:
        self.env = env = parallel(env)
        self._masks = masks
        self._agents: list[str] = list(env.possible_agents)
        require_names(self._agents)
        actions = {agent: env.action_space(agent) for agent in self._agents}
        shown = {agent: without_mask(env.observation_space(agent)) for agent in self._agents}
        if any(privileged_space(space) is not None for space in shown.values()):
            raise ConfigError(ENV, "a team takes no privileged_obs: leave the entry out")
        flat = {agent: flat_space(space) for agent, space in shown.items()}
        self._spaces = shown, actions
        self._shares_reward = bool(getattr(env, "shared_reward", False))
        # PettingZoo's class has a method `state` for all environments, but few have a space.
        state_space = getattr(env, "state_space", None)
        self._flatten_state = None if state_space is None else flattener(state_space)
        self.layout, self.observation_space = joint_spaces(
            flat,
            actions,
            self._shares_reward,
            None if state_space is None else flat_space(state_space),
            getattr(env, "entities", None),
        )
        self.rows = TeamRows(self.layout, *self._spaces, self.observation_space.dtype)
        self.action_space = spaces.Tuple(list(actions.values()))
        self.masked_actions = self.rows.masked_actions
        self._status: list[int] = []
        self._ended: set[str] = set()
        self._withheld: dict[str, float] = {}
        self._idle: set[str] = set()

    def show_exactly(self) -> None:
        """From now on, do not round rows to float32."""
        exact = np.dtype(np.longdouble)
        self.rows = TeamRows(self.layout, *self._spaces, exact, exact)
        if self._flatten_state is not None:
            self._flatten_state = flattener(self.env.state_space, exact)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        super().reset(seed=seed)
        self._ended.clear()
        self._withheld.clear()
        obs, infos = begun(self.env, seed=seed, options=options)
        self._require_by_agent(observation=obs, info=infos)
        return self._shown(obs, {}, {}, {}, infos)

    def handed(self, action: Any) -> dict[str, Any]:
        decided = zip(self._agents, action, self._status, strict=True)
        actions = {agent: chosen for agent, chosen, status in decided if status == ACTS}
        return actions | {agent: self.rows.first_action(agent) for agent in self._idle}

    def step(self, action: Any) -> tuple[NDArray[Any], float, bool, bool, dict[str, Any]]:
        """Step once. The episode is truncated if any of the last agents was truncated."""
        actions = self.handed(action)
        answer = stepped(self.env.step(actions), "step")
        obs, rewards, terminations, truncations, infos = answer
        ends = {"terminated": terminations, "truncated": truncations}
        self._require_by_agent(observation=obs, reward=rewards, info=infos, **ends)
        rewards = {agent: as_reward(of, "the reward of", agent) for agent, of in rewards.items()}
        terminations, truncations = (
            {agent: as_flag(flag, name, "of", agent) for agent, flag in flags.items()}
            for name, flags in ends.items()
        )
        unpaid = [] if self._shares_reward and rewards else [a for a in actions if a not in rewards]
        if unpaid:
            raise ObservationError(f"step gave no reward for {', '.join(unpaid)}, who acted")
        ending = {agent for of in (terminations, truncations) for agent in of if of[agent]}
        if self.env.agents and ending.issuperset(self.env.agents):
            raise ObservationError(
                f"{', '.join(self.env.agents)} terminated or were truncated, and are still in "
                "`agents`: take them out, since an episode ends when no agent is left"
            )
        given = list(rewards.values())
        for agent in [agent for agent in rewards if agent in self._ended]:
            self._withheld[agent] = self._withheld.get(agent, 0.0) + rewards.pop(agent)
        for agent in [agent for agent in self._withheld if agent in self.env.agents]:
            rewards[agent] = rewards.get(agent, 0.0) + self._withheld.pop(agent)
        reward = given[0] if self._shares_reward and given else float(sum(rewards.values()))
        self._ended |= ending
        self._ended -= {*self.env.agents}
        row, info = self._shown(obs, rewards, terminations, truncations, infos)
        if costs := of_a_team(infos):
            info[COSTS] = costs
        ended = not self.env.agents
        truncated = ended and any(truncations.values())
        return row, reward, ended and not truncated, truncated, info

    def _require_by_agent(self, **answers: Any) -> None:
        """Raise ObservationError for answers that are not by agent, or are of unknown agents."""
        for name, by_agent in answers.items():
            if not isinstance(by_agent, Mapping):
                kind = type(by_agent).__name__
                raise ObservationError(f"each agent's {name} is given as {kind}, not as a dict")
        for agent in {*self.env.agents, *itertools.chain(*answers.values())} - {*self._agents}:
            raise ObservationError(f"{agent!r:.80} is not in `possible_agents`")

    def _shown(
        self, obs: Any, rewards: Any, terminations: Any, truncations: Any, infos: Any
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        if unseen := [agent for agent in self.env.agents if agent not in obs]:
            raise ObservationError(f"no observation of {', '.join(unseen)}, who is in `agents`")
        for agent, status in zip(self._agents, self._status, strict=False):
            is_cut_off = truncations.get(agent, False) and not terminations.get(agent, False)
            if is_cut_off and status in (ACTS, BUSY) and agent not in obs:
                raise ObservationError(
                    f"no observation of {agent}, who was truncated: give its last "
                    "observation, by which the rest of the episode is valued"
                )
        # An environment may still give observations of agents that have ended.
        gone = self._ended - {agent for agent, flag in truncations.items() if flag}
        gone |= {agent for agent, flag in terminations.items() if flag}
        seen = {agent: obs[agent] for agent in obs if agent not in gone}
        self._status = [
            self._status_of(agent, agent in seen, truncations, infos) for agent in self._agents
        ]
        self._idle = set()
        for k, agent in enumerate(self._agents if self._masks else ()):
            takes_none = not self.layout.mask_sizes[k]
            if takes_none and agent in seen and mask_in(obs[agent], infos.get(agent)) is not None:
                require_choices(self.env.action_space(agent), f"{agent}'s")
            if self._status[k] == ACTS and is_idle(obs[agent], infos.get(agent)):
                self._idle.add(agent)
                self._status[k] = BUSY
        masks = self.rows.masks(obs, infos, self._status)
        row = self.rows.row(seen, self._status, rewards)
        # After an end, no value is needed, and some environments have no state.
        if self._flatten_state is not None and (self.env.agents or any(truncations.values())):
            self.layout.state(row[None])[:] = self._flatten_state(self.env.state())
        return row, {} if masks is None else {MASK: masks}

    def _status_of(self, agent: str, is_seen: bool, truncations: Any, infos: Any) -> int:
        if not is_seen:
            return ABSENT
        if truncations.get(agent, False):
            return CUT_OFF
        return BUSY if agent not in self.env.agents or is_busy(agent, infos) else ACTS

    def close(self) -> None:
        if hasattr(self.env, "close"):
            self.env.close()
