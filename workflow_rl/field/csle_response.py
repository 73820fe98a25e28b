"""CSLE's game of intrusion response, as its defender plays it.

The configuration is version 001 of "local_intrusion_response_pomdp_defender" in CSLE's repository.
"""

from __future__ import annotations

import gymnasium
import numpy as np
from gym_csle_intrusion_response_game.dao import (
    intrusion_response_game_local_pomdp_defender_config as of_defender,
)
from gym_csle_intrusion_response_game.dao import local_intrusion_response_game_config as of_game
from gym_csle_intrusion_response_game.util import intrusion_response_game_util

from workflow_rl.field.csle import Game, attacker

Response = intrusion_response_game_util.IntrusionResponseGameUtil


def intrusion_response(zones: int = 5, first: int = 3, max_steps: int = 100) -> Game:
    """Return the game of one node, which the defender moves from zone `first` to others."""
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
