"""CSLE's stopping game, as its defender plays it, with a configuration that needs no database.

CSLE stores the configurations of its environments in its management system. This is version 001 of
"stopping_pomdp_defender" in its repository, with 11 observations instead of 500. CSLE calls each
end of an episode a truncation, too.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from csle_common.dao.training.player_type import PlayerType
from csle_common.dao.training.random_policy import RandomPolicy
from gym_csle_stopping_game.dao.stopping_game_config import StoppingGameConfig
from gym_csle_stopping_game.dao.stopping_game_defender_pomdp_config import (
    StoppingGameDefenderPomdpConfig as StoppingConfig,
)
from gym_csle_stopping_game.util.stopping_game_util import StoppingGameUtil as Stopping


class Game(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A game of CSLE, in episodes of `max_steps`. It keeps no traces of them."""

    def __init__(self, env: gymnasium.Env[Any, Any], max_steps: int) -> None:
        super().__init__(env)
        self._max_steps = max_steps

    def reset(self, **options: Any) -> Any:
        self._steps = 0
        self.unwrapped.reset_traces()  # type: ignore[attr-defined]
        return self.env.reset(**options)

    def step(self, action: Any) -> Any:
        self._steps += 1
        obs, reward, ended, _, _ = self.env.step(action)
        return np.asarray(obs), float(reward), bool(ended), self._steps == self._max_steps, {}


def attacker(stages: list[list[float]]) -> RandomPolicy:
    return RandomPolicy(PlayerType.ATTACKER, [], stages)


def stopping(stops: int = 3, max_steps: int = 100) -> Game:
    """Return the game of optimal stopping: `stops` times the defender may stop an intruder."""
    pays = {"R_INT": -5, "R_COST": -5, "R_SLA": 1, "R_ST": 5}
    moves = Stopping.transition_tensor(stops)
    shown = Stopping.observation_space(10), Stopping.observation_tensor(10)
    rewards = Stopping.reward_tensor(L=stops, **pays)
    sets = Stopping.state_space(), Stopping.defender_actions(), Stopping.attacker_actions()
    rest = {"b1": Stopping.b1(), "save_dir": "", "checkpoint_traces_freq": 1, "save_trace": False}
    args = "csle-stopping-game-v1", moves, *shown, rewards, *sets, stops
    game = StoppingGameConfig(*args, **pays, **rest)
    name = "csle-stopping-game-pomdp-defender-v1"
    config = StoppingConfig(name, game, attacker([[0.9, 0.1]] * 3))
    return Game(gymnasium.make(name, config=config, disable_env_checker=True), max_steps)
