"""When an agent does what where, over many episodes: heat maps."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from workflow_rl.reporting.pages import escaped, folded, number, table
from workflow_rl.reporting.report_charts import chart, heat_maps_figure

BINS = 20
"""Largest number of equal parts of an episode that a heat map tells apart."""


class Act(NamedTuple):
    """One action of an episode. step: from 0 on. place: what it is done to."""

    step: int
    kind: str
    place: str


def when_and_where(
    title: str, acts: Iterable[Act], places: Sequence[str], episodes: int, steps: int
) -> str:
    """Return a heat map for each kind of action, and their table, as HTML.

    A cell covers a part of the steps: in what share of these, over all episodes, the agent does
    this to the place. acts: of all episodes together. places: in the order of the rows; those to
    which nothing is done are left out. steps: of an episode.
    """
    part_of = np.arange(steps) * min(BINS, steps) // steps
    widths = np.bincount(part_of)
    counts = Counter((act.kind, act.place, int(part_of[act.step])) for act in acts)
    rows = [place for place in places if any(place == used for _, used, _ in counts)]
    kinds = sorted({kind for kind, _, _ in counts})
    shares = {kind: np.zeros((len(rows), len(widths))) for kind in kinds}
    for (kind, place, part), count in counts.items():
        shares[kind][rows.index(place), part] = count / (episodes * widths[part])
    edges = [0, *np.cumsum(widths).tolist()]
    figure = heat_maps_figure(rows, edges, shares)
    heading = ["Action", *(f"{a + 1} to {b}" for a, b in itertools.pairwise(edges))]
    cells = []
    for kind, of_kind in shares.items():
        for place, of_place in zip(rows, of_kind, strict=True):
            if of_place.any():
                percentages = [number(100 * share) for share in of_place]
                cells.append([escaped(f"{kind} {place}"), *percentages])
    label = f"{title}: percentage of the steps from the one to the other"
    drawn = chart(figure, title, f"{title}; a table follows")
    return (
        # On a narrow screen the maps would be too small to read.
        '<div class="scroll" tabindex="0" role="region" aria-label="Heat maps: '
        f'{escaped(title)}"><div style="min-width:60rem">{drawn}</div></div>'
        + folded("As a table", table(heading, cells, label, "tall"))
    )
