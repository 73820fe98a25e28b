"""The workers' fork server imports this module if the workers play the compiled simulator.

The import compiles the simulator and Blue's belief, or loads their compiled code from disk. All
workers share the memory of this code."""

import gc

import workflow_rl.collection.worker  # noqa: F401
from workflow_rl.cage2.env.environment import Cage2

Cage2(observation="belief", actions="by-host").play_a_step()
gc.collect()
