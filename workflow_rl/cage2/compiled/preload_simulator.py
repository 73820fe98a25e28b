"""The workers' fork server imports this module if the workers need no belief of Blue's.

Workers then start sooner on a new machine, because the belief takes longest to compile: see
`preload`.
"""

from __future__ import annotations

import gc

import workflow_rl.collection.worker  # noqa: F401
from workflow_rl.cage2.env.environment import Cage2

Cage2().play_a_step()
gc.collect()
