"""How trajectories are made: weights go in, complete episodes or unrolls come out.

Nothing here learns, and nothing that workers import loads torch.

Begin with `player.py`: the loop that plays episodes. `worker.py` runs this loop in a process.
`pool.py` has deadlines, failures and restarts, and `local_pool.py` has the processes. The two ways
of collecting are `sync_collector.py` and `async_collector.py`, which return a `rollout.py`.
`assignments.py` gives episodes to workers. `schedule.py` says when to collect.
"""
