"""Rows of `compare.py` as the table of the page."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]

NAMES = {
    "ceiling": "playing at random",
    "cleanrl": "CleanRL's loop",
    "rllib": "RLlib",
    "sample_factory": "Sample Factory",
    "sb3": "Stable-Baselines3",
    "tianshou": "tianshou",
    "torchrl": "TorchRL",
    "cleanrl-in-process": "CleanRL's loop, in one process",
    "sb3-in-process": "Stable-Baselines3, in one process",
    "tianshou-in-process": "tianshou, in one process",
    "torchrl-in-process": "TorchRL, in one process",
    "sync": "workflow_rl, synchronous",
    "async": "workflow_rl, asynchronous",
    "async-rl": "workflow_rl, `--async-rl`",
}
APART = ("ceiling", "sync", "async", "async-rl")
"""Who is no peer."""
SIMULATORS = ("published", "cyborg", "compiled")
TARGET = "-60"
GAINS = {
    (
        "cyborg",
        "published",
    ): "On this package's fast CybORG, the asynchronous trainer trains {gain} times as many "
    "episodes a second as the best other library on CybORG as published.",
    (
        "compiled",
        "compiled",
    ): "If all have this package's compiled simulator, the asynchronous trainer trains "
    "{gain} times as many episodes a second as the best other library.",
}
"""A sentence for each pair of simulators: this package trains on the first simulator, and the best
of the others trains on the second."""
HEADING = (
    "| trained with | `published` | `cyborg` | `compiled` | s, `cyborg` | s, `compiled` | MB |\n"
    "| --- | --- | --- | --- | --- | --- | --- |"
)
BETWEEN = re.compile(r"(?<=<!-- tables -->\n).*(?=<!-- end -->)", re.DOTALL)


def spread(values: Sequence[float], shown: Callable[[float], str] = "{:,.0f}".format) -> str:
    """Return the median and the range as text, such as "1.2 (1.0 to 1.4)". "-" stands for infinity:
    a seed that did not reach its target."""
    numbers = statistics.median(values), min(values), max(values)
    middle, low, high = ("-" if math.isinf(number) else shown(number) for number in numbers)
    return middle if len(values) == 1 else f"{middle} ({low} to {high})"


def of(rows: Sequence[Row], simulator: str, name: str) -> dict[int, Row]:
    """Return the rows of a trainer on a simulator, by round."""
    return {
        row["round"]: row for row in rows if (row["simulator"], row["name"]) == (simulator, name)
    }


def names_on(rows: Sequence[Row], simulator: str) -> list[str]:
    return [name for name in NAMES if of(rows, simulator, name)]


def line(rows: Sequence[Row], name: str) -> str:
    """Return a trainer's line: episodes/s by simulator, seconds to TARGET, memory; medians."""
    found = {simulator: list(of(rows, simulator, name).values()) for simulator in SIMULATORS}
    is_trained = name != "ceiling"
    cells = [NAMES[name], *(rate_shown(found[simulator]) for simulator in SIMULATORS)]
    cells += [
        seconds_shown(found[simulator]) if is_trained else ""
        for simulator in ("cyborg", "compiled")
    ]
    cells.append(memory_shown(found["compiled"]) if is_trained else "")
    return f"| {' | '.join(cells)} |"


def rate_shown(rounds: Sequence[Row]) -> str:
    if not rounds:
        return ""
    rate = statistics.median(row["rate"] for row in rounds)
    return f"{rate:.1f}" if rate < 100 else f"{rate:.0f}"


def memory_shown(rounds: Sequence[Row]) -> str:
    return f"{statistics.median(row['megabytes'] for row in rounds):,.0f}" if rounds else ""


def seconds_shown(rounds: Sequence[Row]) -> str:
    """Return the median, for which a round that does not reach TARGET counts as the longest."""
    if not rounds:
        return ""
    reached = [row["reached"][TARGET] for row in rounds]
    middle = statistics.median_high([math.inf if s is None else s for s in reached])
    lasts = max(row["seconds"] for row in rounds)
    return f"{middle:.0f}" if middle < math.inf else f">{lasts:.0f}"


def gains(rows: Sequence[Row], name: str, simulator: str, over: str) -> list[float]:
    """Return by round this package's episodes/s over those of the best peer on `over`."""
    peers = [of(rows, over, peer) for peer in names_on(rows, over) if peer not in APART]
    return [
        row["rate"] / max(peer[n]["rate"] for peer in peers)
        for n, row in of(rows, simulator, name).items()
        if peers and all(n in peer for peer in peers)
    ]


def page_tables(told: Mapping[str, Any]) -> str:
    """Return in Markdown what the rows were measured with, and the table."""
    rows = told["rows"]
    # The first is the library itself; the rows have the others.
    versions = [" ".join(next(iter(found.items()))) for found in told["versions"].values()]
    lines = [f"Versions: {', '.join(versions)}."]
    measured: dict[str, list[str]] = {}
    for simulator, about in told["measured"].items():
        where = f"{about['cores']} cores of {about['processor']}, Python {about['python']}"
        measured.setdefault(f"{about['date']}, {where}", []).append(f"`{simulator}`")
    lines += [f"{', '.join(simulators)}: {where}." for where, simulators in measured.items()]
    for (simulator, over), words in GAINS.items():
        if found := gains(rows, "async", simulator, over):
            lines.append(words.format(gain=spread(found)))
    names = [name for name in NAMES if any(row["name"] == name for row in rows)]
    lines.append("\n".join([HEADING, *(line(rows, name) for name in names)]))
    return "\n\n".join(lines) + "\n"


def fill(page: Path, told: Mapping[str, Any]) -> str:
    """Return the page's text with the tables between its two marks."""
    return BETWEEN.sub(lambda _: page_tables(told), page.read_text())
