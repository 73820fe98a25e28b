"""A base class for a user's simulator that steps many teams in one call, and its BatchedEnv."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from workflow_rl.agents.team import ABSENT, ACTS, BUSY, CUT_OFF
from workflow_rl.environments.batched_env import BatchedEnv, Indices, Step, SteppedTogether, column
from workflow_rl.environments.environment import ENV
from workflow_rl.environments.flat_env import flat_space, require_not_old
from workflow_rl.environments.joint_env import joint_spaces, own_rewards
from workflow_rl.errors import ConfigError, ObservationError


class TeamStep(NamedTuple):
    """The result of `BatchedTeamEnv.step`: see that method."""

    obs: NDArray[Any]
    status: NDArray[Any]
    reward: NDArray[Any]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    costs: NDArray[Any] | None = None


class BatchedTeamEnv(SteppedTogether):
    """N environments of one kind, each with the same team of K agents. One call steps many.

    As for `BatchedEnv`, users name the class, and only its seed and its actions may decide an
    episode. M is the number of environments that a call names. D is the sum of the lengths of all
    agents' observations, and A the sum of their numbers of actions. Agents have the order of
    `observation_spaces`.

    A status says what an agent does next: ABSENT (it is not there), BUSY (it is there, but does not
    decide), ACTS (it decides), or CUT_OFF (it is truncated).
    """

    ABSENT, BUSY, ACTS, CUT_OFF = ABSENT, BUSY, ACTS, CUT_OFF

    observation_spaces: Mapping[str, spaces.Box]
    """Each agent's observations, of shape (D_k,). All have one dtype."""

    action_spaces: Mapping[str, spaces.Discrete]
    """Each agent's actions. They start at 0."""

    shared_reward: bool = False
    """Whether all agents share one reward."""

    state_space: spaces.Box | None = None
    """The states, of shape (S,), that central critics see instead of all agents' observations."""

    entities: Mapping[str, Mapping[str, Any]] | None = None
    """For `--network entities`: the tables of `agents.policies.entity_layout`, by agent, about the
    agent's own observation and actions."""

    @abstractmethod
    def reset(self, indices: Indices, seeds: Indices) -> tuple[NDArray[Any], NDArray[Any]]:
        """Begin an episode in each of M environments: see `BatchedEnv.reset`.

        Returns:
            The first observations [M, D], and each agent's status, integers [M, K].
        """

    @abstractmethod
    def step(self, indices: Indices, actions: NDArray[np.int64]) -> TeamStep:
        """Step each of M environments once: see `BatchedEnv.step`.

        Args:
            actions: int64 [M, K]. Ignore the action 0 of an agent that does not decide.

        Returns:
            obs: observations [M, D]. Observations of absent agents are not read.
            status: integers [M, K].
            reward: numbers [M] if the agents share a reward, otherwise [M, K].
            terminated: bool [M], whether the episode has reached a terminal state.
            truncated: bool [M], whether the episode was cut off, such as by a limit of steps. Then
                the agents that are there have the status CUT_OFF.
            costs: numbers [M, C] in the order of `costs`, only if the class names costs.
            The next call may overwrite all arrays.
        """

    def states(self, indices: Indices) -> NDArray[Any]:
        """Return the current states [M, S], if the class has a `state_space`."""
        raise NotImplementedError


