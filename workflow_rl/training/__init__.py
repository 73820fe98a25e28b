"""A run and what it leaves: the loop, its options and config, checkpoints, the run folder."""
