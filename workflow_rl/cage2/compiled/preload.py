"""The module that the workers' fork server imports if they play the compiled simulator.

It compiles the simulator and Blue's belief, or loads them from disk, once, into memory that all
workers share.
"""

from __future__ import annotations

import gc

import workflow_rl.collection.worker  # noqa: F401
from workflow_rl.cage2.env.environment import Cage2

Cage2(observation="belief", actions="by-host").play_a_step()
gc.collect()
