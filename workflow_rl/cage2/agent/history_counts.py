"""Count what Blue has seen and done on each host in an episode.

Unlike Blue's belief (`compiled.blue_belief`), these counts assume nothing about Red's program.
Submissions contain a copy of this module, so it needs only NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage2.agent.network_facts import BlueDecoys, Indices, NetworkFacts, with_rows
from workflow_rl.cage2.compiled import tables

AGES = (1, 2, 4, 10)
"""An event has one bit for each age: whether the event happened at most so many steps ago. A last
bit tells whether the event ever happened."""
NEVER = 1000
SCANNED, EXPLOITED, RESTORED, REMOVED, FOUND_NO_ROOT = range(5)
N_EVENTS = 5
COUNTED = (EXPLOITED, RESTORED)
COUNTS = (1, 3, 10)
"""A count has one bit for each of these numbers: whether the count is this number or larger."""
STEPS = (1, 2, 3, 4, 6, 10, 20, 40)
"""The time has one bit for each of these numbers: whether so many steps or more are over."""
_ALL_DECOYS = (1 << tables.N_DECOYS) - 1
"""The mask of all decoys."""

_SHAPES = {
    # Rows: events on the host, exploits on hosts that lead to the host, exploits in its subnet.
    "ages": (N_EVENTS + 2, len(AGES) + 1),
    # Rows: exploits, restores, quiet steps, decoys that would have an effect if Blue set them up,
    # decoys in place, and decoys in place at the last activity.
    "counts": (len(COUNTED) + 4, len(COUNTS)),
    # Rows: decoys in place now, at the last activity, and at all activities up to now.
    "decoys": (3, tables.N_DECOYS),
}
N_OF_HOST = sum(rows * columns for rows, columns in _SHAPES.values())
"""The number of bits about a host's past."""
N_OF_ALL = len(COUNTS) + len(STEPS)
"""The number of bits about the whole network's past."""
_ONES = np.array([bin(mask).count("1") for mask in range(_ALL_DECOYS + 1)])
"""The number of decoys in each mask."""


