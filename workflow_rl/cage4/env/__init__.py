"""CAGE Challenge 4 as an environment for users and for training.

`arguments` has the user's choices, and `environment` has the Environment of a run. A blue team
learns in the envs of `team_envs`, or, with a teacher's advice, in the envs of `taught_envs`.
`parallel_env` is one env with PettingZoo's interface. `red_environment` and `red_env_batch` are for
a red team that learns. Start with `environment`.
"""
