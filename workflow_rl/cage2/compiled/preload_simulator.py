"""The module that the workers' fork server imports if they play Scenario 2 without Blue's belief.

Its workers start sooner on a new machine: the belief takes longest to compile. See `preload`.
"""

from __future__ import annotations

import gc

import workflow_rl.collection.worker  # noqa: F401
from workflow_rl.cage2.env.environment import Cage2

Cage2().play_a_step()
gc.collect()
