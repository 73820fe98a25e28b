"""What CAGE-4 brings to a comparison of two of its simulators: see `cage.comparison`."""

from __future__ import annotations

import functools
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage.comparison import (
    ComparedEpisode,
    ComparedSimulator,
    Comparison,
    Difference,
    WorkShare,
    are_same,
    comparisons,
)
from workflow_rl.cage4.agent.blue_team import SingleTeam
from workflow_rl.cage4.agent.scripted import make_scripted_team
from workflow_rl.cage4.cyborg.simulators import make_simulator
from workflow_rl.cage4.red.roster import OneTeam, load_reds
from workflow_rl.cage4.red.scripted import RED_TEAMS, Chosen, RandomReds
from workflow_rl.cage4.scenario import scenario4
from workflow_rl.cage4.scenario.simulator_protocol import RedSideSimulator, Simulator
from workflow_rl.output_files import appending

AllChosen: TypeAlias = tuple[list[int], NDArray[np.bool_] | None, Chosen | None]
"""What all agents do in one step: blue's five actions, blue's messages or None, and the arguments
of `RedSideSimulator.choose`, or None if a class of CybORG plays Red."""


class TeamAndReds:
    """CAGE-4's `comparison.Players`. reds: None if a class of CybORG plays Red."""

    def __init__(self, team: SingleTeam, reds: RandomReds | OneTeam | None) -> None:
        self._team = team
        self._reds = reds

    def reset(self, episode: ComparedEpisode, first: SimulatorSide) -> None:
        self._team.reset(first.simulator.masks, episode.seed)
        if self._reds is not None:
            self._reds.reset(episode.seed)

    def choose(self, first: SimulatorSide) -> AllChosen:
        actions, messages = self._team.act_in(first.simulator, first.observations)
        if self._reds is None:
            return actions, messages, None
        red_side = cast(RedSideSimulator, first.simulator)
        return actions, messages, self._reds.act(red_side.red_row(), red_side.red_sessions())


class SimulatorSide:
    """A simulator, as a `comparison.ComparedSimulator`.

    from_outside: whether the simulator is a RedSideSimulator. Then, what the red agents see is
        compared, too.
    """

    def __init__(self, simulator: Any, from_outside: bool = False) -> None:
        self.simulator: Simulator = simulator
        self._red_side: RedSideSimulator | None = simulator if from_outside else None

    def reset(self, episode: ComparedEpisode) -> None:
        self.observations = self.simulator.reset(episode.seed)
        self._results: dict[str, Any] = {}

    def step(self, chosen: AllChosen) -> None:
        actions, messages, red_choices = chosen
        if self._red_side is not None and red_choices is not None:
            self._red_side.choose(*red_choices)
        result = self.simulator.step(actions, messages)
        self.observations = result.observations
        self._results = result._asdict() | {"busy_steps": self.simulator.busy_steps}
        del self._results["observations"]  # `shown` lists them by agent.

    def shown(self) -> dict[str, Any]:
        facts = dict(self._results)
        for agent, vector in zip(scenario4.AGENTS, self.observations, strict=True):
            facts[f"dtype of {agent}"] = vector.dtype.name
            facts[f"observation of {agent}"] = vector[: -scenario4.N_MESSAGE_BITS]
            facts[f"messages to {agent}"] = vector[-scenario4.N_MESSAGE_BITS :]
        for agent, mask in zip(scenario4.AGENTS, self.simulator.masks, strict=True):
            facts[f"mask of {agent}"] = mask
        facts["phase"] = self.simulator.phase
        facts["generator"] = self.simulator.generator_state()
        if self._red_side is not None:
            facts["red row"] = self._red_side.red_row()
            facts["red sessions"] = repr(self._red_side.red_sessions())
        for agent, shown in zip(scenario4.AGENTS, self.simulator.raw_observations(), strict=True):
            facts[f"raw observation of {agent}"] = shown
        return facts

    def network(self) -> dict[str, Any]:
        return {"state": self.simulator.true_state()}


