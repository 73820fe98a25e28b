"""A team: several agents in one environment. One row has the steps of all agents.

A row of observations has, in this order: each agent's observation; a status for each agent; each
agent's reward of the last step, if agents have their own rewards; the environment's state, if the
environment declares a state; each agent's mask of actions, if there are masks. A joint action has
the numbers of each agent's action. Imports no torch.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.distributions import Categorical, Distribution
from workflow_rl.agents.policies.entity_layout import TABLES, EntityLayout, declared
from workflow_rl.agents.policies.further_distributions import from_plain
from workflow_rl.agents.policies.network import MOST
from workflow_rl.agents.trajectory import Trajectory

ABSENT, BUSY, ACTS, CUT_OFF = 0, 1, 2, 3
"""An agent's status: it is not in the episode; it is there, but does not decide; it decides; it was
truncated, and the row has its last observation."""


@dataclass(frozen=True)
class TeamLayout:
    """The layout of a row.

    agents: all names. obs_sizes: the size of each agent's observation. n_actions: the number of
    outputs of each agent's distribution. distributions: one for each agent, Categorical by default.
    own_rewards: whether rows have a reward for each agent. Otherwise the agents share the step's
    reward. masked: whether rows have masks. state_size: the size of the environment's state.
    entities: for each agent, the tables of `entity_layout` for its observation and actions. Without
    entities, this is empty. Comparisons of layouts ignore entities, because a network keeps the
    tables of its training.

    Raises ValueError for tables that do not fit the agents.
    """

    agents: tuple[str, ...]
    obs_sizes: tuple[int, ...]
    n_actions: tuple[int, ...]
    own_rewards: bool = False
    masked: bool = False
    state_size: int = 0
    entities: tuple[Mapping[str, Any], ...] = field(default=(), compare=False)
    distributions: tuple[Distribution, ...] = ()

    def __post_init__(self) -> None:
        if not self.distributions:
            object.__setattr__(self, "distributions", tuple(map(Categorical, self.n_actions)))
        plain = []
        spaces = zip(self.agents, self.entities, self.obs_sizes, self.n_actions, strict=True)
        for agent, tables, obs_size, n_actions in spaces if self.entities else ():
            try:
                values = declared(tables, obs_size, n_actions).to_plain()
            except (ValueError, TypeError) as error:
                raise ValueError(f"{agent}: {error}") from None
            plain.append({name: values[name] for name in TABLES if name in values})
        object.__setattr__(self, "entities", tuple(plain))

    @functools.cached_property
    def mask_sizes(self) -> tuple[int, ...]:
        """The size of each agent's mask, or 0 if the agent's actions take no masks."""
        return tuple(of.takes_masks * of.n_outputs for of in self.distributions)

    @functools.cached_property
    def action_ends(self) -> tuple[int, ...]:
        """The end of each agent's numbers in a joint action."""
        return tuple(itertools.accumulate(of.n_numbers for of in self.distributions))

    @functools.cached_property
    def action_dtype(self) -> Any:
        """The dtype of joint actions: int64 if all actions are choices, otherwise float32."""
        all_choose = all(of.takes_masks for of in self.distributions)
        return np.int64 if all_choose else np.float32

    def action_of(self, agent: int, actions: Any) -> Any:
        """Return an agent's part of joint actions [M, action_ends[-1]]."""
        distribution, end = self.distributions[agent], self.action_ends[agent]
        return distribution.taken(actions[:, end - distribution.n_numbers : end])

    @property
    def n_agents(self) -> int:
        return len(self.agents)

    @property
    def obs_dim(self) -> int:
        """The numbers in a row without masks."""
        return sum(self.obs_sizes) + self.n_agents * (1 + self.own_rewards) + self.state_size

    @property
    def row_size(self) -> int:
        return self.obs_dim + self.masked * sum(self.mask_sizes)

    def status(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return the status of each agent [M, K] in rows [M, row_size]."""
        first = sum(self.obs_sizes)
        return rows[:, first : first + self.n_agents]

    def rewards(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return the agents' rewards of the last step [M, K], if agents have their own rewards."""
        first = sum(self.obs_sizes) + self.n_agents
        return rows[:, first : first + self.n_agents]

    def own_returns(self, trajectories: Sequence[Trajectory]) -> NDArray[np.float64]:
        """Return the sum of each agent's rewards [N, K] in N trajectories, if agents have their own
        rewards."""
        # The next row has the rewards of a step.
        after = [np.vstack([joint.obs[1:], joint.last_obs]) for joint in trajectories]
        totals = [self.rewards(rows).sum(axis=0, dtype=np.float64) for rows in after]
        return np.array(totals).reshape(-1, self.n_agents)

    def state(self, rows: NDArray[Any]) -> NDArray[Any]:
        return rows[:, self.obs_dim - self.state_size : self.obs_dim]

    def central(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return a central critic's inputs [M, central_size]: the environment's state if it is
        declared, otherwise the observations and the status of all agents."""
        return self.state(rows) if self.state_size else rows[:, : self.central_size]

    @property
    def central_size(self) -> int:
        return self.state_size or sum(self.obs_sizes) + self.n_agents

    def n_seen_by(self, agent: int, others: Sequence[int]) -> int:
        """Return the size of the result of `seen_by` for an actor without its mask."""
        return self.obs_sizes[agent] + len(others) * (len(others) > 1)

    def entities_seen_by(self, agent: int, others: Sequence[int]) -> EntityLayout | None:
        """Return the layout of entities in an actor's inputs, or None without entities."""
        if not self.entities:
            return None
        return EntityLayout(self.n_seen_by(agent, others), self.entities[agent])

    def seen_by(
        self, agent: int, rows: NDArray[Any], others: Sequence[int], central: bool = False
    ) -> NDArray[Any]:
        """Return a policy's inputs for an agent from rows [M, row_size]: the agent's observation, a
        one-hot agent number if several agents share the policy, then the agent's mask, if any.

        others: all agents that share the policy, including this agent. central: whether a central
        critic's inputs come before the mask.
        """
        end = sum(self.obs_sizes[: agent + 1])
        parts = [rows[:, end - self.obs_sizes[agent] : end]]
        if len(others) > 1:
            which = np.array([other == agent for other in others], rows.dtype)
            parts.append(np.broadcast_to(which, (len(rows), len(others))))
        if central:
            parts.append(self.central(rows))
        if self.masked:
            end = self.obs_dim + sum(self.mask_sizes[: agent + 1])
            parts.append(rows[:, end - self.mask_sizes[agent] : end])
        return np.concatenate(parts, axis=1)

    def to_plain(self) -> dict[str, Any]:
        values = {part.name: getattr(self, part.name) for part in fields(self)}
        values["distributions"] = [of.to_plain() for of in self.distributions]
        return {name: list(v) if type(v) is tuple else v for name, v in values.items()}


PolicyMap = Mapping[str, tuple[int, ...]]
"""The numbers of each policy's agents, by policy name."""


def policy_map(layout: TeamLayout, policy_of: str) -> PolicyMap:
    """Return the agents of each policy.

    policy_of: rules such as "blue_agent_4=headquarters,*=zone". The first rule that fits an agent's
    name counts. Agents without a rule share a policy if their spaces and entities are equal. Raises
    ValueError.
    """
    rules = [rule.strip().split("=") for rule in policy_of.split(",") if rule.strip()]
    if wrong := [rule for rule in rules if len(rule) != 2 or not all(rule)]:
        raise ValueError(f"{'='.join(wrong[0])!r} is not agent=policy")
    unnamed = list(layout.agents)
    for pattern, name in rules:
        of_rule = [agent for agent in layout.agents if fnmatchcase(agent, pattern)]
        if not of_rule:
            raise ValueError(f"{pattern} fits none of the agents {', '.join(layout.agents)}")
        if not set(of_rule) & set(unnamed):
            raise ValueError(
                f"{pattern}={name} comes too late: earlier rules fit {', '.join(of_rule)}, and the "
                "first rule counts"
            )
        unnamed = [agent for agent in unnamed if agent not in of_rule]
    entities = layout.entities or [None] * layout.n_agents
    spaces = list(zip(layout.obs_sizes, layout.distributions, entities, strict=True))
    found: dict[str, tuple[int, ...]] = {}
    for k, agent in enumerate(layout.agents):
        fitting = (policy for pattern, policy in rules if fnmatchcase(agent, pattern))
        policy = next(fitting, layout.agents[spaces.index(spaces[k])])
        found[policy] = (*found.get(policy, ()), k)
    for policy, of in found.items():
        for k in of:
            if spaces[k] != spaces[of[0]]:
                raise ValueError(
                    f"{layout.agents[of[0]]} and {layout.agents[k]} cannot share the policy "
                    f"{policy}: their spaces{' or entities' * bool(layout.entities)} differ"
                )
    return found


def split(
    joint: Trajectory,
    layout: TeamLayout,
    policies: PolicyMap,
    discount: float,
    central: bool = False,
) -> Iterator[tuple[str, Trajectory]]:
    """Yield the policy's name and a trajectory for each agent that acted.

    Steps without an agent's decision belong to its previous decision. Their rewards and shared
    costs are added, discounted by the time since the decision, and `durations` counts the steps
    (Sutton et al. 1999, semi-Markov decisions). Rewards before an agent's first decision belong to
    no decision.
    This includes steps in which an agent is absent, if it comes back. If an agent does not come
    back, its trajectory ends when it leaves: as `truncated` if it was cut off, otherwise as
    `terminated`. Its own later rewards are added too. central: see `TeamLayout.seen_by`.
    """
    rows = np.concatenate([joint.obs, joint.last_obs[None]])
    status = layout.status(rows)
    rewards = layout.rewards(rows)[1:].astype(np.float64) if layout.own_rewards else None
    for policy, of in policies.items():
        for k in of:
            decided = np.flatnonzero(status[:-1, k] == ACTS)
            if not len(decided):
                continue
            is_there = np.isin(status[:, k], (BUSY, ACTS))
            end = min(int(np.flatnonzero(is_there)[-1]) + 1, joint.length)
            seen = layout.seen_by(k, rows, of, central)
            durations = np.diff(np.append(decided, end))
            # An agent that has left may still get its own rewards.
            earned = joint.reward[:end] if rewards is None else rewards[:, k]
            steps = np.arange(decided[0], len(earned))
            since = steps - np.repeat(decided, np.diff(np.append(decided, len(earned))))
            reward = earned[steps] * discount**since
            costs = None
            if joint.costs is not None:
                steps = np.arange(decided[0], end)
                since = steps - np.repeat(decided, durations)
                discounted = joint.costs[steps] * discount ** since[:, None]
                costs = np.add.reduceat(discounted, decided - decided[0])
            here = status[end, k] != CUT_OFF and joint.terminated
            terminated = bool(here or status[end, k] == ABSENT)
            yield (
                policy,
                joint._replace(
                    obs=seen[decided],
                    action=layout.action_of(k, joint.action[decided]),
                    log_prob=joint.log_prob[decided, k],
                    reward=np.add.reduceat(reward, decided - decided[0]),
                    last_obs=seen[end],
                    terminated=terminated,
                    truncated=not terminated,
                    durations=durations,
                    costs=costs,
                ),
            )


def team_layout(values: Mapping[str, Any]) -> TeamLayout:
    """Return the layout from a result of `to_plain`. Raises TypeError or ValueError."""
    plain: dict[str, Any] = {n: tuple(v) if type(v) is list else v for n, v in values.items()}
    plain["distributions"] = tuple(map(from_plain, plain.get("distributions", ())))
    layout = TeamLayout(**plain)
    names, sizes = layout.agents, (*layout.obs_sizes, *layout.n_actions)
    flags = layout.own_rewards, layout.masked
    if not (
        0 < len(names) == len(set(names)) == len(layout.obs_sizes) == len(layout.n_actions)
        and all(type(name) is str for name in names)
        and all(type(size) is int and size > 0 for size in sizes)
        and all(type(flag) is bool for flag in flags)
        and type(layout.state_size) is int
        and layout.state_size >= 0
        and layout.row_size <= MOST
        and layout.n_actions == tuple(of.n_outputs for of in layout.distributions)
    ):
        raise TypeError("it describes no team")
    return layout