class HistoryCounts:
    """Counts for H hosts in each of several envs. Envs are numbered from 0. playing: see
    `BlueDecoys`."""

    def __init__(self, facts: NetworkFacts, playing: Indices | None = None) -> None:
        self._facts = facts
        self._decoys = BlueDecoys(facts, playing)
        n = facts.n_hosts
        fields = [
            # Steps since the last event of each kind, and the numbers of the events in COUNTED.
            ("ages", np.int64, (N_EVENTS, n)),
            ("counts", np.int64, (len(COUNTED), n)),
            # Steps without any activity since Blue saw an exploit on the host.
            ("quiet", np.int64, n),
            # Two masks: the decoys in place at the last activity, and at all activities.
            ("at_last", np.int64, n),
            ("at_all", np.int64, n),
            # Steps since the last activity anywhere, and since the beginning.
            ("quiet_steps", np.int64),
            ("steps", np.int64),
        ]
        self._seen = np.zeros(0, np.dtype(fields))  # One record for each env.

    def begin(self, envs: Sequence[int]) -> None:
        self._decoys.begin(envs)
        self._seen = with_rows(self._seen, max(envs) + 1)
        self._seen[envs] = np.zeros(len(envs), self._seen.dtype)
        self._seen["ages"][envs] = NEVER
        self._seen["at_all"][envs] = _ALL_DECOYS

    def after(self, envs: Sequence[int], actions: Indices, obs: NDArray[np.uint8]) -> None:
        """Count Blue's actions [M] and the observations [M, 4 H] after these actions."""
        rows = np.arange(len(envs))
        seen = self._seen[envs]
        # The four bits of a host: active, exploited, and two of compromise, both set if privileged.
        table = obs.reshape(len(envs), -1, 4).astype(bool)
        is_active, is_exploited = table[:, :, 0], table[:, :, 1]
        ages, counts, quiet = seen["ages"], seen["counts"], seen["quiet"]
        ages[:] = np.minimum(ages + 1, NEVER)
        kinds, hosts = self._facts.kinds[actions], self._facts.hosts[actions]
        restored = tables.RESETS[kinds]
        removed = kinds == tables.REMOVE
        no_root = (kinds == tables.ANALYSE) & ~table[rows, hosts, 2:].all(axis=1)
        for event, happened in ((RESTORED, restored), (REMOVED, removed), (FOUND_NO_ROOT, no_root)):
            ages[rows[happened], event, hosts[happened]] = 0
        ages[rows[restored], EXPLOITED, hosts[restored]] = NEVER
        counts[rows[restored], COUNTED.index(RESTORED), hosts[restored]] += 1
        for happened in (restored, no_root):
            quiet[rows[happened], hosts[happened]] = 0
        self._decoys.after(envs, actions)
        no_activity = np.logical_not(np.any(is_active, axis=1))
        quiet += no_activity[:, None] & (ages[:, EXPLOITED] < NEVER)
        ages[:, SCANNED][is_active & ~is_exploited] = 0
        ages[:, EXPLOITED][is_exploited] = 0
        counts[:, COUNTED.index(EXPLOITED)] += is_exploited
        decoys = self._decoys.masks[envs]
        seen["at_last"] = np.where(is_active, decoys, seen["at_last"])
        seen["at_all"] = np.where(is_active, seen["at_all"] & decoys, seen["at_all"])
        seen["quiet_steps"] = np.where(no_activity, seen["quiet_steps"] + 1, 0)
        seen["steps"] += 1
        self._seen[envs] = seen

    def of_hosts(self, envs: Sequence[int]) -> NDArray[np.uint8]:
        """Return the bits about each host, `[M, H, N_OF_HOST]`: see `columns_of_hosts`."""
        seen = self._seen[envs]
        decoys = self._decoys.masks[envs]
        exploited = seen["ages"][:, EXPLOITED, :, None]
        beside, leading = self._facts.joined[self._decoys.scenarios(envs)].transpose(1, 0, 2, 3)
        # For each host: the age of the last exploit on hosts that lead there, and in the subnet.
        around = [np.where(near, exploited, NEVER).min(axis=1) for near in (leading, beside)]
        ages = np.concatenate([seen["ages"], np.stack(around, axis=1)], axis=1).transpose(0, 2, 1)
        masks = self._decoys.useful(envs), decoys, seen["at_last"]
        counts = list(seen["counts"].transpose(1, 0, 2))
        counts.append(seen["quiet"])
        counts += [_ONES[mask] for mask in masks]
        shown = np.stack([decoys, seen["at_last"], seen["at_all"]], axis=2)
        if self._facts.is_misinforming:
            shown[:] = 0  # Blue does not know the kinds of its decoys.
        largest = [age - 1 for age in (*AGES, NEVER)]  # An event of the last step has age 0.
        parts = [
            ages[..., None] <= largest,
            np.stack(counts, axis=2)[..., None] >= COUNTS,
            (shown[..., None] >> np.arange(tables.N_DECOYS)) & 1,
        ]
        shape = len(envs), self._facts.n_hosts, -1
        flat = [part.reshape(shape) for part in parts]
        return np.concatenate(flat, axis=2, dtype=np.uint8, casting="unsafe")

    def of_all(self, envs: Sequence[int]) -> NDArray[np.uint8]:
        """Return the bits about the whole network, `[M, N_OF_ALL]`: how long ago the last activity
        was, and how many steps are over."""
        seen = self._seen[envs]
        parts = seen["quiet_steps"][:, None] >= COUNTS, seen["steps"][:, None] >= STEPS
        return np.concatenate(parts, axis=1).astype(np.uint8)


def columns_of_hosts(n_hosts: int) -> dict[str, Indices]:
    """Return where the bits of each part of `_SHAPES` stand in the bits about hosts, as indices
    `[n_hosts, rows, columns]`."""
    columns = np.arange(n_hosts * N_OF_HOST).reshape(n_hosts, N_OF_HOST)
    sizes = [rows * of_row for rows, of_row in _SHAPES.values()]
    parts = np.split(columns, np.cumsum(sizes)[:-1], axis=1)
    names = zip(_SHAPES, parts, strict=True)
    return {name: part.reshape(n_hosts, *_SHAPES[name]) for name, part in names}


def columns_of_evidence(facts: NetworkFacts) -> Indices:
    """Return indices of the bits about the past that the observation `evidence` shows.

    The indices count the bits about hosts, then the bits about the whole network. Stored policies
    depend on the order of the indices."""
    hosts = np.flatnonzero(facts.contested[0])
    columns = columns_of_hosts(facts.n_hosts)
    fits = (facts.fits[0][:, None] >> np.arange(tables.N_DECOYS)) & 1
    places, decoys = np.nonzero(fits * facts.contested[0][:, None])
    counts = columns["counts"][hosts].transpose(1, 0, 2)
    _, at_last, at_all = columns["decoys"].transpose(1, 0, 2)
    parts = [
        columns["ages"][hosts, :N_EVENTS].transpose(1, 0, 2),
        counts[: len(COUNTED) + 1],
        at_last[places, decoys],
        at_all[places, decoys],
        facts.n_hosts * N_OF_HOST + np.arange(len(COUNTS)),
    ]
    return np.concatenate([part.ravel() for part in parts])
