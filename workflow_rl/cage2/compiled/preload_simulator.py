"""The module that the workers' fork server imports if they play Scenario 2 without Blue's belief.

Its workers start sooner on a new machine: the belief takes longest to compile. See `preload`.
"""

from __future__ import annotations

import gc

import numpy as np

import workflow_rl.collection.worker  # noqa: F401
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.environments.episode import EpisodeSpec

_envs = Cage2(simulator="compiled").make_envs(1)
_envs.reset([0], [EpisodeSpec(0, "B_lineAgent", env_seed=0, action_seed=0)])
_envs.step([0], np.zeros(1, np.int64))

gc.collect()
