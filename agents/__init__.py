"""What acts and learns: trajectories, networks, PPO and scripted blue agents."""
