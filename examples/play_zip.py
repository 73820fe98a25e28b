"""Plays the zip that sb3_project.py saved.

python examples/sb3_project.py
python -m workflow_rl record examples.play_zip:act zip.npz --env CartPole-v1 --episodes 100
"""

import pickle
from pathlib import Path

from stable_baselines3 import PPO

model = PPO.load("cart_pole.zip", device="cpu")
statistics = pickle.loads(Path("cart_pole.pkl").read_bytes())


def act(observation):
    return model.predict(statistics.normalize_obs(observation), deterministic=True)[0]
