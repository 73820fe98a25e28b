"""How trajectories come to be: weights go in, complete episodes or unrolls come out.

Nothing here learns, and nothing that workers import loads torch.

Begin with `player.py`: the loop that plays episodes. `worker.py` runs it in a process; `pool.py`
holds deadlines, failures and restarts, and `local_pool.py` the processes. `sync_collector.py` and
`async_collector.py` are the two ways of collecting; `assignments.py` says who plays what.
`schedule.py` says when to collect. `rollout.py` is what they return.
"""
