"""A training run, from what was asked of it to its last checkpoint.

In: the fields of a `TrainConfig`, or the folder of a run to resume. Out: a run's folder, with its
config, metrics, checkpoints and summary, and what reads such a folder.

Begin with `config.py` (what is asked), `resolve.py` (what follows from it), `resume.py` (the plan),
`execute.py`, and `loop.py`, whose `_loop` is the training loop. `learner.py` learns one policy. A
run writes its folder by `run_dir.py`, and others read that by `folder.py`. `checkpoint.py` is the
file to go on from, `saved_agent.py` loads what plays, and `several_policies.py` is a run of several
policies. `signature.py` says whose file it is, and `trust.py` is `--trust`.
"""
