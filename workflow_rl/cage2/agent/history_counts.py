"""What Blue has seen and done on each host in an episode, whoever attacks.

Unlike the belief, it supposes nothing about Red's program. This module needs NumPy alone, because
submissions contain a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage2.agent.action_sets import BlueActions, Indices, after_actions, with_rows
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


class HistorySeen(NamedTuple):
    """What Blue has seen and done in M envs on each of H hosts.

    ages: `[M, N_EVENTS, H]`, of the last event of each kind. counts: `[M, len(COUNTED), H]`, of the
    events that are counted. quiet: `[M, H]`, steps without any activity since Blue saw an exploit
    on the host. decoys, at_last, at_all: `[M, H]`, masks of the decoys in place, at the last
    activity, and at every one. quiet_steps: `[M]`, steps since the last activity anywhere.
    """

    ages: Indices
    counts: Indices
    quiet: Indices
    decoys: Indices
    at_last: Indices
    at_all: Indices
    quiet_steps: Indices


_BY_ENV = ("_ages", "_counts", "_quiet", "_decoys", "_at_last", "_at_all", "_quiet_steps")


class HistoryCounts:
    """What Blue has seen and done in several envs, numbered from 0. blue: None for Scenario 2."""

    def __init__(self, blue: BlueActions | None = None) -> None:
        self._after = after_actions if blue is None else blue.after
        of = SCENARIO2.of
        self._kinds = of["action_kind"] if blue is None else blue.kinds
        self._on = of["action_host"] if blue is None else blue.hosts
        n = len(HOSTS) if blue is None else blue.fits.shape[1]
        # By env: see `HistorySeen`.
        self._ages = np.zeros((0, N_EVENTS, n), np.int64)
        self._counts = np.zeros((0, len(COUNTED), n), np.int64)
        self._quiet = np.zeros((0, n), np.int64)
        self._decoys, self._at_last, self._at_all = np.zeros((3, 0, n), np.int64)
        self._quiet_steps = np.zeros(0, np.int64)

    def begin(self, envs: Sequence[int]) -> NDArray[np.uint8]:
        """Begin episodes in M envs. Return the bits [M, N_SHOWN]."""
        self.forget(envs)
        return self._shown(envs)

    def forget(self, envs: Sequence[int]) -> None:
        """Begin episodes in M envs."""
        for name in _BY_ENV:
            rows = with_rows(getattr(self, name), max(envs) + 1)
            rows[envs] = NEVER if name == "_ages" else 255 if name == "_at_all" else 0
            setattr(self, name, rows)

    def after(
        self, envs: Sequence[int], actions: Indices, obs: NDArray[np.uint8]
    ) -> NDArray[np.uint8]:
        """Note Blue's actions [M], and the 52 bits [M, 52] that followed. Return the bits."""
        self.note(envs, actions, obs)
        return self._shown(envs)

    def note(self, envs: Sequence[int], actions: Indices, obs: NDArray[np.uint8]) -> None:
        """Note Blue's actions [M], and the bits [M, 4 H] that followed."""
        rows = np.arange(len(envs))
        table = obs.reshape(len(envs), -1, 4).astype(bool)
        is_active, is_exploited = table[:, :, 0], table[:, :, 1]
        ages, counts, quiet = self._ages[envs], self._counts[envs], self._quiet[envs]
        ages = np.minimum(ages + 1, NEVER)
        kinds, hosts = self._kinds[actions], self._on[actions]
        restored, removed = kinds == _RESTORED, kinds == _REMOVED
        no_root = (kinds == _ANALYSED) & ~table[rows, hosts, 2:].all(axis=1)
        for event, happened in ((RESTORED, restored), (REMOVED, removed), (FOUND_NO_ROOT, no_root)):
            ages[rows[happened], event, hosts[happened]] = 0
        ages[rows[restored], EXPLOITED, hosts[restored]] = NEVER
        counts[rows[restored], 1, hosts[restored]] += 1
        for event in (restored, no_root):
            quiet[rows[event], hosts[event]] = 0
        self._after(self._decoys, np.asarray(envs), actions)
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

    def of(self, envs: Sequence[int]) -> HistorySeen:
        """Return what Blue has seen in M envs."""
        return HistorySeen(*(getattr(self, name)[envs] for name in _BY_ENV))

    def _shown(self, envs: Sequence[int]) -> NDArray[np.uint8]:
        seen = self.of(envs)
        places, decoys = _DECOYS.T
        parts: list[NDArray[Any]] = [
            ages_shown(seen.ages[:, :, _HOSTS]),
            seen.counts[:, :, _HOSTS, None] >= COUNTS,
            seen.quiet[:, _HOSTS, None] >= COUNTS,
            seen.at_last[:, places] >> decoys & 1,
            seen.at_all[:, places] >> decoys & 1,
            seen.quiet_steps[:, None] >= COUNTS,
        ]
        return np.concatenate(
            [part.reshape(len(envs), -1).astype(np.uint8) for part in parts], axis=1
        )


def ages_shown(ages: Indices) -> NDArray[np.bool_]:
    """Return how ages [...] are shown, [..., len(AGES) + 1]."""
    shown: NDArray[np.bool_] = ages[..., None] <= [*(age - 1 for age in AGES), NEVER - 1]
    return shown
