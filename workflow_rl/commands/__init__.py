"""The command line: a file for each command, of the command's name.

A command turns options into a call of the rooms below, and their errors into one line.

Begin with `main.py`, which finds the commands, and `train.py`, which both trainers run.
`options.py` makes an option of each field of a config. `options_by_env.py` looks for --env,
--preset and --algorithm first, because these decide which options there are. `one_line_errors.py`
is the base of all commands. `errors.py` tells how a command ends that does not come to its end.
"""
