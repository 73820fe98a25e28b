"""What Blue has seen and done on each host in an episode, whoever attacks.

Unlike the belief, it supposes nothing about Red's program. This module needs NumPy alone, because
submissions contain a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage2.agent.action_sets import Indices, after_actions, with_rows
from workflow_rl.cage2.compiled import tables
from workflow_rl.cage2.compiled.description import SCENARIO2
from workflow_rl.cage2.scenario2 import HOSTS

AGES = (1, 2, 4, 10)
"""An event is shown by whether it was at most so many steps ago, and whether it ever was."""
NEVER = 1000
SCANNED, EXPLOITED, RESTORED, REMOVED, FOUND_NO_ROOT = range(5)
N_EVENTS = 5
COUNTED = (EXPLOITED, RESTORED)
COUNTS = (1, 3, 10)
"""A count is shown by whether it is at least as large as each of these."""

_HOSTS = np.array([n for n, host in enumerate(HOSTS) if host not in ("Defender", "User0")])
_DECOYS = np.argwhere(SCENARIO2.decoy_fits & np.isin(np.arange(len(HOSTS)), _HOSTS)[:, None])
_ANALYSED, _REMOVED, _RESTORED = tables.ANALYSE, tables.REMOVE, tables.RESTORE

N_SHOWN = (
    len(_HOSTS) * (N_EVENTS * (len(AGES) + 1) + (len(COUNTED) + 1) * len(COUNTS))
    + 2 * len(_DECOYS)
    + len(COUNTS)
)


class Evidence:
    """The evidence in several envs, numbered from 0."""

    def __init__(self) -> None:
        n = len(HOSTS)
        # By env and host: the age of the last event of each kind, how many there were, and how
        # many steps without any activity Red has had there since Blue saw an exploit.
        self._ages = np.zeros((0, N_EVENTS, n), np.int64)
        self._counts = np.zeros((0, len(COUNTED), n), np.int64)
        self._quiet = np.zeros((0, n), np.int64)
        # Masks of the decoys in place, at the last activity, and at every one.
        self._decoys, self._at_last, self._at_all = np.zeros((3, 0, n), np.int64)
        self._quiet_steps = np.zeros(0, np.int64)

    def begin(self, envs: Sequence[int]) -> NDArray[np.uint8]:
        """Begin episodes in M envs. Return the bits [M, N_SHOWN]."""
        for name, array in vars(self).items():
            rows = with_rows(array, max(envs) + 1)
            rows[envs] = NEVER if name == "_ages" else 255 if name == "_at_all" else 0
            setattr(self, name, rows)
        return self._shown(envs)

    def after(
        self, envs: Sequence[int], actions: Indices, obs: NDArray[np.uint8]
    ) -> NDArray[np.uint8]:
        """Note Blue's actions [M], and the 52 bits [M, 52] that followed. Return the bits."""
        rows = np.arange(len(envs))
        table = obs.reshape(len(envs), len(HOSTS), 4).astype(bool)
        is_active, is_exploited = table[:, :, 0], table[:, :, 1]
        ages, counts, quiet = self._ages[envs], self._counts[envs], self._quiet[envs]
        ages = np.minimum(ages + 1, NEVER)
        kinds, hosts = (SCENARIO2.of[name][actions] for name in ("action_kind", "action_host"))
        restored, removed = kinds == _RESTORED, kinds == _REMOVED
        no_root = (kinds == _ANALYSED) & ~table[rows, hosts, 2:].all(axis=1)
        for event, happened in ((RESTORED, restored), (REMOVED, removed), (FOUND_NO_ROOT, no_root)):
            ages[rows[happened], event, hosts[happened]] = 0
        ages[rows[restored], EXPLOITED, hosts[restored]] = NEVER
        counts[rows[restored], 1, hosts[restored]] += 1
        for event in (restored, no_root):
            quiet[rows[event], hosts[event]] = 0
        after_actions(self._decoys, np.asarray(envs), actions)
        no_activity = np.logical_not(np.any(is_active, axis=1))
        quiet += no_activity[:, None] & (ages[:, EXPLOITED] < NEVER)
        ages[:, SCANNED][is_active & ~is_exploited] = 0
        ages[:, EXPLOITED][is_exploited] = 0
        counts[:, 0] += is_exploited
        decoys, at_last, at_all = self._decoys[envs], self._at_last[envs], self._at_all[envs]
        self._at_last[envs] = np.where(is_active, decoys, at_last)
        self._at_all[envs] = np.where(is_active, at_all & decoys, at_all)
        self._ages[envs], self._counts[envs], self._quiet[envs] = ages, counts, quiet
        self._quiet_steps[envs] = np.where(no_activity, self._quiet_steps[envs] + 1, 0)
        return self._shown(envs)

    def _shown(self, envs: Sequence[int]) -> NDArray[np.uint8]:
        ages, counts = self._ages[envs][:, :, _HOSTS], self._counts[envs][:, :, _HOSTS]
        limits = np.array([*(age - 1 for age in AGES), NEVER - 1])
        places, decoys = _DECOYS.T
        parts: list[NDArray[Any]] = [
            ages[..., None] <= limits,
            counts[..., None] >= COUNTS,
            self._quiet[envs][:, _HOSTS, None] >= COUNTS,
            self._at_last[envs][:, places] >> decoys & 1,
            self._at_all[envs][:, places] >> decoys & 1,
            self._quiet_steps[envs, None] >= COUNTS,
        ]
        return np.concatenate(
            [part.reshape(len(envs), -1).astype(np.uint8) for part in parts], axis=1
        )
