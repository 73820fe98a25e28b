"""The charts of a report: Plotly figures, drawn by the page in its own colours."""

import html
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.subplots import make_subplots

from workflow_rl.evaluation.intervals import mean_and_interval
from workflow_rl.reporting.learning_curve import PROPORTIONAL, RETURN_TICKS
from workflow_rl.reporting.pages import escaped
from workflow_rl.runs.return_curves import worth_showing

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#4aa3df", "#7f7f7f", "#8c564b")
"""Colour-blind readers too can tell these apart (after Okabe and Ito), on light and dark ground."""

GREY = "#9aa5b1"
"""The colour of time in which nothing is done."""

LABEL_WIDTH, LABELS_IN_HEIGHT = 120, 17
"""Names beside a chart: the width in pixels, and how many of them fit above one another."""


def chart(figure: go.Figure, caption: str, label: str) -> str:
    """Return the figure as HTML. label: what a screen reader says."""
    content = figure.to_json().replace("<", "\\u003c")
    height = figure.layout.height
    return (
        f'<figure class="chart"><figcaption>{escaped(caption)}</figcaption>'
        f'<div class="plot" role="img" style="height:{height}px" '
        f'aria-label="{escaped(label)}"></div>'
        f'<script type="application/json">{content}</script></figure>\n'
    )


def keys(names: Sequence[str], colours: Sequence[str] = COLOURS) -> str:
    items = "".join(
        f'<li><span class="swatch" style="background:{colour}"></span>{escaped(name)}</li>'
        for name, colour in zip(names, itertools.cycle(colours))
    )
    return f'<ul class="keys">{items}</ul>\n'


class Curve(NamedTuple):
    """A line, and the band around the line if `is_band`. x, y, low, high: [X]."""

    name: str
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    is_band: bool


def curve_of(name: str, x: NDArray[np.float64], returns: NDArray[np.float64]) -> Curve:
    """Return the mean of runs, with its interval if there are several. returns: [run, X]."""
    mean, half = mean_and_interval(returns)
    return Curve(name, x, mean, mean - half, mean + half, len(returns) > 1)


def curves_figure(
    curves: Sequence[Curve], title: str, known: Mapping[str, float] | None
) -> go.Figure:
    """Draw curves against the quantity that `title` names.

    curves: a curve without points leaves its colour unused. known: other agents' returns, for lines
    to compare with; None if the curves are not of returns.
    """
    of_returns = known is not None
    figure, form = _figure(300 if of_returns else 220), ".1f" if of_returns else ".4g"
    every = [curve for curve in curves if len(curve.x)]
    highest = max((float(curve.high.max()) for curve in every), default=math.inf)
    falls = of_returns and highest <= 0
    scaled = _symlog if falls else np.asarray
    for index, curve in enumerate(curves):
        if not len(curve.x):
            continue
        colour = COLOURS[index % len(COLOURS)]
        if curve.is_band:
            edge = {"mode": "lines", "line": {"width": 0, "color": colour}, "hoverinfo": "skip"}
            figure.add_scatter(x=curve.x, y=scaled(curve.low), **edge)
            faint = f"rgba({', '.join(map(str, bytes.fromhex(colour[1:])))}, 0.2)"
            figure.add_scatter(
                x=curve.x, y=scaled(curve.high), fill="tonexty", fillcolor=faint, **edge
            )
        figure.add_scatter(
            x=curve.x,
            y=scaled(curve.y),
            customdata=curve.y,
            mode="lines",
            line={"color": colour, "width": 2},
            name=_plain(curve.name),
            hovertemplate=f"%{{customdata:{form}}} after %{{x:,.4~g}} {title}",
        )
    figure.update_xaxes(title=title, rangemode="tozero")
    lowest = min((float(curve.low.min()) for curve in every), default=0.0)
    if every and known:
        _draw_known(figure, worth_showing(known, lowest), scaled, (lowest, highest))
    if falls:
        ticks = [tick for tick in RETURN_TICKS if tick >= 1.3 * lowest]
        figure.update_yaxes(
            tickvals=_symlog(np.array(ticks, float)), ticktext=[_minus(tick) for tick in ticks]
        )
    return figure


def _draw_known(
    figure: go.Figure,
    known: Mapping[float, str],
    scaled: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    ends: tuple[float, float],
) -> None:
    """Draw a line for each return. The names are at the right, and do not overlap.

    ends: the lowest and the highest return of the curves.
    """
    heights = scaled(np.array(list(known)))
    drawn = np.concatenate([heights, scaled(np.array(ends))])
    step = float(drawn.max() - drawn.min()) / LABELS_IN_HEIGHT
    at = -math.inf
    for (value, whose), height in zip(known.items(), heights, strict=True):
        figure.add_hline(y=float(height), line={"color": GREY, "width": 1, "dash": "dot"})
        at = max(float(height), at + step)
        figure.add_annotation(
            text=f"{escaped(whose)}: {_minus(round(value, 1))}",
            **{"x": 1, "xref": "paper", "xanchor": "left", "y": at, "yanchor": "middle"},
            **{"showarrow": False, "font": {"size": 10}},
        )
    figure.update_layout(margin_r=LABEL_WIDTH)


