"""How good an agent is: scores with intervals, and verdicts on several agents.

An agent and its environment go in: nothing here knows a run's folder. Out come the returns of
seeded episodes, in worker processes, and what they say of the agent.

Begin with `evaluate.py`: `score_agent` scores by the challenge's own rules, or by the mean return
(`ReturnScoring`). `intervals.py` says how far a mean may be off. `compare.py` sets agents side by
side.
"""
