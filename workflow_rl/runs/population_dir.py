"""The folder of several policies: a run's folder of each, and one file that says what they are."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workflow_rl.agents.policies.policy_file import MOST_BYTES
from workflow_rl.errors import UserError
from workflow_rl.output_files import (
    NOT_OURS,
    begin_folder,
    copy_file,
    read_text,
    remove_own,
    require_no_links,
    write_text,
)
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.exchange import Copy, ExchangeConfig, Values
from workflow_rl.runs.run_record import POPULATION_FILE
from workflow_rl.terminal import shortened

MOST_OF_POPULATION = 2**26
"""Bytes; a larger file is not one of ours."""


@dataclass(frozen=True)
class Meeting:
    """What became of a population at one point. at: its members' episodes (or env steps) so far.

    scores, settings: of each member, the settings as they are from then on.
    """

    at: int
    scores: list[float]
    copies: list[Copy]
    settings: list[Values]


@dataclass(frozen=True)
class PopulationRecord:
    """What POPULATION_FILE holds.

    configs: `TrainConfig.to_save` of each policy, as it began. exchange: the settings by which they
    learn from each other; None if they have nothing to do with each other. meetings: so far.
    """

    configs: list[dict[str, Any]]
    exchange: dict[str, Any] | None = None
    meetings: list[Meeting] = field(default_factory=list)

    def write(self, path: Path) -> None:
        """Replace the file in the folder `path` in one step."""
        write_text(path / POPULATION_FILE, self.text)

    def folders(self, path: Path) -> list[Path]:
        """Return the run folder of each policy in the folder `path`."""
        return [policy_folder(path, number) for number in range(len(self.configs))]

    @property
    def text(self) -> str:
        """As the file has it."""
        return json.dumps(dataclasses.asdict(self), indent=1) + "\n"


def policy_folder(path: Path, number: int) -> Path:
    """The run folder of the policy of this number."""
    return path / f"policy-{number}"


def begin_population(path: Path, record: PopulationRecord) -> None:
    """Make the folder, which must be new or empty. Raises UserError."""
    begin_folder(path, POPULATION_FILE, record.text)


def read_population(path: Path) -> PopulationRecord:
    """Raises UserError."""
    try:
        values = json.loads(read_text(path / POPULATION_FILE, MOST_OF_POPULATION))
        configs = [TrainConfig.from_dict(config) for config in values["configs"]]
        if not configs:
            raise ValueError("it has no policies")
        exchange = values["exchange"]
        if exchange is not None:
            exchange = ExchangeConfig(**exchange).to_dict()
        names = () if exchange is None else exchange["ranges"].keys()
        meetings = [_meeting(meeting, configs, names) for meeting in values["meetings"]]
        record = PopulationRecord(values["configs"], exchange, meetings)
        require_no_links(*record.folders(path))
        return record
    except NOT_OURS as error:
        raise UserError(f"{path / POPULATION_FILE} cannot be read: {str(error)[:300]}") from None


def _meeting(
    values: Mapping[str, Any], configs: Sequence[TrainConfig], names: Collection[str]
) -> Meeting:
    n_policies = len(configs)
    scores = [float(score) for score in values["scores"]]
    settings = [
        {str(name): float(value) for name, value in member.items()} for member in values["settings"]
    ]
    copies = [Copy(int(of), int(source)) for of, source in values["copies"]]
    numbers = {number for copy in copies for number in copy}
    if len(scores) != n_policies or len(settings) != n_policies:
        raise ValueError(f"a meeting is not of {n_policies} policies")
    if not numbers <= set(range(n_policies)):
        raise ValueError(f"there is no policy {max(numbers)}")
    for config, drawn in zip(configs, settings, strict=True):
        if drawn.keys() != set(names):
            raise ValueError(f"a meeting has other settings than {', '.join(names)}")
        config.settings.changed(**drawn)  # Raises ValueError.
    at = int(values["at"])
    if not 0 <= at < 2**63:
        raise ValueError(f"a meeting is at {at}")
    return Meeting(at, scores, copies, settings)


@contextmanager
def unfinished_population(path: Path) -> Iterator[None]:
    """While the policies train, keep no summary of an earlier end. If an error ends the training,
    leave a summary that says why. Raises UserError."""
    try:
        remove_own(path / "summary.json")
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}") from None
    try:
        yield
    except BaseException as error:
        content = {"finished": False, "reason": shortened(str(error)) or type(error).__name__}
        with suppress(OSError):
            write_text(path / "summary.json", json.dumps(content, indent=2) + "\n")
        raise


def finish_population(path: Path, summaries: Sequence[Mapping[str, Any]], best: int) -> None:
    """Leave the best policy's config.json and best.safetensors where those of a run of one policy
    are, and the summaries of all. Raises UserError."""
    try:
        for name in ("config.json", "best.safetensors"):
            copy_file(policy_folder(path, best) / name, path / name, MOST_BYTES)
        content = {"finished": True, "best_policy": best, "policies": list(summaries)}
        write_text(path / "summary.json", json.dumps(content, indent=2) + "\n")
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}") from None
    except ValueError as error:
        raise UserError(f"{policy_folder(path, best) / name} cannot be read: {error}") from None
