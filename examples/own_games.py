"""Atari's games as four stacked grey pictures.

python -m workflow_rl train-async --env examples.own_games:game --network cnn --total-steps 1000000
"""

import ale_py
import gymnasium
from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation, TransformReward

gymnasium.register_envs(ale_py)


class QuickSeeds(gymnasium.Wrapper):
    """Without sticky actions a seed draws the idle actions alone: do not load the game anew."""

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self.unwrapped.seed_game(seed)
        return self.env.reset(options=options)


def game(env_id="ALE/Breakout-v5", whole=False):
    """A game that ends with the first life, of rewards -1, 0 and 1; or a whole one, of points."""
    env = gymnasium.make(env_id, frameskip=1, repeat_action_probability=0.0)
    env = AtariPreprocessing(QuickSeeds(env), terminal_on_life_loss=not whole)
    if not whole:
        env = TransformReward(env, lambda reward: float(reward > 0) - float(reward < 0))
    return FrameStackObservation(env, 4)