class JointBatch(BatchedEnv):
    """Teams as a BatchedEnv: observations are joint rows, see `agents.team`, and actions [K].

    layout: the places of the parts of a row.

    Raises ConfigError for spaces, and ObservationError for answers, that break the contract.
    """

    def __init__(self, envs: BatchedTeamEnv, n_envs: int) -> None:
        observed, actions = envs.observation_spaces, envs.action_spaces
        if list(observed) != list(actions) or not observed:
            raise ConfigError(
                ENV, f"its agents are {list(observed)} by observations, {list(actions)} by actions"
            )
        dtypes = {space.dtype for space in observed.values()}
        if len(dtypes) > 1 or any(len(space.shape) != 1 for space in observed.values()):
            raise ConfigError(
                ENV, "the observation spaces of a BatchedTeamEnv are Boxes (D,) of one dtype"
            )
        for agent, space in actions.items():
            require_not_old(space, f"action space of {agent}:")
            if not isinstance(space, spaces.Discrete):
                raise ConfigError(
                    ENV, f"the action space {space} of {agent} is not supported: Discrete is"
                )
        if any(space.start != 0 for space in actions.values()):
            raise ConfigError(ENV, "the actions of a BatchedTeamEnv begin with 0")
        flat = {agent: flat_space(space) for agent, space in observed.items()}
        state = None if envs.state_space is None else flat_space(envs.state_space)
        self.layout, self.observation_space = joint_spaces(
            flat, actions, envs.shared_reward, state, envs.entities
        )
        self.action_space = spaces.MultiDiscrete(list(self.layout.n_actions))
        self._envs, self.costs = envs, envs.costs
        self._dtype: Any = self.observation_space.dtype
        self._sizes = np.array(self.layout.obs_sizes)
        self._n_actions = np.array(self.layout.n_actions)
        self._status = np.zeros((n_envs, self.layout.n_agents), np.uint8)
        self._withheld = np.zeros(self._status.shape)

    def show_exactly(self) -> None:
        """From now on, do not round rows to float32."""
        if self._dtype == np.float32:
            low, high = self.observation_space.low, self.observation_space.high
            self._dtype = np.dtype(np.longdouble)
            self.observation_space = spaces.Box(low, high, dtype=self._dtype.type)

    @property
    def offers_masks(self) -> bool:
        return self._envs.offers_masks

    def reset(self, indices: Indices, seeds: Indices) -> NDArray[Any]:
        self._withheld[indices] = 0.0
        obs, status = self._envs.reset(indices.copy(), seeds)
        return self._rows(indices, obs, status, np.zeros((len(indices), self.layout.n_agents)))

    def step(self, indices: Indices, actions: NDArray[Any]) -> Step:
        """Step M environments once. Rewards of absent agents are kept until the agents are back."""
        before = self._status[indices]
        decided = np.where(before == ACTS, actions, 0)
        answer = self._envs.step(indices.copy(), decided)
        obs, status, reward, terminated, truncated, costs = TeamStep(*answer)
        others = (terminated, truncated) if costs is None else (terminated, truncated, costs)
        if not self.layout.own_rewards:
            return self._rows(indices, obs, status, reward), reward, *others
        status = column("status", status, "biuf", decided.shape)
        owed = self._withheld[indices] + column("reward", reward, "biuf", decided.shape)
        is_paid = np.isin(before, (BUSY, ACTS)) | np.isin(status, (BUSY, ACTS))
        reward = np.where(is_paid, owed, 0.0)
        self._withheld[indices] = np.where(is_paid, 0.0, owed)
        rows = self._rows(indices, obs, status, reward)
        return rows, reward.sum(axis=1), *others

    def action_masks(self, indices: Indices) -> NDArray[Any]:
        """Return the masks. The masks of agents that do not decide allow all actions."""
        shape = len(indices), int(self._n_actions.sum())
        masks = column("the array of action masks", self._envs.action_masks(indices), "biuf", shape)
        decides = np.repeat(self._status[indices] == ACTS, self._n_actions, axis=1)
        return np.where(decides, masks, 1)

    def close(self) -> None:
        self._envs.close()

    def _rows(self, indices: Indices, obs: Any, status: Any, reward: Any) -> NDArray[Any]:
        m = len(indices)
        obs = column("the array of observations", obs, "biuf", (m, int(self._sizes.sum())))
        status = column("status", status, "biuf", (m, self.layout.n_agents))
        if not np.isin(status, _STATUSES).all():
            raise ObservationError(f"status holds {status.ravel()}, not numbers from 0 to 3")
        self._status[indices] = status
        is_absent = status == ABSENT
        if is_absent.any():
            obs = np.where(np.repeat(is_absent, self._sizes, axis=1), np.zeros(1, obs.dtype), obs)
        parts = [self._kept(obs), status]
        if self.layout.own_rewards:
            parts.append(own_rewards(reward))
        if self.layout.state_size:
            states = self._envs.states(indices)
            shape = m, self.layout.state_size
            parts.append(self._kept(column("the array of states", states, "biuf", shape)))
        return np.concatenate(parts, axis=1, dtype=self._dtype, casting="unsafe")

    def _kept(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """Return numbers in the rows' dtype. Raise ObservationError if they would change."""
        shown = numbers.astype(self._dtype)
        if self._dtype == np.uint8 and numbers.dtype != np.uint8 and (shown != numbers).any():
            raise ObservationError(f"an observation holds {numbers[shown != numbers][0]}")
        return shown


_STATUSES = (ABSENT, BUSY, ACTS, CUT_OFF)
