"""Play episodes in two simulators of a challenge at once, and find the first difference.

A challenge brings a `ComparedChallenge`, which makes simulators and players and words a difference.
"""

import functools
import gc
import marshal
import multiprocessing
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from workflow_rl.collection.local_pool import SAFE_PATH, variables_set

Item = TypeVar("Item")
Result = TypeVar("Result")


class ComparedEpisode(NamedTuple):
    """One episode to compare. blue, red_agent: names of the players. steps: the episode's length,
    at most `max_steps` of the simulators."""

    blue: str
    red_agent: str
    seed: int
    steps: int


class ComparedSimulator(Protocol):
    """One simulator of a comparison. `shown` and `network` return values by name. A value is a
    NumPy array, or a value that `marshal` can write."""

    def reset(self, episode: ComparedEpisode) -> None: ...

    def step(self, chosen: Any) -> None:
        """Play a step with what `Players.choose` returned. Raises RuntimeError on failure."""

    def shown(self) -> dict[str, Any]:
        """Return what the reset or the last step shows. Called once after each reset and step."""

    def network(self) -> dict[str, Any]:
        """Return everything that can change a later step. Called less often than `shown`."""


class Players(Protocol):
    """The agents of both teams. They observe the first simulator only."""

    def reset(self, episode: ComparedEpisode, first: Any) -> None: ...

    def choose(self, first: Any) -> Any:
        """Return what both simulators play next."""


class Difference(NamedTuple):
    """Where an episode first differs.

    step: number of the step; 0 is the reset. what: for each name whose values differ, the value in
    the first simulator and the value in the second."""

    episode: ComparedEpisode
    step: int
    what: dict[str, tuple[Any, Any]]


class Comparison(NamedTuple):
    """The result of one episode.

    steps: how many steps both simulators played. difference: the first difference in words, or "".
    error: the first simulator's message if both raised an error, or "". seconds: CPU time of the
    first and the second simulator."""

    episode: ComparedEpisode
    steps: int
    difference: str
    error: str
    seconds: tuple[float, float]


class ComparedChallenge(Hashable, Protocol):
    """What a challenge brings to a comparison. Other processes receive this object as a pickle."""

    def simulators(self, red_agent: str) -> tuple[ComparedSimulator, ComparedSimulator]:
        """Return the two simulators, for episodes against this red agent."""

    def players(self, episode: ComparedEpisode) -> Players:
        """Return the players of an episode."""

    def described(
        self, difference: Difference, first: ComparedSimulator, second: ComparedSimulator
    ) -> str:
        """Return the difference in words. Both simulators are still at the step that differs."""


class WorkShare(NamedTuple):
    """Episodes that one process plays one after another, until an episode differs. network_every:
    see `compare_episode`."""

    episodes: tuple[ComparedEpisode, ...]
    network_every: int


def compare_episode(
    first: ComparedSimulator,
    second: ComparedSimulator,
    players: Players,
    episode: ComparedEpisode,
    network_every: int = 0,
) -> tuple[int, Difference | None, str, tuple[float, float]]:
    """Play one episode in both simulators, and compare what they show at every step.

    network_every: networks are compared at the reset, after every `network_every` steps, and at the
    last step. With 0, networks are not compared.

    Returns: steps played, the first difference, the first simulator's error if both raised an
    error or "", and CPU seconds of each simulator."""
    simulators = (first, second)
    seconds = [0.0, 0.0]
    errors = ["", ""]
    for i, simulator in enumerate(simulators):
        seconds[i] -= time.process_time()
        simulator.reset(episode)
        seconds[i] += time.process_time()
    players.reset(episode, first)
    for step in range(episode.steps + 1):
        is_last = step == episode.steps
        with_network = network_every > 0 and ((step % network_every) == 0 or is_last)
        what = _differing(first, second, errors, with_network)
        if what or all(errors) or is_last:
            difference = Difference(episode, step, what) if what else None
            error = errors[0] if all(errors) else ""
            return step, difference, error, (seconds[0], seconds[1])
        chosen = players.choose(first)
        for i, simulator in enumerate(simulators):
            seconds[i] -= time.process_time()
            errors[i] = _error_of(simulator, chosen)
            seconds[i] += time.process_time()
    raise AssertionError("an episode ends")


def _error_of(simulator: ComparedSimulator, chosen: Any) -> str:
    """Play a step. Return why the simulator cannot, or ""."""
    try:
        simulator.step(chosen)
    except RuntimeError as error:
        return str(error) or type(error).__name__
    return ""


def _differing(
    first: ComparedSimulator, second: ComparedSimulator, errors: Sequence[str], with_network: bool
) -> dict[str, tuple[Any, Any]]:
    if any(errors):
        # Two failures are equal: each simulator words its error in its own way.
        return {} if all(errors) else {"error": (errors[0] or "none", errors[1] or "none")}
    ours = first.shown()
    theirs = second.shown()
    if with_network:
        ours = ours | first.network()
        theirs = theirs | second.network()
    pairs = paired(ours, theirs)
    return {name: pair for name, pair in pairs.items() if not are_same(*pair)}


def paired(first: dict[str, Any], second: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return, for each name, the values in both simulators. A missing value is None."""
    names = dict.fromkeys((*first, *second))
    return {name: (first.get(name), second.get(name)) for name in names}


def are_same(value: Any, other: Any) -> bool:
    """Return whether two values are equal, also in the order of keys. 1 does not equal True."""
    if isinstance(value, np.ndarray):
        return np.array_equal(value, other)
    # Later formats write references to repeated objects, which can differ between equal values.
    return marshal.dumps(value, 2) == marshal.dumps(other, 2)


def comparisons(
    challenge: ComparedChallenge, shares: Sequence[WorkShare], n_workers: int
) -> Iterator[list[Comparison]]:
    """Yield the results of each share's episodes, in the order of the shares. n_workers: the
    largest number of processes. With 1, this process plays."""
    play = functools.partial(_play, challenge)
    yield from in_processes(play, shares, max(1, min(n_workers, len(shares))))


def in_processes(
    work: Callable[[Item], Result], items: Sequence[Item], n_workers: int
) -> Iterator[Result]:
    """Yield the results in the order of the items. If n_workers is 1, this process works."""
    if n_workers == 1:
        yield from map(work, items)
        return
    with variables_set(SAFE_PATH):  # `map` starts the processes, which inherit the variables.
        pool = ProcessPoolExecutor(n_workers, multiprocessing.get_context("spawn"))
        results = pool.map(work, items)
    with pool:
        yield from results


def _play(challenge: ComparedChallenge, share: WorkShare) -> list[Comparison]:
    results = list[Comparison]()
    for episode in share.episodes:
        simulators = _simulators(challenge, episode.red_agent)
        players = challenge.players(episode)
        with _garbage_collected_seldom():
            steps, difference, error, seconds = compare_episode(
                *simulators, players, episode, share.network_every
            )
        text = challenge.described(difference, *simulators) if difference else ""
        results.append(Comparison(episode, steps, text, error, seconds))
        if text:
            break
    return results


@functools.cache
def _simulators(
    challenge: ComparedChallenge, red_agent: str
) -> tuple[ComparedSimulator, ComparedSimulator]:
    return challenge.simulators(red_agent)


@contextmanager
def _garbage_collected_seldom() -> Iterator[None]:
    """Save time: networks are large lists without cycles, so the collector finds no garbage."""
    thresholds = gc.get_threshold()
    gc.set_threshold(100_000, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
