"""What all workers need. The process that workers are forked from imports this module last."""

from __future__ import annotations

import gc

import workflow_rl.collection.worker  # noqa: F401

gc.collect()
