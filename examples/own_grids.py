"""MiniGrid's images without its texts.

python -m workflow_rl train-async --env examples.own_grids:grid --network cnn --total-steps 100000
"""

import gymnasium
import minigrid  # noqa: F401  # Registers the environments.
from minigrid.wrappers import DictObservationSpaceWrapper, ImgObsWrapper


def grid(env_id="MiniGrid-DoorKey-5x5-v0"):
    return ImgObsWrapper(gymnasium.make(env_id))


def grid_and_words(env_id="MiniGrid-DoorKey-5x5-v0"):
    """The image, the direction, and the words of the mission as numbers."""
    return DictObservationSpaceWrapper(gymnasium.make(env_id))
