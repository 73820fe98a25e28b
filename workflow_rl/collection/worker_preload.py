"""Imported by the process that workers are forked from: what they all need, and no environment."""

from __future__ import annotations

import gc

import workflow_rl.collection.worker
import workflow_rl.environments.gymnasium_env  # noqa: F401

gc.collect()
