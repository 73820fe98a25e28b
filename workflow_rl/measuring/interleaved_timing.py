"""Measurements side by side: rounds in turns, medians and ranges, tables, the machine's name.

A machine may be slower for a minute, or shared. So every variant has a turn in every round, and
ratios are taken within a round.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TypeVar

from tqdm import tqdm

from workflow_rl.runs.machine_facts import environment

Name = TypeVar("Name", bound=Hashable)
Result = TypeVar("Result")


def in_turns(
    turns: Mapping[Name, Callable[[int], Result]], rounds: int, quiet: bool = True
) -> dict[Name, list[Result]]:
    """Call every turn once in each round, and return the results of each variant, round by round.

    A turn is called with the number of its round. Every other round goes backwards, so that a
    machine that slows down steadily favours no variant.
    """
    results: dict[Name, list[Result]] = {name: [] for name in turns}
    with tqdm(total=rounds * len(turns), unit="turn", leave=False, disable=quiet or None) as bar:
        for number in range(rounds):
            for name in list(turns)[:: 1 if number % 2 == 0 else -1]:
                bar.set_description(str(name))
                results[name].append(turns[name](number))
                bar.update()
    return results


def median_ratio(values: Sequence[float], others: Sequence[float]) -> float:
    """Return the median of the ratios within each round."""
    return statistics.median(value / other for value, other in zip(values, others, strict=True))


def spread(values: Sequence[float], shown: Callable[[float], str] = "{:,.0f}".format) -> str:
    """Return the median and the range as text, such as "1.2 (1.0 to 1.4)".

    "-" stands for infinity: a seed that did not reach its target.
    """
    numbers = statistics.median(values), min(values), max(values)
    middle, low, high = ("-" if math.isinf(number) else shown(number) for number in numbers)
    return middle if len(values) == 1 else f"{middle} ({low} to {high})"


def machine_name() -> str:
    """Return the processor, its usable cores and Python's version in words."""
    about = environment()
    return f"{about['cores']} cores of {about['processor']}, Python {about['python']}"
