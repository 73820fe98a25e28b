"""The page about orders: the ladder, and the price of obedience."""

from __future__ import annotations

from collections.abc import Sequence

from workflow_rl.reporting.pages import escaped, number, table
from workflow_rl.reporting.report import Section, page
from workflow_rl.reporting.report_charts import chart, means_figure
from workflow_rl.runs.intervals import Mean
from workflow_rl.workflows.ladder import Ladder
from workflow_rl.workflows.order import Order, Workflow

WITHOUT = "no order"
LEAST_EPISODES = 6
"""Every second of them judges: the chance of fewer than three episodes cannot be told."""


def workflow_page(name: str, ladder: Ladder) -> str:
    """Return the page as HTML. name: of what was scored."""
    about = (
        f"{len(ladder.orders)} orders, {ladder.totals.shape[2]} episodes of each, "
        f"agents: {len(ladder.totals)}. Intervals are of 95%."
    )
    sections = [
        Section("Orders from best to worst", _ladder(ladder)),
        Section("The price of obedience", _price(ladder)),
    ]
    return page(name, about, sections)


def _ladder(ladder: Ladder) -> str:
    names = [_spelled(ladder.workflow, ladder.orders[place]) for place in ladder.ranked]
    totals = [ladder.of(place) for place in ladder.ranked]
    rows = [
        [escaped(name), _told(total), *ladder.obeyed_of(place).told()]
        for name, total, place in zip(names, totals, ladder.ranked, strict=True)
    ]
    if ladder.unconstrained is not None:
        names, totals = [*names, WITHOUT], [*totals, ladder.unconstrained]
        free = ladder.free_obeyed
        rows.append([WITHOUT, _told(totals[-1]), *(free.told() if free else [""] * 3)])
    means, intervals = zip(*totals, strict=True)
    figure = means_figure(names, means, intervals, "mean total, 95% interval")
    heading = ["Order, first to fix first", "Mean total", "Fixes while a group was due",
               "Of them in order", "Where several groups needed fixing"]  # fmt: skip
    return (
        f"<p>{escaped(order_verdict(ladder))}</p>"
        + chart(figure, "Totals", "Totals of all orders; a table follows")
        + table(heading, rows, "Orders")
        + table(
            ["Pair", "What the first before the second gains, over all orders"],
            [[f"{escaped(a)} before {escaped(b)}", _told(gain)] for a, b, gain in ladder.pairs],
            "Pairs",
        )
    )


def order_verdict(ladder: Ladder) -> str:
    """Return whether the order matters, in two sentences. Where it does not, the first of them
    says that it does in at most 5% of all cases."""
    if ladder.totals.shape[2] < LEAST_EPISODES:
        return f"So few episodes do not tell whether the order matters: give {LEAST_EPISODES}."
    lead, (first, second, gain) = ladder.lead, ladder.decisive
    matters = any(found.mean > found.interval_95 for found in (lead, gain))
    said = "The order matters." if matters else "These episodes do not show that the order matters."
    return (
        f"{said} In the episodes that did not choose them, the best order leads the worst by "
        f"{lead}, and {first} before {second}, the pair that matters most, gains {gain}."
    )


def _price(ladder: Ladder) -> str:
    rows = [
        [row.what, escaped(spelled_out(ladder, row.orders)), _told(row.total), _told(row.price)]
        for row in ladder.rows
    ]
    heading = ["Order", "First to fix first", "Mean total", "Cost, compared with no order"]
    said = "Every second episode chose the best, the median and the worst; the others are scored."
    if ladder.totals.shape[2] == 1:
        said = "The one episode chose the best, the median and the worst too."
    if ladder.unconstrained is None:
        said += " No agents without an order were given (<code>--beside</code>)."
    return f"<p>{said}</p>" + table(heading, rows, "Price of obedience")


def spelled_out(ladder: Ladder, places: Sequence[int]) -> str:
    """Return the names of an order or two, or how many there are."""
    if len(places) > 2:
        return f"the mean of {len(places)}"
    return " and ".join(_spelled(ladder.workflow, ladder.orders[place]) for place in places)


def _told(total: Mean | None) -> str:
    return "" if total is None else f"{number(total.mean, 2)} ± {number(total.interval_95, 2)}"


def _spelled(workflow: Workflow, order: Order) -> str:
    return workflow.name_of(order).replace(",", " < ")
