"""What acts and learns: trajectories, networks, PPO and scripted blue agents."""

if __name__ == "agents":
    raise ImportError("the learners are imported as workflow_rl.agents")
