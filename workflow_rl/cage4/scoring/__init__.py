"""Scores on CAGE Challenge 4 by the challenge's own evaluation, and what is made of them.

A team comes in. `protocol` plays the evaluation's episodes, `scoring` tells the scores, `selection`
and `recipe` choose among the teams of a run, `recording` and `replays` show an episode, and
`submission` is the folder to hand in. Start with `protocol`.
"""
