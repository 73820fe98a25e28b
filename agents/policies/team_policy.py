"""A team's policies without torch, which choose joint actions in workers, and files of teams."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.distributions import Categorical, Choice
from workflow_rl.agents.policies.numpy_policy import NumpyPolicy, PolicyParameters
from workflow_rl.agents.policies.policy_file import load_file, unpacked
from workflow_rl.agents.team import ACTS, PolicyMap, TeamLayout, team_layout
from workflow_rl.errors import UserError


class TeamParameters(NamedTuple):
    """The values that determine a team's actions: the parameters of each policy, by its name."""

    layout: TeamLayout
    policies: PolicyMap
    parameters: dict[str, PolicyParameters]

    def fits(self) -> bool:
        """Return whether each agent has one policy, and the policy's network has the inputs and the
        outputs that the layout has for the agent."""
        numbers = [k for agents in self.policies.values() for k in agents]
        return (
            self.policies.keys() == self.parameters.keys()
            and all(type(k) is int for k in numbers)
            and sorted(numbers) == list(range(self.layout.n_agents))
            and all(self._fits(name, k) for name, agents in self.policies.items() for k in agents)
        )

    def _fits(self, policy: str, agent: int) -> bool:
        layout, parameters = self.layout, self.parameters[policy]
        network, actions = parameters.described(), layout.distributions[agent]
        n_inputs = layout.n_seen_by(agent, self.policies[policy])
        return (
            (network.n_inputs, network.n_outputs) == (n_inputs, actions.n_outputs)
            and (parameters.distribution or Categorical(network.n_outputs)) == actions
            and parameters.masked == (layout.masked and actions.takes_masks)
        )

    def actor(self, policy_version: int = 0, greedy: bool = False) -> TeamPolicy:
        return TeamPolicy(self, policy_version, greedy)

    def player(self, policy_version: int = 0, greedy: bool | None = None) -> TeamPolicy:
        if greedy is None:
            greedy = not any(policy.sampled for policy in self.parameters.values())
        return self.actor(policy_version, greedy)

    def to_be_sampled(self) -> TeamParameters:
        members = {name: policy.to_be_sampled() for name, policy in self.parameters.items()}
        return self._replace(parameters=members)

    def packed(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """See Parameters. `unpacked_policies` is the inverse."""
        members: dict[str, Any] = {}
        arrays: dict[str, Any] = {}
        for n, (name, policy) in enumerate(self.parameters.items()):
            members[name], member_arrays = policy.packed()
            arrays |= {f"{n}_{array}": values for array, values in member_arrays.items()}
        policies = {name: list(agents) for name, agents in self.policies.items()}
        return {"team": self.layout.to_plain(), "policies": policies, "members": members}, arrays


class TeamPolicy:
    """A `numpy_policy.Actor` on joint rows, which acts for all agents of a team.

    Each policy has one forward pass for all envs and all its agents. An agent that does not decide
    has action 0 and log-probability 0. Its network's state, if any, is not changed.
    """

    def __init__(self, parameters: TeamParameters, policy_version: int, greedy: bool) -> None:
        self.parameters = parameters
        self.policy_version = policy_version
        self.greedy = greedy
        self.masked = parameters.layout.masked
        self._actors = {
            name: NumpyPolicy(policy, policy_version, greedy)
            for name, policy in parameters.parameters.items()
        }
        self._randoms: dict[int, list[np.random.Generator]] = {}

    def __getstate__(self) -> dict[str, Any]:
        # The dictionary is copied, because another thread may begin an episode meanwhile.
        return {**vars(self), "_randoms": self._randoms.copy()}

    def reset(self, seed: int, env: int = 0, n_acted: int = 0) -> None:
        """Begin an episode. An agent's random numbers depend only on the seed and its number."""
        assert n_acted == 0, "a team plays complete episodes"
        agents = range(self.parameters.layout.n_agents)
        self._randoms[env] = [np.random.Generator(np.random.PCG64([seed, k])) for k in agents]
        for actor in self._actors.values():
            actor.forget(self._place(env, k) for k in agents)

    def _place(self, env: int, agent: int) -> int:
        """Return the key of an agent's network state in a policy."""
        return env * self.parameters.layout.n_agents + agent

    def act(self, obs: NDArray[Any], envs: Sequence[int] = (0,)) -> Choice:
        """Return joint actions [M, action_ends[-1]] and their log-probabilities, float32 [M, K]."""
        layout = self.parameters.layout
        obs = np.atleast_2d(obs)
        if obs.shape != (len(envs), layout.row_size):
            raise ValueError(f"rows of shape {obs.shape}, not ({len(envs)}, {layout.row_size})")
        acts = layout.status(obs) == ACTS
        actions = np.zeros((len(obs), layout.action_ends[-1]), layout.action_dtype)
        log_probs = np.zeros(acts.shape, np.float32)
        for name, agents in self.parameters.policies.items():
            rows = {k: np.flatnonzero(acts[:, k]) for k in agents}
            deciding = [(envs[row], k) for k in agents for row in rows[k].tolist()]
            if not deciding:
                continue
            places = [self._place(*place) for place in deciding]
            randoms = [self._randoms[env][k] for env, k in deciding]
            seen = np.concatenate([layout.seen_by(k, obs[rows[k]], agents) for k in agents])
            acting_agents = np.repeat(agents, [len(rows[k]) for k in agents])
            acting_rows = np.concatenate([rows[k] for k in agents])
            chosen, chosen_log_probs = self._actors[name].act_in(seen, places, randoms)
            log_probs[acting_rows, acting_agents] = chosen_log_probs
            chosen = chosen.reshape(len(acting_rows), -1)
            # An agent's actions are the last columns before its end.
            ends = np.array(layout.action_ends)[acting_agents]
            for n in range(chosen.shape[1]):
                actions[acting_rows, ends - chosen.shape[1] + n] = chosen[:, n]
        return actions, log_probs


def load_policy_or_team(
    path: str | os.PathLike[str], content: bytes | None = None
) -> tuple[PolicyParameters | TeamParameters, dict[str, Any]]:
    return load_file(path, unpacked_policies, content)


def unpacked_policies(
    settings: Mapping[str, Any], arrays: Mapping[str, Any], may_be_own: bool = False
) -> PolicyParameters | TeamParameters:
    """Return the policy or the team from a result of `packed`: see `policy_file.unpacked`."""
    if "team" not in settings:
        return unpacked(settings, arrays, may_be_own)
    members: dict[str, PolicyParameters] = {}
    n_arrays = 0
    for n, (name, member) in enumerate(settings["members"].items()):
        member_arrays = {
            array.removeprefix(f"{n}_"): values
            for array, values in arrays.items()
            if array.startswith(f"{n}_")
        }
        members[name] = unpacked(member, member_arrays, may_be_own)
        n_arrays += len(member_arrays)
    policies = {name: tuple(agents) for name, agents in settings["policies"].items()}
    team = TeamParameters(team_layout(settings["team"]), policies, members)
    is_known = not any(":" in member.network for member in members.values())
    if n_arrays != len(arrays) or (is_known and not team.fits()):
        raise UserError("its members are of another team")
    return team
