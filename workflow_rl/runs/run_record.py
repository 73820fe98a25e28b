"""What a run was made on, and its first weights: what another machine is compared with."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workflow_rl.output_files import read_text, write_text

RECORD_FILE = "machine.json"
N_UPDATES = 3
"""Updates after which the weights are recorded."""
MOST_BYTES = 2**20
"""A larger file is not one of ours."""


@dataclass
class RunRecord:
    """One run's.

    machines: what it began on, then whatever else it went on with after being resumed, as from
    `machine.machine`. config: TrainConfig.to_dict(), as it began. init_from: whether that was with
    another run's agent. weights: digests of them, before the first update and after each of
    the first N_UPDATES.
    """

    machines: list[dict[str, Any]]
    config: dict[str, Any]
    init_from: bool = False
    weights: list[str] = field(default_factory=list)

    def write(self, path: Path) -> None:
        """Replace the file."""
        write_text(path, json.dumps(dataclasses.asdict(self), indent=2) + "\n")


def read_record(path: Path) -> RunRecord:
    """Raises OSError, ValueError naming the file."""
    try:
        record = RunRecord(**json.loads(read_text(path, MOST_BYTES)))
        well_formed = (
            all(isinstance(part, dict) for part in [*record.machines, record.config])
            and isinstance(record.init_from, bool)
            and all(isinstance(digest, str) for digest in record.weights)
        )
        if record.machines and well_formed and len(record.weights) <= N_UPDATES + 1:
            return record
    except (TypeError, RecursionError):
        pass
    raise ValueError(f"{path.name} is not a record of this package")


def weights_digest(network: Mapping[str, Any]) -> str:
    """SHA-256 of a network's tensors and their names, in the state_dict's order."""
    content = hashlib.sha256()
    for name, tensor in network.items():
        content.update(f"{name} {tuple(tensor.shape)} ".encode())
        content.update(tensor.detach().cpu().numpy().tobytes())
    return content.hexdigest()
