"""The environments of CAGE-2: for workers, for Gymnasium and for Stable-Baselines3."""
