"""The harness of all benchmarks: the order of turns, the figures, the tables."""

from __future__ import annotations

import functools
import math

import pytest

from workflow_rl.measuring.benchmark import in_turns, machine_name, median_ratio, spread
from workflow_rl.text_table import text_table


def test_every_variant_has_a_turn_in_every_round_and_rounds_change_direction() -> None:
    order: list[tuple[int, str]] = []

    def turn(name: str, number: int) -> int:
        order.append((number, name))
        return len(order)

    results = in_turns({name: functools.partial(turn, name) for name in "abc"}, 2)
    assert order == [*((0, name) for name in "abc"), *((1, name) for name in "cba")]
    assert results == {"a": [1, 6], "b": [2, 5], "c": [3, 4]}


def test_a_ratio_is_the_median_of_the_rounds_and_not_of_the_medians() -> None:
    assert median_ratio([9, 16, 38], [10, 20, 40]) == 0.9


def test_a_spread_is_a_median_and_a_range() -> None:
    assert spread([3000, 1000, 2000]) == "2,000 (1,000 to 3,000)"
    assert spread([1.25, 1.5], "{:.1f}".format) == "1.4 (1.2 to 1.5)"
    assert spread([7]) == "7"
    assert spread([1, math.inf, math.inf]) == "- (1 to -)"


@pytest.mark.parametrize("markdown", [False, True])
def test_a_table_has_all_cells_and_a_line_between_groups(markdown: bool) -> None:
    rows = [["a", 1], ["bb", 22], ["c", 3]]
    shown = str(text_table(["name", "n"], rows, groups="xxy", markdown=markdown)).splitlines()
    bar = "|" if markdown else "│"
    cells = [[cell.strip() for cell in line.split(bar)[1:-1]] for line in shown if bar in line]
    assert [["name", "n"], *([one, str(n)] for one, n in rows)] == [
        line for line in cells if not set(line[0]) & set(":-")
    ]
    if not markdown:
        assert [line[0] for line in shown].count("├") == 2  # Below the headings, and above "c".


def test_the_machine_is_named() -> None:
    assert " cores of " in machine_name()
