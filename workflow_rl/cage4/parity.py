"""Two simulators of CAGE Challenge 4 in lock-step: the first difference between them, if any."""

from __future__ import annotations

import functools
import gc
import hashlib
import json
import marshal
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage.network_batch import SimulationError
from workflow_rl.cage.processes import in_processes
from workflow_rl.cage4.agent.red_scripted import RED_TEAMS, RandomReds
from workflow_rl.cage4.agent.scripted import ScriptedTeam, make_scripted_team
from workflow_rl.cage4.agent.trained_reds import PolicyReds, load_reds
from workflow_rl.cage4.cyborg.simulators import make_simulator
from workflow_rl.cage4.interface import RedSideSimulator, Simulator, StepResult
from workflow_rl.cage4.scenario4 import (
    AGENTS,
    CHALLENGE,
    FROM_OUTSIDE,
    MAX_STEPS,
    N_MESSAGE_BITS,
    RED_AGENTS,
    Scenario,
)
from workflow_rl.output_files import appending


class Pair(NamedTuple):
    """One episode to compare. red_agent: a class of CybORG, or what chooses from outside: one of
    `RED_TEAMS`, or a trained red team's path. steps: the episode's length, at most `max_steps` of
    the simulators."""

    blue: str
    red_agent: str
    seed: int
    steps: int = MAX_STEPS

    def __str__(self) -> str:
        return f"blue {self.blue}, red {self.red_agent}, seed {self.seed}"


class Difference(NamedTuple):
    """Where an episode first differs. step: 0 is the reset. what: its name, for people."""

    pair: Pair
    step: int
    what: str
    first: Any
    second: Any

    def __str__(self) -> str:
        return (
            f"{self.pair}, step {self.step}: {self.what} is {self.first!r} in the first simulator, "
            f"{self.second!r} in the second"
        )


class Comparison(NamedTuple):
    """The result of one episode.

    steps: that both simulators played. difference: in words, "" if there is none. error: what both
    simulators raised at the same step, or "". seconds: CPU time of each simulator. rare_paths:
    counts, if the sped-up CybORG plays.
    """

    pair: Pair
    steps: int
    difference: str
    error: str
    seconds: tuple[float, float]
    rare_paths: dict[str, int]


def compare_episode(
    first: Any,
    second: Any,
    pair: Pair,
    state_every: int = 10,
    team: ScriptedTeam | None = None,
) -> tuple[int, Difference | None, str, tuple[float, float]]:
    """Play one episode on both simulators, with a team that sees the first: `team`, or the scripted
    one that the pair names.

    Observations, raw observations, masks, rewards, messages, done, busy agents and the generator
    are compared at every step, the whole state at every `state_every`-th one and at the end. If a
    red team chooses from outside, what its agents see is compared too, at every step.

    first, second: simulators, RedSideSimulators for a red team.

    Returns:
        Steps played, the first difference, the error that both raised, and CPU seconds of both.
    """
    clocks = (_Clock(), _Clock())
    team = team or make_scripted_team(pair.blue)
    with clocks[0]:
        observations = first.reset(pair.seed)
    with clocks[1]:
        others = second.reset(pair.seed)
    facts = [_facts_of_reset(first, observations), _facts_of_reset(second, others)]
    team.reset(first.masks, pair.seed)
    reds = None if pair.red_agent in RED_AGENTS else _reds_outside(pair.red_agent)
    if reds is not None:
        reds.reset(pair.seed)
    error = ""
    for step in range(pair.steps + 1):
        with_state = step % state_every == 0 or step == pair.steps
        if reds is not None and not error:
            for simulator, shown in zip((first, second), facts, strict=True):
                if shown.get("error") != "raised":
                    shown.update(_facts_of_reds(simulator))
        found = _first_difference(first, second, facts, with_state)
        if found is not None or error or step == pair.steps:
            difference = None if found is None else Difference(pair, step, *found)
            return step, difference, error, (clocks[0].seconds, clocks[1].seconds)
        actions, messages = team.act(observations, first.raw_arrays)
        if reds is not None:
            chosen = reds.act(first.red_row(), first.red_sessions())
            first.choose(*chosen)
            second.choose(*chosen)
        facts, results = [], []
        for simulator, clock in zip((first, second), clocks, strict=True):
            with clock:
                result = _step(simulator, actions, messages)
            results.append(result)
            facts.append(_facts_of_step(simulator, result))
        if isinstance(results[0], StepResult):
            observations = results[0].observations
        else:
            error = results[0]
    raise AssertionError("an episode ends")


