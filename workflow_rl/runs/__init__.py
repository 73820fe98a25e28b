"""A training run, from the user's choices to its last checkpoint.

The fields of a `TrainConfig`, or the folder of a run to resume, go in. A run's folder comes out,
with its config, metrics, checkpoints and summary. This room also reads the folders of runs.

Begin with `config.py` (the choices), `resolve.py` (what follows from them), `resume.py` (the plan),
`execute.py`, and `loop.py`, whose `_loop` is the training loop. `learner.py` learns one policy. A
run writes its folder with `run_dir.py`, and `folder.py` reads folders. `checkpoint.py` is the file
that a resume continues from, `saved_agent.py` loads agents, and `several_policies.py` is a run of
several policies. `signature.py` says who wrote a file, and `trust.py` is `--trust`.
"""
