"""The module that the workers' fork server imports if they play CybORG.

Making an env imports CybORG, and fills the caches that outlive an env, once, in memory that all
workers share.
"""

from __future__ import annotations

import gc

import workflow_rl.collection.worker  # noqa: F401
from workflow_rl.cage2.env.cage2_env import Cage2Env

Cage2Env(simulator="cyborg").reset(seed=0)

gc.collect()
