"""The red agents of CAGE-2 that can be named."""

from workflow_rl.cage.attackers import Roster
from workflow_rl.cage2.scenario2 import RED_AGENTS

# Little can be learned against SleepAgent.
REDS = Roster(
    RED_AGENTS,
    {"mixed": ",".join(RED_AGENTS), "attackers": "B_lineAgent=8,RedMeanderAgent=11,SleepAgent=1"},
)
