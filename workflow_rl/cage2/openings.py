"""First steps that are made for the policy while it learns, to show it what follows from them."""

from __future__ import annotations

import functools

import numpy as np

from workflow_rl.cage2.action_sets import useful_actions
from workflow_rl.collection.episode import EpisodeSpec

LONGEST_OPENING = 4


def opening(spec: EpisodeSpec, share: float) -> list[int]:
    """The first actions of an episode, which follow from its seed: decoys on a host drawn by
    chance, some or all that fit, in any order; or none, but in this share of the episodes.

    What the first decoys are worth shows only steps later, and only with others beside them. A
    policy that has settled on its first steps would not find out.
    """
    random = np.random.default_rng([spec.env_seed, spec.action_seed])
    if random.random() >= share:
        return []
    hosts = _decoys_by_host()
    decoys = hosts[random.integers(len(hosts))]
    return [
        int(action) for action in random.permutation(decoys)[: 1 + random.integers(len(decoys))]
    ]


@functools.cache
def _decoys_by_host() -> list[list[int]]:
    """Those of the useful actions that set up a decoy."""
    from workflow_rl.cage2.compiled import tables

    by_host: dict[int, list[int]] = {}
    for action in useful_actions().tolist():
        if tables.FIRST_DECOY <= tables.ACTION_KIND[action] <= tables.LAST_DECOY:
            by_host.setdefault(int(tables.ACTION_HOST[action]), []).append(action)
    return list(by_host.values())
