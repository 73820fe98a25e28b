"""A trained team that plays: what `load_agent` returns for an environment of several agents."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from gymnasium.spaces import Box, MultiDiscrete, Space

from workflow_rl.agents.policies.team_policy import TeamPolicy
from workflow_rl.agents.team import ABSENT, ACTS, BUSY
from workflow_rl.environments.action_mask import ReadMask, mask_reader, naming_the_mask
from workflow_rl.environments.environment import ENV, Environment, InvalidEnvironmentError
from workflow_rl.environments.flat_env import Unflatten, flattener
from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment
from workflow_rl.environments.joint_env import JointEnv, TeamRows, first_action, is_busy, is_idle
from workflow_rl.errors import ObservationError

NOTHING: Mapping[str, Any] = MappingProxyType({})


class Team:
    """A trained team that plays one episode after another: each thread has to load its own.

    Args:
        policy: acts on joint rows.
        rows: makes the rows.
        unflatten: see `JointEnv`.
        read_masks: checks the masks of all agents; None if the policy takes no masks.
    """

    def __init__(
        self,
        policy: TeamPolicy,
        rows: TeamRows,
        unflatten: Mapping[str, Unflatten],
        read_masks: ReadMask | None,
    ) -> None:
        self.policy = policy
        self.agents = policy.parameters.layout.agents
        self._rows = rows
        self._unflatten = unflatten
        self._read_masks = read_masks
        rows.has_masks = read_masks is not None
        self.reset()

    def reset(self, seed: int = 0) -> None:
        """Begin an episode, whose random choices, if it makes any, follow from `seed`."""
        self.policy.reset(seed)

    def act(
        self, observations: Mapping[str, Any], infos: Mapping[str, Any] = NOTHING
    ) -> dict[str, Any]:
        """Return the action of each agent that has an observation and is not busy. If the
        team learned with masks, an agent whose mask rules out all actions takes its first one.

        infos: as `reset` and `step` of a ParallelEnv return them. `infos[agent]["busy_steps"]`
        above 0 says that an agent is busy. `infos[agent]["action_mask"]`, or the entry of an
        observation, is the agent's mask.

        Raises ObservationError for what is not of its space, for an agent that the team does not
        have, and for missing masks if the team learned with masks.
        """
        if unknown := [agent for agent in observations if agent not in self.agents]:
            raise ObservationError(f"{unknown[0]} is not of this team: {', '.join(self.agents)}")
        status = [
            ABSENT if agent not in observations else BUSY if is_busy(agent, infos) else ACTS
            for agent in self.agents
        ]
        idle = [
            agent
            for agent, now in zip(self.agents, status, strict=True)
            if self._read_masks is not None
            and now == ACTS
            and is_idle(observations[agent], infos.get(agent))
        ]
        status = [
            BUSY if agent in idle else now for agent, now in zip(self.agents, status, strict=True)
        ]
        row = self._rows.row(observations, status)
        if self._read_masks is not None:
            masks = self._rows.masks(observations, infos, status)
            if masks is None:
                raise ObservationError(
                    "the team learned with masks of actions: give act the infos too"
                )
            with naming_the_mask():
                row = np.append(row, self._read_masks(masks).astype(row.dtype))
        actions, _ = self.policy.act(row[None])
        layout = self.policy.parameters.layout
        decided = [k for k, now in enumerate(status) if now == ACTS]
        return {
            self.agents[k]: self._unflatten[self.agents[k]](layout.action_of(k, actions)[0])
            for k in decided
        } | {agent: first_action(layout, agent, self._unflatten) for agent in idle}


def team_of(policy: TeamPolicy, environment: Environment) -> Team:
    """Return the team that plays in an environment.

    The observations of a simulator's or a guest's agents are numbers [D_k] as they are. Raises
    InvalidEnvironmentError if the environment has another team, or cannot be made.
    """
    layout = policy.parameters.layout
    if environment.spaces().team != layout:
        raise InvalidEnvironmentError(ENV, f"{environment.env_id} has another team")
    if not isinstance(environment, GymnasiumEnvironment):
        environment.actor_on_observations(policy)
    flatten = {
        agent: flattener(Box(-np.inf, np.inf, (size,)), None, agent)
        for agent, size in zip(layout.agents, layout.obs_sizes, strict=True)
    }
    rows = TeamRows(layout, flatten, np.float32)
    unflatten: dict[str, Unflatten] = dict.fromkeys(layout.agents, int)
    actions: Space[Any] = MultiDiscrete(list(layout.n_actions))
    if isinstance(environment, GymnasiumEnvironment) and environment.facts.team is not None:
        joint = JointEnv(environment.facts.team)
        rows, unflatten, actions = joint.rows, joint.unflatten, joint.masked_actions
    return Team(policy, rows, unflatten, mask_reader(actions) if policy.masked else None)
