"""CAGE Challenge 4: its environment, simulators, scores and baselines."""
