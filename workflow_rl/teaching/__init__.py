"""Episodes of teachers, which a new agent copies: files of episodes, datasets, and teachers.

Trajectories go in, and a file comes out; or a file goes in, and trajectories come out.

Begin with `episode_files.py`, the package's own format. `minari_datasets.py` writes and reads
Minari's datasets. `teachers.py` has the teachers, such as a user's function. In the room above,
`runs/copy_teacher.py` plays the episodes to record, and trains a run's agent on recorded episodes.
"""
