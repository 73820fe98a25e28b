"""Work that is spread over processes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

from workflow_rl.collection.local_pool import SAFE_PATH, variables_set

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_processes(
    work: Callable[[Item], Result], items: Sequence[Item], n_workers: int
) -> Iterator[Result]:
    """Yield the results in the order of the items. One worker is this process."""
    if n_workers == 1:
        yield from map(work, items)
        return
    with variables_set(SAFE_PATH):  # `map` starts all processes.
        pool = ProcessPoolExecutor(n_workers, multiprocessing.get_context("spawn"))
        results = pool.map(work, items)
    with pool:
        yield from results
