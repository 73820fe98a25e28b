"""The workers' fork server imports this module if the workers play the compiled simulator.

The import compiles the simulator or loads it from disk, once, into memory that workers share."""

import gc

import workflow_rl.collection.worker  # noqa: F401
from workflow_rl.cage4.compiled.simulator import CompiledSimulator
from workflow_rl.cage4.scenario.scenario4 import MAX_STEPS, RED_AGENTS, SLEEP_ACTIONS

_simulator = CompiledSimulator(RED_AGENTS[0], MAX_STEPS)
_simulator.reset(0)
_simulator.step(SLEEP_ACTIONS)

gc.collect()
