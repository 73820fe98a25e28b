"""A hook of mkdocs, which writes tables into pages.

In place of `<!-- fields: NAME -->` stands a table of a config's fields, and in place of
`<!-- table: NAME -->` the rows that a function returns, the heading first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pydoc import locate
from typing import Any

from pydantic_core import PydanticUndefined

from workflow_rl.agents.settings import Settings

_PLACE = re.compile(r"^<!-- (fields|table): ([\w.]+) -->$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return the page with the tables. Raises AssertionError for a name of neither kind."""
    return _PLACE.sub(lambda found: "\n".join(_lines(*found.groups())), markdown)


def _lines(kind: str, name: str) -> Iterator[str]:
    """Yield the lines of a table."""
    heading, *rows = _fields(name) if kind == "fields" else _returned(name)
    for row in (heading, ["---"] * len(heading), *rows):
        yield f"| {' | '.join(row)} |"


def _returned(name: str) -> list[tuple[str, ...]]:
    function = locate(name)
    assert callable(function), name
    return list(function())


def _fields(name: str) -> Iterator[tuple[str, ...]]:
    config = locate(name)
    assert isinstance(config, type), name
    assert issubclass(config, Settings), name
    yield "field", "default", "meaning"
    for field, about in config.model_fields.items():
        if about.exclude:
            continue
        unsaid = about.default in (None, PydanticUndefined)
        default = "" if unsaid else f"`{about.default!r}`"
        assert about.description is not None, field
        yield f"`{field}`", default, about.description.replace("|", "/")