@functools.cache
def _reds_outside(name: str) -> RandomReds | PolicyReds:
    return RED_TEAMS[name]() if name in RED_TEAMS else PolicyReds(load_reds(name))


class _Clock:
    """CPU seconds spent inside."""

    seconds = 0.0

    def __enter__(self) -> None:
        self._start = time.process_time()

    def __exit__(self, *error: object) -> None:
        self.seconds += time.process_time() - self._start


def _step(
    simulator: Simulator, actions: list[int], messages: NDArray[np.bool_] | None
) -> StepResult | str:
    try:
        return simulator.step(actions, messages)
    except SimulationError as error:
        return str(error)


def _facts_of_reset(
    simulator: Simulator, observations: Sequence[NDArray[np.int64]]
) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    for agent, vector in zip(AGENTS, observations, strict=True):
        facts[f"dtype of {agent}"] = vector.dtype.name
        facts[f"observation of {agent}"] = vector[:-N_MESSAGE_BITS]
        facts[f"messages to {agent}"] = vector[-N_MESSAGE_BITS:]
    for agent, mask in zip(AGENTS, simulator.masks, strict=True):
        facts[f"mask of {agent}"] = mask
    facts["phase"] = simulator.phase
    facts["generator"] = simulator.generator_state()
    return facts


def _facts_of_reds(simulator: RedSideSimulator) -> dict[str, Any]:
    return {"red row": simulator.red_row(), "red sessions": repr(simulator.red_sessions())}


def _facts_of_step(simulator: Simulator, result: StepResult | str) -> dict[str, Any]:
    if isinstance(result, str):
        # The words are each simulator's own.
        return {"error": "raised"}
    return {
        "error": "none",
        "machine_reward": result.machine_reward,
        "action_cost": result.action_cost,
        "reward": result.reward,
        "done": result.done,
        "busy_steps": simulator.busy_steps,
        **_facts_of_reset(simulator, result.observations),
    }


def _first_difference(
    first: Simulator, second: Simulator, facts: list[dict[str, Any]], with_state: bool
) -> tuple[str, Any, Any] | None:
    for name, value in facts[0].items():
        other = facts[1].get(name, "missing")
        if value is not other and not np.array_equal(value, other):
            return _element(name, value, other)
    if facts[0].get("error") == "raised":
        return None
    raw = zip(AGENTS, first.raw_observations(), second.raw_observations(), strict=True)
    for agent, shown, other in raw:
        found = difference_of(shown, other, f"raw observation of {agent}")
        if found is not None:
            return found
    if not with_state:
        return None
    return difference_of(first.true_state(), second.true_state(), "state")


def _element(name: str, value: Any, other: Any) -> tuple[str, Any, Any]:
    """Name the first element of a vector that differs."""
    if np.shape(value) != np.shape(other) or np.ndim(value) != 1:
        return name, value, other
    index = int(np.flatnonzero(np.asarray(value) != np.asarray(other))[0])
    return f"{name}[{index}]", value[index].item(), other[index].item()


def difference_of(value: Any, other: Any, name: str) -> tuple[str, Any, Any] | None:
    """Return where two states or dictionaries first differ: its path, and both values.

    The order of keys counts.
    """
    if marshal.dumps(value, 2) == marshal.dumps(other, 2):  # Unlike ==, 1 is not True here.
        return None
    if isinstance(value, dict) and isinstance(other, dict):
        value, other = (list(map(list, shown.items())) for shown in (value, other))
    if not (isinstance(value, list) and isinstance(other, list)):
        return name, value, other
    for i, pair in enumerate(zip(value, other, strict=False)):
        label = pair[0][0] if isinstance(pair[0], list) and pair[0] else None
        path = f"{name}[{label if isinstance(label, str) else i}]"
        found = difference_of(*pair, path)
        if found is not None:
            return found
    return f"length of {name}", len(value), len(other)


