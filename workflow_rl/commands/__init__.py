"""The command line: each command has a file of its name.

A command turns options into calls of the packages below, and shows each error in one line.

Begin with `main.py`, which finds the commands, and `train.py`, which both trainers run.
`options.py` makes an option of each field of a config. `options_by_env.py` looks for --env,
--preset and --algorithm first, because these decide which options there are. `one_line_errors.py`
is the base of all commands. `errors.py` gives the message and the exit code of a failed training.
"""
