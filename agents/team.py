"""A team: several agents in one environment, whose steps stand in one row.

A row of observations is, in this order: each agent's observation; a status for each agent; each
agent's reward of the last step, if the agents have rewards of their own; the environment's state,
if it declares one; each agent's mask of actions, if there are masks. A joint action has a number
for each agent. Imports no torch.
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
"""An agent's status: it is not there; it is there and decides nothing; it decides; it shows what it
saw when it was truncated."""


@dataclass(frozen=True)
class TeamLayout:
    """Where the parts of a row stand.

    agents: all names. obs_sizes, n_actions: by agent, the numbers that it sees and the outputs of
    its distribution over actions. distributions: by agent; by default each is Categorical.
    own_rewards: whether rows hold a reward for each agent; otherwise the agents share the reward of
    the step. masked: whether rows hold masks. state_size: numbers of the environment's state.
    entities: for each agent the tables of `entity_layout`, about the agent's own observation and
    actions; empty if there are none. Layouts that differ in them alone are equal: a network keeps
    the tables that it learned with.

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
        """The numbers of each agent's mask; 0 for agents whose actions take none."""
        return tuple(of.takes_masks * of.n_outputs for of in self.distributions)

    @functools.cached_property
    def action_ends(self) -> tuple[int, ...]:
        """Where each agent's numbers end in a joint action."""
        return tuple(itertools.accumulate(of.n_numbers for of in self.distributions))

    @functools.cached_property
    def action_dtype(self) -> Any:
        """The dtype of joint actions: int64 if all agents choose, else float32."""
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
        """Numbers in a row, without the masks."""
        return sum(self.obs_sizes) + self.n_agents * (1 + self.own_rewards) + self.state_size

    @property
    def row_size(self) -> int:
        return self.obs_dim + self.masked * sum(self.mask_sizes)

    def status(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return the status of each agent [M, K] in rows [M, row_size]."""
        first = sum(self.obs_sizes)
        return rows[:, first : first + self.n_agents]

    def rewards(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return the rewards of the last step [M, K], if agents have rewards of their own."""
        first = sum(self.obs_sizes) + self.n_agents
        return rows[:, first : first + self.n_agents]

    def own_returns(self, trajectories: Sequence[Trajectory]) -> NDArray[np.float64]:
        """Return the sum of each agent's rewards [N, K] in N trajectories, if agents have rewards
        of their own."""
        # The rewards of a step stand in the row after it.
        after = [np.vstack([joint.obs[1:], joint.last_obs]) for joint in trajectories]
        totals = [self.rewards(rows).sum(axis=0, dtype=np.float64) for rows in after]
        return np.array(totals).reshape(-1, self.n_agents)

    def state(self, rows: NDArray[Any]) -> NDArray[Any]:
        return rows[:, self.obs_dim - self.state_size : self.obs_dim]

    def central(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return what a central critic sees [M, central_size]: the environment's state, or all
        agents' observations and status if it declares none."""
        return self.state(rows) if self.state_size else rows[:, : self.central_size]

    @property
    def central_size(self) -> int:
        return self.state_size or sum(self.obs_sizes) + self.n_agents

    def n_seen_by(self, agent: int, others: Sequence[int]) -> int:
        """Return the numbers that `seen_by` returns for an actor, without its mask."""
        return self.obs_sizes[agent] + len(others) * (len(others) > 1)

    def entities_seen_by(self, agent: int, others: Sequence[int]) -> EntityLayout | None:
        """Return the entities in these numbers; None if none are declared."""
        if not self.entities:
            return None
        return EntityLayout(self.n_seen_by(agent, others), self.entities[agent])

    def seen_by(
        self, agent: int, rows: NDArray[Any], others: Sequence[int], central: bool = False
    ) -> NDArray[Any]:
        """Return what an agent's policy sees of rows [M, row_size]: the agent's observation, which
        of the agents it is if several share the policy, then the agent's mask if there are masks.

        others: all agents that share the policy, this agent too. central: whether what a central
        critic sees stands before the mask.
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
"""The agents of each policy, by the policy's name."""


def policy_map(layout: TeamLayout, policy_of: str) -> PolicyMap:
    """Return which agents each policy acts for.

    policy_of: rules such as "blue_agent_4=headquarters,*=zone", of which the first that fits an
    agent's name counts. Agents of the same spaces and entities whom no rule fits share a policy.
    Raises ValueError.
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
    """Yield a trajectory for each agent that acted, with the name of the agent's policy.

    The steps at which an agent does not decide join its decision before: their rewards are added,
    each discounted by the time since the decision, and `durations` counts the steps (Sutton et al.
    1999, semi-Markov decisions). So are the costs, which all agents share. Rewards before an
    agent's first decision belong to no decision.
    The steps without an agent that comes back count as such steps, too. The trajectory of an agent
    that leaves for good ends there: an agent that was cut off has `truncated`, an absent one
    `terminated`, and later rewards of its own are added, too. central: see `TeamLayout.seen_by`.
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
            # Who has left without an end of its own may be paid still.
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
    """Return the layout that `to_plain` gave. Raises TypeError or ValueError for what is none."""
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
