"""CAGE-2 as an environment: for workers, Gymnasium and Stable-Baselines3."""
