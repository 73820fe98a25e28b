"""The red agents of CAGE-4 that can be named."""

from workflow_rl.cage.attackers import Roster
from workflow_rl.cage4.scenario4 import RED_AGENTS

REDS = Roster(RED_AGENTS, takes_classes=False)
