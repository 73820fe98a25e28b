"""CSLE's games, as their defender plays them, with configurations that need no database.

CSLE stores the configurations of its environments in its management system. These are version 001
of "stopping_pomdp_defender" in its repository, with 11 observations instead of 500, and version 001
of "local_intrusion_response_pomdp_defender". CSLE calls each end of an episode a truncation, too.
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
    """Return the game of optimal stopping. The defender may stop an intruder `stops` times."""
    payoffs = {"R_INT": -5, "R_COST": -5, "R_SLA": 1, "R_ST": 5}
    observations = Stopping.observation_space(10), Stopping.observation_tensor(10)
    spaces = Stopping.state_space(), Stopping.defender_actions(), Stopping.attacker_actions()
    no_traces = {"save_dir": "", "checkpoint_traces_freq": 1, "save_trace": False}
    game = StoppingGameConfig(
        "csle-stopping-game-v1",
        Stopping.transition_tensor(stops),
        *observations,
        Stopping.reward_tensor(L=stops, **payoffs),
        *spaces,
        stops,
        b1=Stopping.b1(),
        **payoffs,
        **no_traces,
    )
    name = "csle-stopping-game-pomdp-defender-v1"
    config = StoppingConfig(name, game, attacker([[0.9, 0.1]] * 3))
    return Game(gymnasium.make(name, config=config, disable_env_checker=True), max_steps)


def intrusion_response(zones: int = 5, first: int = 3, max_steps: int = 100) -> Game:
    """Return the game of one node, which the defender moves from zone `first` to others."""
    # The other game does not need this package.
    from gym_csle_intrusion_response_game.dao import (
        intrusion_response_game_local_pomdp_defender_config as of_defender,
    )
    from gym_csle_intrusion_response_game.dao import local_intrusion_response_game_config as of_game
    from gym_csle_intrusion_response_game.util import intrusion_response_game_util

    Response = intrusion_response_game_util.IntrusionResponseGameUtil
    acts = Response.local_defender_actions(zones), Response.local_attacker_actions()
    states, seen = Response.local_state_space(zones), Response.local_observation_space(10)
    of_a, of_d = Response.local_attacker_state_space(), Response.local_defender_state_space(zones)
    places = Response.zones(zones)
    costs = Response.constant_defender_action_costs(acts[0], 1)
    worth = Response.constant_zone_utilities(places, 10)
    found = Response.constant_zone_detection_probabilities(places, 0.1)
    breaks = Response.local_attack_success_probabilities_uniform(0.3, acts[1])
    moves = np.array([Response.local_transition_tensor(found, breaks, states, *acts)])
    shown = np.array(Response.local_observation_tensor_betabinom(states, *acts, seen))
    pays = Response.local_reward_tensor(0.5, costs, True, worth, first, 10, states, *acts)
    begin = Response.local_initial_state_idx(first, states)
    believed = (
        Response.local_initial_defender_belief(of_a),
        Response.local_initial_attacker_belief(of_d, first),
    )
    name = "csle-intrusion-response-game-local-pomdp-defender-v1"
    sets, sizes = (states, of_a, of_d, begin, places, *acts), (costs, 0.5, breaks, found, worth)
    game = of_game.LocalIntrusionResponseGameConfig(
        name, moves, seen, shown, np.array([pays]), *sets, *believed, 1, 10, *sizes
    )
    stages = [[0.8, 0.2, 0.0, 0.0], [0.7, 0.0, 0.15, 0.15], [1.0, 0.0, 0.0, 0.0]]
    config = of_defender.IntrusionResponseGameLocalPOMDPDefenderConfig(name, game, attacker(stages))
    return Game(gymnasium.make(name, config=config, disable_env_checker=True), max_steps)
