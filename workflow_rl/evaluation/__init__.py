"""How good an agent is: scores with intervals, and verdicts on several agents.

An agent and its environment go in: nothing here knows a run's folder. Workers play seeded episodes.
The episodes' returns and measures come out.

Begin with `evaluate.py`: `score_agent` scores by the challenge's own rules, or by the mean return
(`ReturnScoring`). `intervals.py` computes the intervals of means. `measures.py` reads costs of
episodes. `compare.py` compares agents.
"""
