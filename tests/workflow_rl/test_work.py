"""What is handed out to workers, in which portions, and again if a worker is lost."""

from __future__ import annotations

import itertools
import math

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
