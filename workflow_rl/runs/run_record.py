"""What a run was made on, and its first weights: what another machine is compared with."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from workflow_rl.output_files import read_json, write_json

RECORD_FILE = "machine.json"
POPULATION_FILE = "population.json"
"""Its presence says that a folder is one of several policies."""
N_UPDATES = 3
"""Updates after which the weights are recorded."""


class RunRecord(BaseModel):
    """One run's.

    machines: what it began on, then whatever else it went on with after being resumed, as from
    `machine.machine`. config: TrainConfig.to_save(), as it began. init_from: whether that was with
    another run's agent. weights: digests of them, before the first update and after each of
    the first N_UPDATES.
    """

    model_config = ConfigDict(strict=True, extra="forbid", defer_build=True)

    machines: Annotated[list[dict[str, Any]], Field(min_length=1)]
    config: dict[str, Any]
    init_from: bool = False
    weights: Annotated[list[str], Field(max_length=N_UPDATES + 1)] = []

    def write(self, path: Path) -> None:
        """Replace the file."""
        write_json(path, self.model_dump())


def read_record(path: Path) -> RunRecord:
    """Raises OSError, ValueError naming the file."""
    try:
        return RunRecord(**read_json(path))
    except (TypeError, ValueError, RecursionError):
        raise ValueError(f"{path.name} is not a record of this package") from None


def begins_with_another(folder: Path) -> bool:
    """Return whether the run in a folder began with another run's agent, as far as is known."""
    try:
        return read_record(folder / RECORD_FILE).init_from
    except (OSError, ValueError):
        return False


def weights_digest(network: Mapping[str, Any]) -> str:
    """SHA-256 of a network's tensors and their names, in the state_dict's order."""
    content = hashlib.sha256()
    for name, tensor in network.items():
        content.update(f"{name} {tuple(tensor.shape)} ".encode())
        content.update(tensor.detach().cpu().numpy().tobytes())
    return content.hexdigest()
