"""gym-idsgame's Markov game as one of its two players.

gym-idsgame takes the actions of both players, and gives the rewards of both. The environment's id
names the player that plays by itself: an agent attacks in "idsgame-minimal_defense-v2", with masks
of the attacks that are possible, and defends in "idsgame-maximal_attack-v2".
"""

from __future__ import annotations

from typing import Any

import gym
import gym_idsgame  # noqa: F401 (registers its environments)
import numpy as np
from numpy.typing import NDArray


class Player:
    """The player that the environment of this id lacks, in episodes of `max_steps`."""

    def __init__(self, env: str = "idsgame-minimal_defense-v2", max_steps: int = 100) -> None:
        gym.logger.set_level(gym.logger.ERROR)  # It would advise newer versions: other games.
        self._env: Any = gym.make(env, disable_env_checker=True).unwrapped
        self._max_steps, self._side = max_steps, int("_attack-" in env)
        config = self._env.idsgame_config.game_config
        n_actions = (config.num_attack_actions, config.num_defense_actions)[self._side]
        self._actions = range(n_actions)
        self.action_space = gym.spaces.Discrete(n_actions)
        size = self._env.get_observation()[self._side].shape
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, size, np.float32)
        if self._side == 0:
            self.action_masks = self._legal_attacks

    def reset(self, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin a game. The process's random state, which the seed determines, decides it."""
        self._steps = 0
        self._env.reset()
        return self._shown(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._steps += 1
        both = (0, int(action)) if self._side else (int(action), 0)
        _, rewards, done, *_ = self._env.step(both)
        ended = self._steps == self._max_steps
        return self._shown(), float(rewards[self._side]), bool(done), ended, {}

    def _legal_attacks(self) -> NDArray[np.bool_]:
        return np.array([self._env.is_attack_legal(attack) for attack in self._actions], bool)

    def _shown(self) -> NDArray[np.float32]:
        return np.asarray(self._env.get_observation()[self._side], np.float32)