def _symlog(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scale values in proportion up to PROPORTIONAL, and by their logarithm beyond: returns may
    span three decades, and differences near 0 matter."""
    scaled = np.abs(values) / PROPORTIONAL
    beyond = np.log10(np.maximum(scaled, 1))
    return np.asarray(np.sign(values) * (np.minimum(scaled, 1) + beyond))


def _minus(number: float) -> str:
    return f"{number:g}".replace("-", "−")  # noqa: RUF001


def shares_figure(
    rows: Sequence[str],
    shares: Mapping[str, Sequence[float]],
    across: bool = False,
    colours: Sequence[str] = COLOURS,
) -> go.Figure:
    """Draw a bar of 100% for each row, made of the parts in their order. across: upright bars."""
    height = 300 if across else 60 + 34 * len(rows)
    names = [_plain(row) for row in rows]
    figure = _figure(height)
    for index, (part, values) in enumerate(shares.items()):
        percent = [100 * value for value in values]
        x, y = (names, percent) if across else (percent, names)
        figure.add_bar(
            x=x,
            y=y,
            orientation="v" if across else "h",
            name=part,
            marker={"color": colours[index % len(colours)], "line": {"width": 0}},
            hovertemplate=f"{part}: %{{{'y' if across else 'x'}:.1f}}%",
        )
    figure.update_layout(barmode="stack", bargap=0.25, hovermode="closest")
    percent_axis = {"range": [0, 100], "dtick": 25, "ticksuffix": "%"}
    if across:
        figure.update_xaxes(type="category")
        figure.update_yaxes(**percent_axis)
    else:
        figure.update_xaxes(**percent_axis)
        figure.update_yaxes(type="category", autorange="reversed", automargin=True)
    return figure


def means_figure(
    names: Sequence[str], means: Sequence[float], intervals: Sequence[float], title: str
) -> go.Figure:
    """Draw a point with its interval for each name. intervals: NaN means no interval."""
    figure = _figure(70 + 30 * len(names))
    figure.add_scatter(
        x=list(means),
        y=[_plain(name) for name in names],
        error_x={"array": [0 if math.isnan(half) else half for half in intervals], "thickness": 2},
        mode="markers",
        marker={"size": 9, "color": COLOURS[0]},
        hovertemplate="%{x:.1f}<extra>%{y}</extra>",
    )
    figure.update_layout(hovermode="closest")
    figure.update_xaxes(title=title)
    figure.update_yaxes(type="category", autorange="reversed", automargin=True)
    return figure


def heat_maps_figure(
    rows: Sequence[str], edges: Sequence[int], shares: Mapping[str, NDArray[np.float64]]
) -> go.Figure:
    """Draw a heat map for each entry of `shares`, beside one another.

    rows: the names of the R rows of all maps. edges: [X + 1] of the columns, in steps. shares:
    [R, X] by the map's title. Colours show the square root, so that rare actions are visible too.
    """
    figure = make_subplots(
        cols=len(shares), shared_yaxes=True, horizontal_spacing=0.012, subplot_titles=list(shares)
    )
    for column, (kind, of_kind) in enumerate(shares.items(), 1):
        figure.add_heatmap(
            name=kind,
            x=list(edges),
            y=[_plain(row) for row in rows],
            z=np.sqrt(of_kind).round(3).tolist(),
            customdata=(100 * of_kind).round(1).tolist(),
            **{"coloraxis": "coloraxis", "xgap": 1, "ygap": 1, "row": 1, "col": column},
            hovertemplate=f"{kind} %{{y}}: %{{customdata}}% of the steps near %{{x:.0f}}"
            "<extra></extra>",
        )
    figure.update_layout(_figure(90 + 17 * max(5, len(rows))).layout, template="none")
    shown = (0, 5, 20, 50, 100)
    figure.update_layout(
        hovermode="closest",
        margin_t=24,
        coloraxis={
            **{"cmin": 0, "cmax": 1, "colorscale": [[0, f"{COLOURS[0]}00"], [1, COLOURS[0]]]},
            "colorbar": {
                **{"thickness": 10, "len": 1, "outlinewidth": 0},
                "tickvals": [math.sqrt(share / 100) for share in shown],
                "ticktext": [f"{share}%" for share in shown],
            },
        },
    )
    figure.update_annotations(font_size=12)
    figure.update_xaxes(showgrid=False, zeroline=False, tickvals=list(edges[:-1:5]))
    figure.update_yaxes(showgrid=False, autorange="reversed")
    figure.update_yaxes(automargin=True, col=1)
    return figure


def _plain(name: str) -> str:
    """Return the text by which Plotly shows a name unchanged. Plotly reads tags, and does not know
    the entity `&quot;`."""
    return html.escape(name, quote=False)


def _figure(height: int) -> go.Figure:
    layout = {
        "height": height,
        "margin": {"l": 52, "r": 18, "t": 8, "b": 40},
        "showlegend": False,
        "hovermode": "x unified",
        "template": "none",
    }
    return go.Figure(layout=layout)
