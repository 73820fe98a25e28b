"""One side of an environment of several agents, against frozen agents of the other side."""

import copy
import dataclasses
import functools
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from workflow_rl.agents.policies.team_policy import TeamParameters, load_policy_or_team
from workflow_rl.environments.action_mask import begun, mask_in
from workflow_rl.environments.agent_player import Team
from workflow_rl.environments.challenge import NOTHING
from workflow_rl.environments.environment import ENV, OPPONENTS, weights_of
from workflow_rl.environments.flat_env import sampled, stepped
from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment
from workflow_rl.environments.joint_env import JointEnv, is_busy, is_idle
from workflow_rl.environments.making import single_env
from workflow_rl.errors import ConfigError, ObservationError

RANDOM = "random"
_DRAWS = 2**32 - 5
"""A part of seeds that separates the draws of opponents and actions from the environment's own."""


def text_of_weights(shares: Mapping[str, float]) -> str:
    """Return agents and weights in the form that `weights_of` reads. A weight is a whole number of
    thousandths. Agents with less than half a thousandth are left out.

    Raises ConfigError for an agent that could not be read back.
    """
    if apart := [agent for agent in shares if "," in agent]:
        told = f"{apart[0]} has a comma, which separates agents: choose another path"
        raise ConfigError(OPPONENTS, told)
    weights = {agent: round(1000 * share / sum(shares.values())) for agent, share in shares.items()}
    return ",".join(f"{agent}={weight}" for agent, weight in weights.items() if weight)


class SomeAgents:
    """Some agents of a ParallelEnv, with the attributes that JointEnv's constructor reads."""

    def __init__(self, env: Any, agents: Sequence[str]) -> None:
        self.env, self.possible_agents = env, list(agents)
        self.observation_space, self.action_space = env.observation_space, env.action_space
        tables = getattr(env, "entities", None)
        if isinstance(tables, Mapping) and set(agents) <= set(tables):
            self.entities = {agent: tables[agent] for agent in agents}


class _RandomTeam:
    """Chooses any of its agents' possible actions, all equally likely."""

    def __init__(self, action_space: Any) -> None:
        self._action_space = action_space

    def reset(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)

    def act(self, observations: Mapping[str, Any], infos: Mapping[str, Any]) -> dict[str, Any]:
        actions = {}
        for agent, obs in observations.items():
            space, mask = self._action_space(agent), mask_in(obs, infos.get(agent))
            if not isinstance(space, spaces.Discrete):
                space = copy.deepcopy(space)  # The environment's own space must not be seeded.
                space.seed(int(self._random.integers(2**31)))
                if not is_busy(agent, infos):
                    actions[agent] = sampled(
                        space, None if is_idle(obs, infos.get(agent)) else mask
                    )
                continue
            possible = np.flatnonzero(np.ones(space.n) if mask is None else mask)
            if not len(possible):
                possible = np.zeros(1, np.int64)
            if not is_busy(agent, infos):
                actions[agent] = int(space.start + self._random.choice(possible))
        return actions


