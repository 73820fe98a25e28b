"""Make the page of `search-workflow`, which lists orders from best to worst."""

from workflow_rl.reporting.pages import escaped, number, table
from workflow_rl.reporting.report_charts import chart, means_figure
from workflow_rl.reporting.report_sections import Section, page
from workflow_rl.workflows.ranking import Ranking

HEADINGS = ("order, first to fix first", "total", "in order, when several groups needed fixing")


def workflow_page(name: str, ranking: Ranking) -> str:
    """Return the page as HTML. name: the title, which says what was scored."""
    about = (
        f"{len(ranking.orders)} orders, {ranking.totals.shape[2]} episodes of each, "
        f"agents: {len(ranking.totals)}. Intervals are of 95%."
    )
    return page(name, about, [Section("Orders from best to worst", _ranked_orders(ranking))])


def _ranked_orders(ranking: Ranking) -> str:
    names = [ranking.name_of(place).replace(",", " < ") for place in ranking.ranked]
    totals = [ranking.total_of(place) for place in ranking.ranked]
    shares = [ranking.kept_of(place).told(1, 100, "%") for place in ranking.ranked]
    means = [total.mean for total in totals]
    intervals = [total.interval_95 for total in totals]
    rows = [
        [escaped(name), f"{number(mean, 2)} ± {number(interval, 2)}", share]
        for name, mean, interval, share in zip(names, means, intervals, shares, strict=True)
    ]
    figure = means_figure(names, means, intervals, "mean total, 95% interval")
    return (
        f"<p>{escaped(ranking.verdict)}</p>"
        + chart(figure, "Totals", "Totals of all orders; a table follows")
        + table(HEADINGS, rows, "Orders")
    )