@dataclass(frozen=True)
class Cage4Comparison:
    """See `comparison.ComparedChallenge`.

    names: the two simulators, each one of SIMULATORS or PUBLISHED.
    max_steps: length of the longest episode.
    scenario: the scenario of all episodes.

    An episode's red agent is a class of CybORG, one of `RED_TEAMS`, or the path of a trained red
    team. Teams of `RED_TEAMS` and trained teams choose from outside of the simulator.
    """

    names: tuple[str, str]
    max_steps: int = scenario4.MAX_STEPS
    scenario: scenario4.Scenario = scenario4.CHALLENGE

    def simulators(self, red_agent: str) -> tuple[SimulatorSide, SimulatorSide]:
        from_outside = red_agent not in scenario4.RED_AGENTS
        red_class = scenario4.FROM_OUTSIDE if from_outside else red_agent
        first, second = (
            make_simulator(name, red_class, self.max_steps, self.scenario) for name in self.names
        )
        return SimulatorSide(first, from_outside), SimulatorSide(second, from_outside)

    def players(self, episode: ComparedEpisode) -> TeamAndReds:
        is_class = episode.red_agent in scenario4.RED_AGENTS
        reds = None if is_class else _reds_outside(episode.red_agent)
        return TeamAndReds(make_scripted_team(episode.blue), reds)

    def described(
        self,
        difference: Difference,
        first: ComparedSimulator,
        second: ComparedSimulator,
    ) -> str:
        (blue, red, seed, _), step, what = difference
        name, pair = next(iter(what.items()))
        path, value, other = first_element(name, *pair)
        return (
            f"blue {blue}, red {red}, seed {seed}, step {step}: {path} is {value!r} in the first "
            f"simulator, {other!r} in the second"
        )


@functools.cache
def _reds_outside(name: str) -> RandomReds | OneTeam:
    return RED_TEAMS[name]() if name in RED_TEAMS else OneTeam(load_reds(name))


def first_element(name: str, value: Any, other: Any) -> tuple[str, Any, Any]:
    """Return the path of the first element that differs, and the two elements.

    name: the beginning of the path.
    value, other: two values that differ: vectors, or plain values. An order of keys can differ.
    """
    if isinstance(value, np.ndarray):
        if np.shape(value) != np.shape(other) or value.ndim != 1:
            return name, value, other
        index = int(np.flatnonzero(value != other)[0])
        return f"{name}[{index}]", value[index].item(), other[index].item()
    if isinstance(value, dict) and isinstance(other, dict):
        value = [list(item) for item in value.items()]
        other = [list(item) for item in other.items()]
    if not (isinstance(value, list) and isinstance(other, list)):
        return name, value, other
    for i, (part, other_part) in enumerate(zip(value, other, strict=False)):
        if not are_same(part, other_part):
            label = part[0] if isinstance(part, list) and part else None
            path = f"{name}[{label if isinstance(label, str) else i}]"
            return first_element(path, part, other_part)
    return f"length of {name}", len(value), len(other)


def recorded_comparisons(
    challenge: Cage4Comparison,
    episodes: Iterable[ComparedEpisode],
    record: Path,
    state_every: int = 10,
    n_workers: int = 1,
) -> Iterator[Comparison]:
    """Compare many episodes, and continue where an earlier call stopped.

    Args:
        record: a file to which each result is appended as a line. An episode in the file is not
            played again, if the file's arguments and code of `cage4` equal this call's.
        state_every: number of steps between comparisons of the whole states.
        n_workers: the number of processes.

    Yields:
        The results of all episodes: first those in the record, then the others as they end.
    """
    asked = asdict(challenge) | {"names": list(challenge.names)}
    asked |= {"state_every": state_every, "code": _code_digest()}
    known = _recorded(record, asked)
    missing = []
    for episode in episodes:
        if episode in known:
            yield known[episode]
        else:
            missing.append(WorkShare((episode,), state_every))
    for (result,) in comparisons(challenge, missing, n_workers):
        with appending(record) as file:
            file.write(json.dumps({**asked, "comparison": result}) + "\n")
        yield result


def _code_digest() -> str:
    """Return a digest of the code of `cage4`. A recorded result counts only for equal code."""
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _recorded(record: Path, asked: dict[str, Any]) -> dict[ComparedEpisode, Comparison]:
    known: dict[ComparedEpisode, Comparison] = {}
    if not record.exists():
        return known
    for line in record.read_text().splitlines():
        try:
            entry = json.loads(line)
        except json.JSONDecodeError:
            continue  # A command that was killed may leave part of a line.
        if all(entry.get(name) == value for name, value in asked.items()):
            names, steps, difference, error, seconds = entry["comparison"]
            episode = ComparedEpisode(*names)
            known[episode] = Comparison(episode, steps, difference, error, tuple(seconds))
    return known


def summary(results: Sequence[Comparison], names: tuple[str, str]) -> list[str]:
    steps = sum(result.steps for result in results)
    differences = [result.difference for result in results if result.difference]
    seconds = [sum(result.seconds[i] for result in results) for i in range(2)]
    errors = Counter(result.error for result in results if result.error)
    lines = [
        f"{len(results)} episodes, {steps:,} steps, {len(differences)} differences",
        *(f"  {difference}" for difference in differences[:10]),
        *(
            f"{name}: {steps / max(spent, 1e-9):,.1f} steps per CPU second, resets included"
            for name, spent in zip(names, seconds, strict=True)
        ),
        f"ratio of CPU seconds: {seconds[0] / max(seconds[1], 1e-9):,.1f}",
    ]
    return lines + [f"raised by both in {n} episodes: {error}" for error, n in errors.items()]
