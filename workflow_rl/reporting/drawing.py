"""What all pictures of returns share: names, the axis of returns, other agents' returns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from workflow_rl.output_files import replacing
from workflow_rl.runs.return_curves import worth_showing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RETURN_TICKS = (-1000, -500, -200, -100, -50, -20, -10, -5, 0)
PROPORTIONAL = 10.0
"""Returns down to minus this are drawn in proportion on a logarithmic axis."""
LINE_HEIGHT = 0.05
"""Height of a label, as a share of the height of its axes."""


def as_drawn(name: str) -> str:
    """Return the text by which matplotlib draws a name that a user or a file chose.

    Given the name itself, matplotlib would read what is between two `$` as a formula, hide a label
    that begins with `_`, and fail at bytes that are not UTF-8.
    """
    readable = name.encode(errors="backslashreplace").decode()
    visible = f" {readable}" if readable.startswith("_") else readable
    return visible.replace("$", r"\$")


def save_png(figure: Figure, path: Path) -> None:
    """Write the figure in one step, as a PNG unless its name ends otherwise. Raises OSError."""
    with replacing(path, "wb") as file:
        figure.savefig(file, dpi=120, format=path.suffix[1:].lower() or "png")


def scale_returns(axes: Axes) -> None:
    """Scale the y axis for returns, as far as the drawn lines reach.

    Where no return is above 0, as in CAGE-2, returns may span three decades and differences near 0
    matter, so the axis is logarithmic.
    """
    axes.grid(alpha=0.3)
    lowest, highest = axes.dataLim.y0, axes.dataLim.y1
    if highest > 0 or lowest > 4 * min(highest, -PROPORTIONAL):
        return
    axes.set_yscale("symlog", linthresh=PROPORTIONAL)
    bottom, top = axes.get_ylim()
    axes.set_yticks(RETURN_TICKS, [str(tick) for tick in RETURN_TICKS], minor=False)
    axes.set_yticks([], minor=True)
    axes.set_ylim(bottom, min(top, 1))


def draw_known(panels: Sequence[Axes], known: Mapping[str, float]) -> None:
    """Scale the y axis of all, and draw a line for each return that is worth showing.

    The names stand beside the last axes, each above the one below.
    """
    last = panels[-1]
    shown = worth_showing(known, last.dataLim.y0)
    for axes in panels:
        for value in shown:
            axes.axhline(value, color="0.4", linestyle=":", linewidth=1.2, zorder=0)
        scale_returns(axes)
    at = -math.inf
    for value, whose in shown.items():
        height = last.transAxes.inverted().transform(last.transData.transform((0, value)))[1]
        at = max(height, at + LINE_HEIGHT)
        last.annotate(
            as_drawn(f"{whose}: {value:.4g}"), (1, at), xycoords="axes fraction", xytext=(5, 0),
            textcoords="offset points", va="center", fontsize=8, color="0.25",
        )  # fmt: skip
