"""Workers on a Ray cluster, in the place of the processes of `collection.local_pool`.

Nothing here is imported before --cluster is given.

Begin with `ray_pool.py`: the pool whose workers are Ray actors. `ray_worker.py` is such an actor,
`ray_connection.py` the pool's side of it, and `cluster.py` starts or joins a cluster.
"""
