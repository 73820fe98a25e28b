"""Scores of a team on CAGE Challenge 4 by the challenge's own evaluation, and episodes to look at.

`protocol` plays the evaluation, `scoring` tells the scores, `selection` and `recipe` choose a team
of a run, `recording` and `replays` show an episode, `submission` is the folder to hand in.
"""
