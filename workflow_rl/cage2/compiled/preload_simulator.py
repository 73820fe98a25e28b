"""The workers' fork server imports this module, and not `preload`, if no observation has a belief.

Blue's belief takes longest to compile. Without the belief, workers start sooner on a new machine.
"""

import gc

import workflow_rl.collection.worker  # noqa: F401
from workflow_rl.cage2.env.environment import Cage2

Cage2().play_a_step()
gc.collect()
