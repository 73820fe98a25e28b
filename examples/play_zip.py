"""Plays the zip that sb3_project.py saved: record examples.play_zip:act zip.npz."""

import pickle
from pathlib import Path

from stable_baselines3 import PPO

model = PPO.load("cart_pole.zip", device="cpu")
statistics = pickle.loads(Path("cart_pole.pkl").read_bytes())


def act(observation):
    return model.predict(statistics.normalize_obs(observation), deterministic=True)[0]
