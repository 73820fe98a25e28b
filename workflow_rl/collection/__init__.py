"""How trajectories come to be: envs, workers, and the two collectors."""
