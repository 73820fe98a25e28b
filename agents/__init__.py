"""Agents: how they act and learn. This room has no processes, files of runs or environments.

In: trajectories (`trajectory.py`). Out: policies, which act without torch (`policies/`).

Read first `algorithm.py`, the interface of an algorithm, then `ppo/agent.py`. `sac/` and `mbpo/`
learn from remembered steps (`replay.py`). `policies/network.py` describes networks for workers, the
learner and files. `settings.py` is the base of every config, and `team.py` is the layout of several
agents in one row.
"""

if __name__ == "agents":
    raise ImportError("the learners are imported as workflow_rl.agents")
