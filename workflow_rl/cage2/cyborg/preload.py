"""The workers' fork server imports this module if the workers play CybORG.

An env imports CybORG and fills caches, which stay when the env is gone. All workers share the
memory of these modules and caches."""

import gc

import workflow_rl.collection.worker  # noqa: F401
from workflow_rl.cage2.env.cage2_env import Cage2Env

Cage2Env(simulator="cyborg").reset(seed=0)

gc.collect()
