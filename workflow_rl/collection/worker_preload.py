"""Imported by the process that workers are forked from: what they all need, and no environment."""

from __future__ import annotations

import gc

gc.collect()
