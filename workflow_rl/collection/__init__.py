"""How trajectories come to be: workers, pools, the two collectors and the schedules."""
