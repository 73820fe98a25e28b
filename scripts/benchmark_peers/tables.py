"""Rows of `compare.py` as tables of the page."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from workflow_rl.measuring.benchmark import spread

Row = Mapping[str, Any]

NAMES = {
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
OURS = ("sync", "async", "async-rl")
TITLES = {
    "published": "csle-cyborg as published",
    "cyborg": "the same, sped up by this package",
    "compiled": "this package's compiled simulator",
}
GAINS = {
    (
        "cyborg",
        "published",
    ): "This package, asynchronous on CybORG as it speeds it up, trains {gain} times as "
    "many episodes a second as the best of the others does on CybORG as published.",
    (
        "compiled",
        "compiled",
    ): "If all have this package's compiled simulator, the asynchronous trainer trains "
    "{gain} times as many episodes a second as the best of the others.",
}
"""A sentence for each pair of simulators: this package trains on the first simulator, and the best
of the others trains on the second."""
HEADING = (
    "| trained with | episodes/s | of random play | start, s | memory, MB | s to -60 | s to -30 |\n"
    "| --- | --- | --- | --- | --- | --- | --- |"
)
BETWEEN = re.compile(r"(?<=<!-- tables -->\n).*(?=<!-- end -->)", re.DOTALL)


def of(rows: Sequence[Row], simulator: str, name: str) -> dict[int, Row]:
    """Return the rows of a trainer on a simulator, by round."""
    return {
        row["round"]: row for row in rows if (row["simulator"], row["name"]) == (simulator, name)
    }


def names_on(rows: Sequence[Row], simulator: str) -> list[str]:
    return [name for name in NAMES if of(rows, simulator, name)]


def rate_shown(value: float) -> str:
    return f"{value:.1f}" if value < 100 else f"{value:.0f}"


def line(rows: Sequence[Row], simulator: str, name: str) -> str:
    """Return a line of a table: medians, and the range of the rates."""
    rounds, ceiling = of(rows, simulator, name), of(rows, simulator, "ceiling")
    shares = [row["rate"] / ceiling[n]["rate"] for n, row in rounds.items() if n in ceiling]
    first, *_ = rounds.values()
    cells = [
        NAMES[name],
        spread([row["rate"] for row in rounds.values()], rate_shown),
        f"{statistics.median(shares):.0%}" if shares else "",
        seconds_shown(rounds, [row["start"] for row in rounds.values()]),
        f"{statistics.median(row['megabytes'] for row in rounds.values()):,.0f}",
    ]
    for target in first["reached"]:
        found = [row["reached"][target] for row in rounds.values()]
        cells.append(seconds_shown(rounds, found))
    return f"| {' | '.join(cells)} |"


def seconds_shown(rounds: Mapping[int, Row], found: Sequence[float | None]) -> str:
    """Return the median, for which a round without (None) counts as the longest."""
    middle = statistics.median_high([math.inf if seconds is None else seconds for seconds in found])
    lasts = max(row["seconds"] for row in rounds.values())
    return f"{middle:.0f}" if middle < math.inf else f">{lasts:.0f}"


def gains(rows: Sequence[Row], name: str, simulator: str, over: str) -> list[float]:
    """Return by round this package's episodes/s over those of the best peer on `over`."""
    peers = [of(rows, over, peer) for peer in names_on(rows, over) if peer not in OURS]
    return [
        row["rate"] / max(peer[n]["rate"] for peer in peers)
        for n, row in of(rows, simulator, name).items()
        if peers and all(n in peer for peer in peers)
    ]


def page_tables(told: Mapping[str, Any]) -> str:
    """Return in Markdown what the rows were measured with, and a table for each simulator."""
    rows = told["rows"]
    # The first is the library itself; the rows have the others.
    versions = [
        f"{NAMES[peer]} ({' '.join(next(iter(found.items())))})"
        for peer, found in told["versions"].items()
    ]
    lines = [
        "Interleaved rounds: medians, and from the least to the most.",
        f"Versions: {'; '.join(versions)}.",
    ]
    for (simulator, over), words in GAINS.items():
        if found := gains(rows, "async", simulator, over):
            lines.append(words.format(gain=spread(found)))
    for simulator, title in TITLES.items():
        names = names_on(rows, simulator)
        if names:
            ceiling = [row["rate"] for row in of(rows, simulator, "ceiling").values()]
            title_line = f"**On {title}** (`{simulator}`)"
            if ceiling:
                title_line += f": playing at random {spread(ceiling, rate_shown)} episodes/s"
            about = told["measured"][simulator]
            lines.append(
                f"{title_line}; {about['date']}, {about['cores']} cores of {about['processor']}, "
                f"Python {about['python']}"
            )
            body = [HEADING, *(line(rows, simulator, name) for name in names)]
            lines.append("\n".join(body))
    return "\n\n".join(lines) + "\n"


def fill(page: Path, told: Mapping[str, Any]) -> str:
    """Return the page's text with the tables between its two marks."""
    return BETWEEN.sub(lambda _: page_tables(told), page.read_text())
