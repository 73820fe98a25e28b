"""The module that the workers' fork server imports if they play the compiled simulator.

It compiles the simulator and Blue's belief, or loads them from disk, once, into memory that all
workers share.
"""

from __future__ import annotations

import gc

import numpy as np

import workflow_rl.collection.worker  # noqa: F401
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.environments.episode import EpisodeSpec

_envs = Cage2(simulator="compiled", observation="belief", actions="by-host").make_envs(1)
_envs.reset([0], [EpisodeSpec(0, "B_lineAgent", env_seed=0, action_seed=0)])
_envs.step([0], np.zeros(1, np.int64))

gc.collect()
