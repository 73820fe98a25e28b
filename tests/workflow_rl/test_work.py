"""What is handed out to workers, in which portions, and again if a worker is lost."""

from __future__ import annotations

import itertools
import math

import pytest

from agents.trajectory import Trajectory
from workflow_rl import work as work_module
from workflow_rl.episode import episode_spec
from workflow_rl.work import EpisodeWork


def sizes_of_blocks(n_specs: float, largest: int, smallest: int = 1, n_workers: int = 2):
    specs = (episode_spec(0, number, "mixed") for number in itertools.count())
    work = EpisodeWork(specs, n_specs, n_workers, largest, smallest)
    while (request := work.request(0)) is not None:
        yield len(request.payload)


def test_blocks_shrink_so_that_workers_end_together():
    # A quarter of what waits, at least one: 100 -> 25, 75 -> 19, 56 -> 14, ...
    assert list(sizes_of_blocks(100, 50))[:3] == [25, 19, 14]
    assert list(sizes_of_blocks(100, 50))[-3:] == [1, 1, 1]
    assert list(sizes_of_blocks(100, 10))[:2] == [10, 10]
    assert list(sizes_of_blocks(5, 1)) == [1] * 5


def test_a_worker_is_given_as_many_episodes_as_it_plays_at_once_if_there_are():
    assert list(sizes_of_blocks(30, 1, smallest=12)) == [12, 12, 6]


def test_blocks_of_endless_work_are_as_large_as_allowed():
    assert list(itertools.islice(sizes_of_blocks(math.inf, 7), 3)) == [7, 7, 7]


@pytest.fixture
def clock(monkeypatch):
    """The time by which work judges its workers, in a list."""
    now = [0.0]
    monkeypatch.setattr(work_module.time, "perf_counter", lambda: now[0])
    return now


def finish(work: EpisodeWork, worker: int) -> None:
    """The worker answers with all that it was asked."""
    blank = Trajectory(*[None] * 10)  # type: ignore[arg-type]
    for number in list(work._playing[worker]):
        work.answered(worker, [blank._replace(episode=number)])


def test_the_last_episodes_are_left_to_the_workers_that_finish_them_sooner(clock):
    specs = [episode_spec(0, number, "mixed") for number in range(20)]
    work = EpisodeWork(specs, 20, n_workers=3)
    for worker in range(3):
        assert work.request(worker) is not None
    for now, worker in ((1.0, 1), (1.0, 2), (10.0, 0)):
        clock[0] = now
        finish(work, worker)
    # 17 wait. The two fast ones need 8.5 s and the rest of an episode: worker 0 would take 10.
    assert work.request(0) is None
    assert work.request(1) is not None
    work.lost(1)
    assert work.request(0) is not None, "worker 1 is another one now, of unknown pace"


def test_a_slow_worker_is_used_while_there_is_much_to_do(clock):
    specs = [episode_spec(0, number, "mixed") for number in range(30)]
    work = EpisodeWork(specs, 30, n_workers=3)
    for worker in range(3):
        work.request(worker)
    for now, worker in ((1.0, 1), (1.0, 2), (10.0, 0)):
        clock[0] = now
        finish(work, worker)
    # 27 wait: the fast ones need 13.5 s.
    assert work.request(0) is not None


def test_whoever_is_fastest_always_takes_what_waits(clock):
    specs = [episode_spec(0, number, "mixed") for number in range(4)]
    work = EpisodeWork(specs, 4, n_workers=3)
    for worker in range(3):
        work.request(worker)
    for now, worker in ((1.0, 1), (1.0, 2), (10.0, 0)):
        clock[0] = now
        finish(work, worker)
    assert work.request(0) is None
    assert work.request(2) is not None
