"""Episodes of others that a new agent copies: files of them, datasets, and who teaches.

A recorder's trajectories go in, and a file comes out; or the other way round.

Begin with `episode_files.py`, the package's own format. `minari_datasets.py` writes and reads those
of Minari. `teachers.py` says who teaches, a user's function among them. In the room above,
`runs/copy_teacher.py` plays what is recorded, and has a run's agent copy what was recorded.
"""
