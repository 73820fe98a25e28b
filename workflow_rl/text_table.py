"""Tables for the terminal, or in Markdown."""

from collections.abc import Hashable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import prettytable
from prettytable import PrettyTable

# PrettyTable before 3.12 names the styles elsewhere.
_STYLES: Any = getattr(prettytable, "TableStyle", prettytable)
MARKDOWN, SINGLE_BORDER = _STYLES.MARKDOWN, _STYLES.SINGLE_BORDER


def text_table(
    headings: Sequence[str],
    rows: Iterable[Sequence[Any]],
    left: int = 1,
    groups: Sequence[Hashable] = (),
    markdown: bool = False,
) -> PrettyTable:
    """Return a table.

    left: how many columns, from the first, are aligned left; the others are aligned right.
    groups: the group of each row; a line divides groups.
    """
    table = PrettyTable(list(headings), align="r")
    table.set_style(MARKDOWN if markdown else SINGLE_BORDER)
    for name in headings[:left]:
        table.align[name] = "l"
    divided = [group != following for group, following in pairwise(groups)]
    for number, row in enumerate(rows):
        table.add_row(list(row), divider=number < len(divided) and divided[number])
    return table
