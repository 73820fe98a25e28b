"""Scores of a team on CAGE Challenge 4 by the challenge's own evaluation, and episodes to look at.

`protocol` plays the evaluation, and `scoring` reports the scores. `selection` chooses the best team
of a run. `recording` and `replays` show an episode. `submission` writes the folder to hand in.
"""
