"""What acts and learns. No processes, no files of runs, no environments.

In: trajectories (`trajectory.py`). Out: policies, which act without torch (`policies/`).

Begin with `algorithm.py`, which says what an algorithm offers, then `ppo/agent.py`. `sac/` and
`mbpo/` learn from remembered steps (`replay.py`). `policies/network.py` describes a network once
for workers, the learner and files. `settings.py` is the base of every config, `team.py` the layout
of several agents in one row.
"""

if __name__ == "agents":
    raise ImportError("the learners are imported as workflow_rl.agents")