class OneSide(SomeAgents):
    """The agents of one side of a ParallelEnv, as a ParallelEnv. Others play the other agents.

    An episode draws its opponents by its seed, or takes those that the reset's option `variant`
    names. They sample their actions from random numbers that follow from the same seed. Steps in
    which no agent of this side is there are part of the step before them.

    Args:
        env: "module:name" of the function or class that makes the whole environment.
        side: the names of this side's agents, separated by commas.
        opponents: policy files of teams of all other agents, or "random", with weights, such as
            "a.npz=2,b.npz=1".
        env_args: arguments of the whole environment.

    Raises ConfigError if the environment is no ParallelEnv, or a file does not fit.
    """

    def __init__(
        self, env: str, side: str, opponents: str = RANDOM, env_args: Mapping[str, Any] = NOTHING
    ) -> None:
        joint = single_env(GymnasiumEnvironment(env, env_args), {})
        if not isinstance(joint, JointEnv):
            raise ConfigError(ENV, f"{env} has no sides: it is no ParallelEnv")
        super().__init__(joint.env, side.split(","))
        others = [agent for agent in self.env.possible_agents if agent not in self.possible_agents]
        self._others = SomeAgents(self.env, others)
        weights = weights_of(opponents)
        self._names, self._shares = list(weights), np.array([*weights.values()])
        self._shares /= self._shares.sum()
        self._teams: dict[str, Team | _RandomTeam] = {RANDOM: _RandomTeam(self.action_space)}
        self._random = np.random.default_rng()

    @property
    def agents(self) -> list[str]:
        return [agent for agent in self.possible_agents if agent in self.env.agents]

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[Any, ...]:
        """Begin an episode. options: "variant" names the opponents."""
        if seed is not None:
            self._random = np.random.default_rng([seed, _DRAWS])
        drawn = self._names[self._random.choice(len(self._names), p=self._shares)]
        options = dict(options or {})
        file = options.pop("variant", drawn)
        if file not in self._teams:
            self._teams[file] = self._loaded(file)
        self._team = self._teams[file]
        self._team.reset(int(self._random.integers(2**32)))
        self._obs, self._infos = begun(self.env, seed=seed, options=options or None)
        while self._is_away():
            self._play({})
        return self._ours(self._obs), self._ours(self._infos)

    def step(self, actions: Mapping[str, int]) -> tuple[Any, ...]:
        """Step once, and on until an agent of this side is there. The other side acts on what it
        has seen at the same time."""
        obs, rewards, *others = self._play(actions)
        withheld: dict[str, float] = {}
        while self._is_away():
            ended = {agent for of in others[:2] for agent, flag in of.items() if flag}
            obs_then, rewards_then, *others_then = self._play({})
            for agent, more in rewards_then.items():
                of = withheld if agent in ended else rewards
                of[agent] = np.float64(of.get(agent, 0.0)) + more
            # An agent that is back has not ended.
            obs, *others = (
                {agent: x for agent, x in before.items() if agent not in self.agents} | then
                for before, then in zip([obs, *others], [obs_then, *others_then], strict=True)
            )
        for agent in [agent for agent in withheld if agent in self.agents]:
            rewards[agent] = withheld[agent] + rewards.get(agent, 0.0)
        return obs, rewards, *others

    def _is_away(self) -> bool:
        return bool(self.env.agents) and not self.agents

    def _play(self, actions: Mapping[str, int]) -> list[dict[str, Any]]:
        here = [agent for agent in self._others.possible_agents if agent in self.env.agents]
        theirs = self._team.act({agent: self._obs[agent] for agent in here}, self._infos)
        answer = stepped(self.env.step({**actions, **theirs}), "step")
        self._obs, self._infos = answer[0], answer[4]
        return [*map(self._ours, answer)]

    def _ours(self, by_agent: Any) -> dict[str, Any]:
        if not isinstance(by_agent, Mapping):
            raise ObservationError(f"an answer is {type(by_agent).__name__}, not a dict by agent")
        return {agent: of for agent, of in by_agent.items() if agent in self.possible_agents}

    def _loaded(self, file: str) -> Team:
        try:
            team = _policies_in(file, os.stat(file).st_mtime_ns)
        except (OSError, ValueError) as error:
            raise ConfigError(OPPONENTS, f"{file}: {error}") from None
        joint = JointEnv(self._others)
        if dataclasses.replace(joint.layout, masked=team.layout.masked) != team.layout:
            raise ConfigError(OPPONENTS, f"{file} is a policy of other agents")
        return Team(team.actor(), joint.rows)

    def close(self) -> None:
        if hasattr(self.env, "close"):
            self.env.close()


@functools.lru_cache(maxsize=256)
def _policies_in(file: str, written: int) -> TeamParameters:
    """Return the team in a file. written: when it was. The envs of a process share the arrays."""
    team, _ = load_policy_or_team(file)
    if not isinstance(team, TeamParameters):
        raise ValueError("it holds no team")
    return team
