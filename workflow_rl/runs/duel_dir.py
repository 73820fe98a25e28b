"""The folder of a duel: one file that says what has been, and a run's folder for each policy."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from workflow_rl.output_files import NOT_OURS, read_text, require_numbers, write_text
from workflow_rl.runs.folder import RunDirError

DUEL_FILE, EXPLOIT_FILE = "duel.json", "exploit.json"
MOST_OF_DUEL = 2**26
"""Bytes; a larger file is not one of ours."""

Shares = dict[str, list[float]]
"""The share of each agent, by side, in the order of the side's agents."""


@dataclass(frozen=True)
class DuelRecord:
    """What DUEL_FILE holds.

    config: `TrainConfig.to_dict` of what all runs have in common. duel: the duel's own settings.
    agents: by side, those at the start, then one of each generation: policy files in the folder, or
    names and paths that the user gave. payoffs: mean returns of the first side [R, C], in the order
    of the agents. intervals: half of each mean's 95% interval. mixtures: at the start, and after
    each generation. opponents: by generation, the shares in which new agents met each side.
    """

    config: dict[str, Any]
    duel: dict[str, Any]
    agents: dict[str, list[str]] = field(default_factory=dict)
    payoffs: list[list[float]] = field(default_factory=list)
    intervals: list[list[float]] = field(default_factory=list)
    mixtures: list[Shares] = field(default_factory=list)
    opponents: list[Shares] = field(default_factory=list)

    def write(self, path: Path) -> None:
        """Replace the file in the folder `path` in one step. Raises OSError."""
        write_text(path / DUEL_FILE, self.text)

    @property
    def text(self) -> str:
        """As the file has it."""
        return json.dumps(dataclasses.asdict(self), indent=1) + "\n"

    def agent(self, path: Path, name: str) -> str:
        """Return an agent as environments take it. path: of the duel's folder."""
        return str(path / name) if (path / name).is_file() else name

    def weights(self, path: Path, side: str, shares: Shares) -> dict[str, float]:
        """Return a side's agents, as environments take them, with their shares."""
        agents = [self.agent(path, name) for name in self.agents[side]]
        return dict(zip(agents, shares[side], strict=False))


def is_duel(path: Path) -> bool:
    """Return whether a folder is that of a duel."""
    return (path / DUEL_FILE).is_file()


def read_duel(path: Path) -> DuelRecord:
    """Raises RunDirError."""
    try:
        values = json.loads(read_text(path / DUEL_FILE, MOST_OF_DUEL))
        record = DuelRecord(**values)
        if set(values) != {part.name for part in dataclasses.fields(DuelRecord)}:
            raise ValueError("it lacks what a duel keeps")
        if record.mixtures:
            _require_whole(record)
        return record
    except NOT_OURS as error:
        raise RunDirError(f"{path / DUEL_FILE} cannot be read: {str(error)[:300]}") from None


def read_exploit(path: Path) -> dict[str, Any]:
    """Return what the command `exploit` left in a folder. Raises RunDirError."""
    try:
        found = dict(json.loads(read_text(path / EXPLOIT_FILE, MOST_OF_DUEL)))
        found["attackers"][found["worst"]]
        for score in [*found["attackers"], *found["fixed"].values()]:
            require_numbers(score["mean"], *filter(None, [score["interval_95"]]))
        return {**found, "agent": str(found["agent"]), "side": str(found["side"])}
    except NOT_OURS as error:
        raise RunDirError(f"{path / EXPLOIT_FILE} cannot be read: {str(error)[:300]}") from None


def _require_whole(record: DuelRecord) -> None:
    """Raise one of NOT_OURS if the parts of a record do not fit together."""
    sizes = [len(agents) for agents in record.agents.values()]
    names = [name for agents in record.agents.values() for name in agents]
    tables = np.array([record.payoffs, record.intervals], np.float64)
    if len(sizes) != 2 or tables.shape[1:] != tuple(sizes) or not np.isfinite(tables).all():
        raise ValueError("its table does not fit its agents")
    if not all(type(name) is str for name in names):
        raise ValueError("its agents are not named")
    first = [size - len(record.opponents) for size in sizes]
    if min(first) < 1 or len(record.mixtures) != len(record.opponents) + 1:
        raise ValueError("its generations are not those of its agents")
    for kind in (record.mixtures, record.opponents):
        for generation, shares in enumerate(kind):
            _require_shares(shares, record.agents, [size + generation for size in first])


def _require_shares(shares: Mapping[str, Any], sides: Mapping[str, Any], sizes: list[int]) -> None:
    lengths = [len(shares[side]) for side in sides]
    parts = [float(part) for side in sides for part in shares[side]]
    if lengths != sizes or not all(math.isfinite(part) and part >= 0 for part in parts):
        raise ValueError("its mixtures do not fit its agents")