@functools.cache
def _simulators(
    names: tuple[str, str], red_agent: str, max_steps: int, scenario: Scenario
) -> list[Simulator]:
    red_class = red_agent if red_agent in RED_AGENTS else FROM_OUTSIDE
    return [make_simulator(name, red_class, max_steps, scenario) for name in names]


def _compare_by_name(
    pair: Pair, names: tuple[str, str], max_steps: int, state_every: int, scenario: Scenario
) -> Comparison:
    first, second = _simulators(names, pair.red_agent, max_steps, scenario)
    counting: Any = nullcontext(Counter())
    if "cyborg" in names:
        from workflow_rl.cage4.cyborg.rare_paths import counted_rare_paths

        counting = counted_rare_paths()
    with counting as counts, _garbage_collected_seldom():
        steps, difference, error, seconds = compare_episode(first, second, pair, state_every)
    text = "" if difference is None else str(difference)
    return Comparison(pair, steps, text, error, seconds, dict(counts))


@contextmanager
def _garbage_collected_seldom() -> Iterator[None]:
    """True states are large lists without cycles: searching them for garbage finds nothing."""
    thresholds = gc.get_threshold()
    gc.set_threshold(100_000, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)


def comparisons(
    pairs: Iterable[Pair],
    names: tuple[str, str],
    record: Path,
    max_steps: int = MAX_STEPS,
    state_every: int = 10,
    n_workers: int = 1,
    scenario: Scenario = CHALLENGE,
) -> Iterator[Comparison]:
    """Compare two simulators on many episodes, and go on where an earlier call stopped.

    Args:
        pairs: the episodes.
        names: two of `SIMULATORS`.
        record: a file of lines to which each result is added. Its episodes are not played again,
            if they were compared as this call asks, by the same code of this room.
        max_steps, state_every: see `make_simulator` and `compare_episode`.
        n_workers: processes.
        scenario: of all episodes.

    Yields:
        The results of all episodes: first those in the record, then the others as they end.
    """
    asked = {
        **{"names": list(names), "max_steps": max_steps, "state_every": state_every},
        **{"scenario": asdict(scenario), "code": _code_digest()},
    }
    known = _recorded(record, asked)
    missing = []
    for pair in pairs:
        if pair in known:
            yield known[pair]
        else:
            missing.append(pair)
    made: dict[str, Any] = {"names": names, "max_steps": max_steps, "scenario": scenario}
    play = functools.partial(_compare_by_name, state_every=state_every, **made)
    for comparison in in_processes(play, missing, n_workers):
        with appending(record) as file:
            file.write(json.dumps({**asked, "comparison": comparison}) + "\n")
        yield comparison


def _code_digest() -> str:
    """Return a digest of this room's code: a result counts for the code that was compared."""
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _recorded(record: Path, asked: dict[str, Any]) -> dict[Pair, Comparison]:
    known: dict[Pair, Comparison] = {}
    if not record.exists():
        return known
    for line in record.read_text().splitlines():
        try:
            entry = json.loads(line)
        except json.JSONDecodeError:
            continue  # The last line of a run that was killed.
        if all(entry.get(name) == value for name, value in asked.items()):
            pair, steps, difference, error, seconds, counts = entry["comparison"]
            known[Pair(*pair)] = Comparison(
                Pair(*pair), steps, difference, error, tuple(seconds), counts
            )
    return known


def summary(results: Sequence[Comparison], names: tuple[str, str]) -> list[str]:
    """Return lines that say what was compared, the differences, speeds and rare paths."""
    steps = sum(result.steps for result in results)
    differences = [result.difference for result in results if result.difference]
    seconds = [sum(result.seconds[i] for result in results) for i in range(2)]
    counts: Counter[str] = Counter()
    for result in results:
        counts.update(result.rare_paths)
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
    lines += [f"raised by both in {n} episodes: {error}" for error, n in errors.items()]
    return lines + [f"{name}: {n:,} times" for name, n in counts.items()]
