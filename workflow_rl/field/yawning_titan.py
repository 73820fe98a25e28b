"""YAWNING-TITAN's networks and game modes, as its blue agent plays them."""

from __future__ import annotations

from yawning_titan.envs.generic.core.blue_interface import BlueInterface
from yawning_titan.envs.generic.core.network_interface import NetworkInterface
from yawning_titan.envs.generic.core.red_interface import RedInterface
from yawning_titan.envs.generic.generic_env import GenericNetworkEnv
from yawning_titan.game_modes.game_mode_db import GameModeDB, default_game_mode
from yawning_titan.networks.network_db import NetworkDB, default_18_node_network


def network_env(network: str = "", game_mode: str = "") -> GenericNetworkEnv:
    """Return the environment of a network and a game mode of YAWNING-TITAN's database.

    network, game_mode: their numbers there; "" for YAWNING-TITAN's defaults.
    """
    plays = NetworkInterface(
        game_mode=GameModeDB().get(game_mode) if game_mode else default_game_mode(),
        network=NetworkDB().get(network) if network else default_18_node_network(),
    )
    return GenericNetworkEnv(
        RedInterface(plays), BlueInterface(plays), plays, collect_additional_per_ts_data=False
    )
