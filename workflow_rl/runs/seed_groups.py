"""Runs that differ in their seed alone, as one curve."""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

WORKERS = ("n_workers", "envs_per_worker")
# Runs that differ in these alone are of one group: all but the seed change no result.
LIKE_SEEDS = ("seed", *WORKERS, "checkpoint_every", "keep_every")


def groups_of(names: Sequence[str], configs: Sequence[Mapping[str, Any]]) -> dict[str, list[int]]:
    """Return groups of runs that differ in their seed alone: a name, and the runs' numbers.

    A group has each seed once: runs of the same seed are a comparison of something else.
    """
    groups = []
    for group in _alike(range(len(configs)), configs, ()):
        parts = [group] if _is_of_seeds(group, configs) else _alike(group, configs, WORKERS)
        for part in parts:
            groups += [part] if _is_of_seeds(part, configs) else [[number] for number in part]
    named: dict[str, list[int]] = {}
    for group in groups:
        name = names[group[0]]
        if len(group) > 1:
            start, seeds = _common_start([names[n] for n in group]), f"{len(group)} seeds"
            name = f"{start} ({seeds})" if start else seeds
        while name in named:
            name += "'"
        named[name] = group
    return named


def _alike(
    numbers: Iterable[int], configs: Sequence[Mapping[str, Any]], also: Collection[str]
) -> list[list[int]]:
    """Return groups of the runs whose configs differ in LIKE_SEEDS alone, but not in `also`."""
    groups: dict[str, list[int]] = {}
    for number in numbers:
        kept = {
            name: value
            for name, value in configs[number].items()
            if name not in LIKE_SEEDS or name in also
        }
        groups.setdefault(json.dumps(kept, default=str, sort_keys=True), []).append(number)
    return list(groups.values())


def _is_of_seeds(group: Sequence[int], configs: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether the runs of a group have seeds of their own."""
    return len({configs[number].get("seed") for number in group}) == len(group)


def _common_start(names: Sequence[str]) -> str:
    """Return the common start of the names without the beginning of a seed, as in runs/seed-1."""
    letters = itertools.takewhile(lambda at: len(set(at)) == 1, zip(*names, strict=False))
    start = "".join(at[0] for at in letters).rstrip("0123456789").rstrip("-_ ")
    return start.removesuffix("seed").rstrip("-_ ")
