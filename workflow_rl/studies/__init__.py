"""Studies of many runs: searches, populations, duels, and attackers against a frozen agent.

In: a `TrainConfig` and the settings of a study. Out: a folder with a run's folder for each policy.
A study calls `runs` and is imported for its own commands alone.

Begin with `search.py` (`tune`), `population.py` (`train-population`), `duel.py` (`train-duel`) and
`exploit.py`. `attackers.py` has what the last two share. `one_side.py` is the environment of one
side of a duel. `matrix_game.py` has the equilibria of tables of payoffs. `duel_dir.py` is the
folder of a duel. `policies_figure.py` has the pictures of several policies, `study_pages.py` the
page.
"""
