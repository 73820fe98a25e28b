"""HTML pages. Each page is one file, which loads nothing from a network."""

from __future__ import annotations

import atexit
import base64
import contextlib
import gc
import html
import io
import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAGES = __name__


def filled(package: str, name: str, **parts: str) -> str:
    """Return the template `name` of a package, with each {{part}} filled in.

    parts: HTML, see `escaped` and `as_json`. The part `style` need not be given.
    """
    parts["style"] = source(PAGES, "style.css")

    def part(match: re.Match[str]) -> str:
        return parts[match[1]]

    return re.sub(r"\{\{(\w+)\}\}", part, source(package, name))


def source(package: str, name: str) -> str:
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")


def escaped(text: Any) -> str:
    return html.escape(str(text))


def as_json(value: Any) -> str:
    """Return a value, dataclasses included, for a script element of type application/json.

    Nothing in the text can end that element.
    """
    text = json.dumps(
        value, default=vars, ensure_ascii=False, separators=(",", ":"), allow_nan=False
    )
    return text.replace("<", "\\u003c")


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Switch garbage collection off, for a command that writes a page and ends.

    The libraries make a million objects that stay. The collector would visit them again and again,
    and once more at exit, which takes a third of the time of a replay.
    """
    atexit.register(gc.freeze)
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def table(
    heading: Sequence[str], rows: Iterable[Sequence[str]], label: str, classes: str = ""
) -> str:
    """Return a table that can be scrolled sideways.

    rows: cells as HTML; the first cell of a row names the row, and missing cells are empty.
    Columns of numbers are aligned as numbers.
    """
    rows = [[*row, *[""] * (len(heading) - len(row))] for row in rows]
    numbers = [i > 0 and _is_of_numbers([row[i] for row in rows]) for i in range(len(heading))]
    head = "".join(
        f'<th scope="col"{_NUMBER * is_number}>{cell}</th>'
        for cell, is_number in zip(heading, numbers, strict=True)
    )
    body = ""
    for first, *rest in rows:
        cells = "".join(
            f"<td{_NUMBER * is_number}>{cell}</td>"
            for cell, is_number in zip(rest, numbers[1:], strict=True)
        )
        body += f'<tr><th scope="row">{first}</th>{cells}</tr>\n'
    return (
        f'<div class="scroll {classes}" tabindex="0" role="region" '
        f'aria-label="Table: {escaped(label)}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table></div>\n"
    )


_NUMBER = ' class="number"'


def _is_of_numbers(cells: Sequence[str]) -> bool:
    told = [cell for cell in cells if cell]
    return 2 * sum(bool(re.match(r"[−–±]|\d", cell)) for cell in told) > len(told)  # noqa: RUF001


def image(figure: Figure, label: str) -> str:
    """Return a picture within the page. label: a description of the picture for screen readers."""
    file = io.BytesIO()
    figure.savefig(file, dpi=110, format="png")
    data = base64.b64encode(file.getvalue()).decode()
    shown = f'alt="{escaped(label)}" src="data:image/png;base64,{data}"'
    return f'<img style="max-width: 100%" {shown}>\n'


def listing(lines: Iterable[str], label: str) -> str:
    """Return lines of text, such as commands, that can be scrolled sideways."""
    text = escaped("\n".join(lines))
    return f'<pre class="scroll" tabindex="0" role="region" aria-label="{label}">{text}</pre>\n'


def folded(summary: str, content: str) -> str:
    return f"<details><summary>{escaped(summary)}</summary>{content}</details>\n"


def number(value: float | None, digits: int = 1) -> str:
    """Return a number with a real minus sign; a dash for None and for NaN or infinity."""
    if value is None or not math.isfinite(value):
        return "–"  # noqa: RUF001
    return f"{value:,.{digits}f}".replace("-", "−")  # noqa: RUF001
