"""The folder of a duel: one file with the duel's record, and a run's folder for each policy."""

import dataclasses
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from workflow_rl.environments.environment import weights_of
from workflow_rl.environments.named_by_file import is_plain
from workflow_rl.errors import ConfigError, UserError
from workflow_rl.output_files import (
    MOST_OF_LONG_RECORD,
    read_json,
    reading,
    require_numbers,
    write_json,
)
from workflow_rl.runs.signature import SIGNATURE, made_here, signed

DUEL_FILE, EXPLOIT_FILE = "duel.json", "exploit.json"

Shares = dict[str, list[float]]
"""The share of each agent, by side, in the order of the side's agents."""


@dataclass(frozen=True)
class DuelRecord:
    """The content of DUEL_FILE.

    config: `TrainConfig.to_dict` of the common settings of all runs. duel: the duel's own settings.
    agents: by side, the agents at the start, then the agents of each generation: policy files in
    the folder, or names and paths that the user gave. payoffs: mean returns of the first side
    [R, C], in the order of the agents. intervals: half of each mean's 95% interval. mixtures: at
    the start, and after each generation. opponents: by generation, the shares of each side's agents
    as opponents of new agents. by_kind: at the duel's end, mean returns of the first side's agents
    [R] against opponents, by the opponent's kind and name. The kinds are "fixed" agents of the
    environment, agents "by hand", other agents at the "start", and "learned" agents. is_own:
    whether this user's command wrote the file.
    """

    config: dict[str, Any]
    duel: dict[str, Any]
    agents: dict[str, list[str]]
    payoffs: list[list[float]] = field(default_factory=list)
    intervals: list[list[float]] = field(default_factory=list)
    mixtures: list[Shares] = field(default_factory=list)
    opponents: list[Shares] = field(default_factory=list)
    by_kind: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    is_own: bool = field(default=True, compare=False)

    def write(self, path: Path) -> None:
        """Replace the file in the folder `path` in one step. Raises OSError."""
        write_json(path / DUEL_FILE, self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        values = dataclasses.asdict(self)
        del values["is_own"]
        return signed(values) if self.is_own else values

    @property
    def responses(self) -> dict[str, int]:
        asked = responses_of(self.duel.get("responses", ""))
        return {side: asked.get(side, 1) for side in self.agents}

    def n_agents(self, side: str, generation: int) -> int:
        """Return how many agents a side had after a generation. Generation 0 is the start."""
        later = len(self.opponents) - generation
        return len(self.agents[side]) - later * self.responses[side]

    def of_generation(self, side: str, generation: int) -> list[str]:
        """Return the agents that a side got in a generation. Generation 0 is the start."""
        first = self.n_agents(side, generation - 1) if generation else 0
        return self.agents[side][first : self.n_agents(side, generation)]

    def agent(self, path: Path, name: str) -> str:
        """Return an agent's name or path for an environment. path: the duel's folder."""
        return str(path / name) if (path / name).is_file() else name

    def weights(self, path: Path, side: str, shares: Shares) -> dict[str, float]:
        """Return the shares of a side's agents, by the name or path for an environment."""
        agents = [self.agent(path, name) for name in self.agents[side]]
        return dict(zip(agents, shares[side], strict=False))

    def require_playable(self, path: Path, agents: Iterable[str]) -> None:
        """Raise UserError if the duel is a stranger's, and an agent is a class to import, or a path
        outside the duel's folder."""
        for name in () if self.is_own else agents:
            # If a file has a class's name, and the file is removed, the name would mean the class.
            # A comma ends an agent's name, and another name would follow.
            is_path = not (":" in name or "," in name)
            lies_below = is_path and not (os.path.isabs(name) or ".." in Path(name).parts)
            if not (is_plain(name) or (lies_below and (path / name).is_file())):
                raise UserError(
                    f"{path / DUEL_FILE}: only the file mentions the agent {name}, which would be "
                    "imported or read: give --trust if you trust its author"
                )


def is_duel(path: Path) -> bool:
    return (path / DUEL_FILE).is_file()


def read_duel(path: Path) -> DuelRecord:
    """Return the record in a duel's folder. Raises UserError."""
    with reading(path / DUEL_FILE):
        values = read_json(path / DUEL_FILE, MOST_OF_LONG_RECORD)
        is_own = made_here(values)
        for names in (values, values["config"]):
            names.pop(SIGNATURE, None)
        record = DuelRecord(**values, is_own=is_own)
        _require_whole(record)
        return record


def read_exploit(path: Path) -> dict[str, Any]:
    """Return the result of the command `exploit` in a folder. Raises UserError."""
    with reading(path / EXPLOIT_FILE):
        found = dict(read_json(path / EXPLOIT_FILE, MOST_OF_LONG_RECORD))
        found["attackers"][found["worst"]]
        for score in [*found["attackers"], *found["fixed"].values()]:
            _mean_in(score)
        for attacker in found["attackers"]:
            attacker["run"]
        return {**found, "agent": str(found["agent"]), "side": str(found["side"])}


Measured = dict[str, dict[int, tuple[float, float]]]
"""Mean and half its 95% interval, by side and generation."""


def read_measured(path: Path, record: DuelRecord) -> tuple[Measured, Measured]:
    """Return the scores of a duel's agents by `evaluate`, and the means of each agent's worst
    attacker by `exploit`.

    The scores are in files `SIDE/evaluation.json`, and the attacks in `*/exploit.json`. These files
    are in `generation-N`, or in `start`. Attacks on other agents are ignored. Raises UserError,
    also if no pair has played yet.
    """
    if not record.mixtures:
        raise UserError(f"{path} has no payoffs yet: give the command of the duel again")
    scores: Measured = {side: {} for side in record.agents}
    attacks: Measured = {side: {} for side in record.agents}
    for generation in range(len(record.mixtures)):
        folder = path / (f"generation-{generation}" if generation else "start")
        for side, score in scores.items():
            if (file := folder / label(side) / "evaluation.json").is_file():
                score[generation] = _score_in(file)
        for file in sorted(folder.glob(f"*/{EXPLOIT_FILE}")):
            found = read_exploit(file.parent)
            side = found["side"]
            attacked = map(
                _place, record.of_generation(side, generation) if side in attacks else []
            )
            if _place(found["agent"]) in attacked:
                gained, attack = attacks[side], found["attackers"][found["worst"]]
                gained[generation] = max(_mean_in(attack), gained.get(generation, (-np.inf, 0.0)))
    return scores, attacks


def _score_in(file: Path) -> tuple[float, float]:
    """Return a score and half its interval. If there are cells, the score is the cells' sum."""
    with reading(file):
        found = read_json(file, MOST_OF_LONG_RECORD)
        return _mean_in(found, "total_" if "total_interval_95" in found else "")


def _place(agent: str) -> tuple[str, ...]:
    """Return the part of an agent's path that does not depend on the current folder."""
    return Path(agent.removesuffix(".npz")).parts[-2:]


def _mean_in(score: Mapping[str, Any], kind: str = "") -> tuple[float, float]:
    """Return a mean and half its 95% interval. Raise an error of NOT_OURS."""
    mean, interval = score[kind.strip("_") or "mean"], score[f"{kind}interval_95"] or 0.0
    require_numbers(mean, interval)
    if not 0 <= interval < np.inf:
        raise ValueError(f"its interval is {interval}")
    return mean, interval


def responses_of(text: str) -> dict[str, int]:
    """Return the numbers of "side=number,side=number". Raises ConfigError."""
    try:
        numbers = weights_of(text, "responses") if text else {}
    except ConfigError:
        told = "is not side=number, with a number of policies from 1 on"
        raise ConfigError("responses", f"{text!r:.200} {told}") from None
    for side, number in numbers.items():
        if number != int(number):
            raise ConfigError("responses", f"{side}={number}: give a whole number of policies")
    return {side: int(number) for side, number in numbers.items()}


def label(side: str) -> str:
    return re.sub(r"[^\w-]+", "-", side)


def _require_whole(record: DuelRecord) -> None:
    """Raise an error of NOT_OURS if the parts of a record do not fit together."""
    if not type(record.config) is type(record.duel) is dict:
        raise ValueError("its settings have no names")
    (first, rows), (second, columns) = record.agents.items()
    if not all(type(name) is str for name in (first, second, *rows, *columns)):
        raise ValueError("its agents have no names")
    if not record.mixtures and any((rows, columns, record.payoffs, record.intervals)):
        raise ValueError("it has agents without mixtures")
    size, n_met = (len(rows), len(columns)), len(record.opponents)
    if record.mixtures and any(
        np.array(table, np.float64).shape != size or not np.isfinite(table).all()
        for table in (record.payoffs, record.intervals)
    ):
        raise ValueError("its tables do not fit its agents")
    for payoffs in record.by_kind.values():
        of_kind = np.array([*payoffs.values()], np.float64)
        if of_kind.ndim != 2 or of_kind.shape[1] > size[0] or not np.isfinite(of_kind).all():
            raise ValueError("its payoffs by kind do not fit its agents")
    for kind in (record.mixtures[: n_met + 1], record.opponents):
        for generation, shares in enumerate(kind):
            for side in record.agents:
                of_side = np.array(shares[side], np.float64)
                is_whole = (of_side >= 0).all() and abs(of_side.sum() - 1) < 1e-6
                if len(of_side) != record.n_agents(side, generation) or not is_whole:
                    raise ValueError("its mixtures do not fit its agents")
    if len(record.mixtures) != (n_met + 1) * bool(record.mixtures):
        raise ValueError("it has other mixtures than generations")
