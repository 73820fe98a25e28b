"""Draw heat maps of an agent's actions over many episodes, by step and by target."""

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from workflow_rl.reporting.pages import escaped, folded, number, table
from workflow_rl.reporting.report_charts import chart, heat_maps_figure

BINS = 20
"""The largest number of columns of a heat map. Each column is an equal part of an episode."""


class Act(NamedTuple):
    """One action of an episode. step: counted from 0. place: the target of the action."""

    step: int
    kind: str
    place: str


def when_and_where(
    title: str, acts: Iterable[Act], places: Sequence[str], episodes: int, steps: int
) -> str:
    """Return a heat map for each kind of action, and a table of their cells, as HTML.

    A column is a range of steps, and a row is a place. A cell is the share of the column's steps,
    over all episodes, in which the agent takes the action on the row's place. acts: the actions of
    all episodes. places: in the order of rows; a place without an action has no row. steps: the
    number of steps of an episode."""
    part_of = (np.arange(steps) * min(BINS, steps)) // steps
    widths = np.bincount(part_of)
    counts = Counter((act.kind, act.place, int(part_of[act.step])) for act in acts)
    used = {place for _, place, _ in counts}
    rows = [place for place in places if place in used]
    kinds = sorted({kind for kind, _, _ in counts})
    shares = {kind: np.zeros((len(rows), len(widths))) for kind in kinds}
    for (kind, place, part), count in counts.items():
        shares[kind][rows.index(place), part] = count / (episodes * widths[part])
    edges = [0, *np.cumsum(widths).tolist()]
    figure = heat_maps_figure(rows, edges, shares)
    ranges = [f"{before + 1} to {last}" for before, last in itertools.pairwise(edges)]
    cells = []
    for kind, of_kind in shares.items():
        for place, of_place in zip(rows, of_kind, strict=True):
            if of_place.any():
                percentages = [number(100 * share) for share in of_place]
                cells.append([escaped(f"{kind} {place}"), *percentages])
    label = f"{title}: percentage of the steps in each range"
    drawn = chart(figure, title, f"{title}; a table follows")
    return (
        # On a narrow screen the maps would be too small to read.
        '<div class="scroll" tabindex="0" role="region" aria-label="Heat maps: '
        f'{escaped(title)}"><div style="min-width:60rem">{drawn}</div></div>'
        + folded("As a table", table(["Action", *ranges], cells, label, "tall"))
    )
