"""Rows of `compare.py` as tables of the page, and as a chart."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

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
    "cyborg-stock": "csle-cyborg as published",
    "cyborg": "the same, sped up by this package",
    "compiled": "this package's compiled simulator",
}
BETWEEN = re.compile(r"(?<=<!-- tables -->\n).*(?=<!-- end -->)", re.DOTALL)


def _of(rows: Sequence[Row], simulator: str, name: str) -> dict[int, Row]:
    """By round."""
    return {
        row["round"]: row for row in rows if (row["simulator"], row["name"]) == (simulator, name)
    }


def _spread(values: Sequence[float], shown: Callable[[float], str]) -> str:
    middle = shown(statistics.median(values))
    if len(values) == 1:
        return middle
    return f"{middle} ({shown(min(values))} to {shown(max(values))})"


def _rate(value: float) -> str:
    return f"{value:.1f}" if value < 100 else f"{value:.0f}"


def _names(rows: Sequence[Row], simulator: str) -> list[str]:
    return [name for name in NAMES if _of(rows, simulator, name)]


def _line(rows: Sequence[Row], simulator: str, name: str) -> str:
    own = _of(rows, simulator, name)
    ceiling = _of(rows, simulator, "ceiling")
    shares = [
        row["rate"] / ceiling[index]["rate"] for index, row in own.items() if index in ceiling
    ]
    cells = [
        NAMES[name],
        _spread([row["rate"] for row in own.values()], _rate),
        f"{statistics.median(shares):.0%}" if shares else "",
        _seconds(own, [row["start"] for row in own.values()], "over"),
        f"{statistics.median(row['megabytes'] for row in own.values()):,.0f}",
        *(
            _seconds(own, [row["reached"][target] for row in own.values()], "not in")
            for target in next(iter(own.values()))["reached"]
        ),
    ]
    return f"| {' | '.join(cells)} |"


def _seconds(own: Mapping[int, Row], found: Sequence[float | None], otherwise: str) -> str:
    """The median, for which a round without (None) counts as the longest."""
    middle = statistics.median_high([math.inf if one is None else one for one in found])
    lasts = max(row["seconds"] for row in own.values())
    return f"{middle:.0f}" if middle < math.inf else f"{otherwise} {lasts:.0f}"


def gains(rows: Sequence[Row], name: str, simulator: str, over: str) -> list[float]:
    """By round: this package's episodes/s, over those of the best of the peers on `over`."""
    peers = [_of(rows, over, peer) for peer in _names(rows, over) if peer not in OURS]
    return [
        row["rate"] / max(peer[index]["rate"] for peer in peers)
        for index, row in _of(rows, simulator, name).items()
        if peers and all(index in peer for peer in peers)
    ]


def page_tables(told: Mapping[str, Any]) -> str:
    """In Markdown: what it was taken with, and a table for each simulator."""
    rows = told["rows"]
    about = told["machine"]
    versions = [
        f"{NAMES[peer]} ({', '.join(f'{name} {number}' for name, number in found.items())})"
        for peer, found in told["versions"].items()
    ]
    lines = [
        f"{told['date']}; {about['cores']} cores of {about['processor']}, "
        f"Python {about['python']}; interleaved rounds: medians, and from the least to the most.",
        "",
        f"Versions: {'; '.join(versions)}.",
        "",
    ]
    found = gains(rows, "async", "cyborg", "cyborg-stock")
    if found:
        lines += [
            "This package, asynchronous on CybORG as it speeds it up, trains "
            f"{_spread(found, '{:.0f}'.format)} times as many episodes a second as the best of the "
            "others does on CybORG as published.",
            "",
        ]
    for simulator, title in TITLES.items():
        names = _names(rows, simulator)
        if names:
            ceiling = [row["rate"] for row in _of(rows, simulator, "ceiling").values()]
            lines += [
                f"**On {title}** (`{simulator}`)"
                + (f": playing at random {_spread(ceiling, _rate)} episodes/s" if ceiling else ""),
                "",
                "| trained with | episodes/s | of random play | start, s | memory, MB | s to -60 "
                "| s to -30 |",
                "| --- | --- | --- | --- | --- | --- | --- |",
                *(_line(rows, simulator, name) for name in names),
                "",
            ]
    return "\n".join(lines)


def fill(page: Path, told: Mapping[str, Any]) -> str:
    """The page's text with the tables between its two marks."""
    return BETWEEN.sub(lambda _: page_tables(told), page.read_text())


def chart(told: Mapping[str, Any]) -> Figure:
    """Episodes/s of everyone on every simulator, its ceiling as a line; logarithmic."""
    rows = told["rows"]
    simulators = [simulator for simulator in TITLES if _names(rows, simulator)]
    counts = [len(_names(rows, simulator)) for simulator in simulators]
    figure = Figure(figsize=(8.5, 1.2 + 0.34 * sum(counts)), layout="constrained")
    panels = figure.subplots(
        len(simulators), 1, squeeze=False, sharex=True, gridspec_kw={"height_ratios": counts}
    )[:, 0]
    for axes, simulator in zip(panels, simulators, strict=True):
        names = _names(rows, simulator)[::-1]
        for place, name in enumerate(names):
            rates = [row["rate"] for row in _of(rows, simulator, name).values()]
            middle = statistics.median(rates)
            colour = "C0" if name in OURS else "C7"
            axes.plot([min(rates), max(rates)], [place, place], color=colour, linewidth=4)
            # Points: on such an axis the length of a bar would mean nothing.
            axes.plot(middle, place, "o", color=colour, markersize=8)
            axes.annotate(
                _rate(middle),
                (max(rates), place),
                xytext=(8, 0),
                textcoords="offset points",
                va="center",
                fontsize=8,
                bbox={"color": "white", "pad": 0.5},
            )
        ceiling = [row["rate"] for row in _of(rows, simulator, "ceiling").values()]
        if ceiling:
            axes.axvline(statistics.median(ceiling), color="black", linestyle="--", zorder=0)
        axes.set_yticks(range(len(names)), [NAMES[name].replace("`", "") for name in names])
        axes.set_ylim(-0.6, len(names) - 0.4)
        axes.set_xscale("log")
        axes.grid(axis="x", alpha=0.3)
        axes.set_title(f"on {TITLES[simulator]}", fontsize=10, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
    panels[-1].xaxis.set_major_formatter("{x:g}")
    panels[-1].set_xlabel("episodes/s of training; the dashed line: playing at random, no learner")
    return figure
