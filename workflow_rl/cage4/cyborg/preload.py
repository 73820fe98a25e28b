"""The workers' fork server imports this module if the workers play CybORG 4.

The module makes a simulator, which imports CybORG once, into memory that all workers share.
"""

import gc

import workflow_rl.collection.worker  # noqa: F401
from workflow_rl.cage4.cyborg.sped_up import SpedUpNetwork
from workflow_rl.cage4.scenario.scenario4 import MAX_STEPS, RED_AGENTS

SpedUpNetwork(RED_AGENTS[0], MAX_STEPS).reset(0)

gc.collect()
