"""CAGE Challenge 4 as users and trainings play it.

`arguments` are what a user chooses, `environment` is the Environment of a run, `team_envs` the envs
in which a blue team learns, `taught_envs` those with a teacher's advice, and `parallel_env` one env
with PettingZoo's interface. `red_environment` and `red_env_batch` are the same for Red's side.
Start with `environment`.
"""
