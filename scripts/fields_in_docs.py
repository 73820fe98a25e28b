"""A hook of mkdocs: writes a table of a config's fields in place of `<!-- fields: NAME -->`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pydoc import locate
from typing import Any

from pydantic_core import PydanticUndefined

from workflow_rl.agents.settings import Settings

_PLACE = re.compile(r"^<!-- fields: ([\w.]+) -->$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return the page with the tables. Raises AssertionError for a name of no config."""
    return _PLACE.sub(lambda found: "\n".join(_lines(found[1])), markdown)


def _lines(name: str) -> Iterator[str]:
    config = locate(name)
    assert isinstance(config, type), name
    assert issubclass(config, Settings), name
    yield "| field | default | meaning |"
    yield "| --- | --- | --- |"
    for field, about in config.model_fields.items():
        if about.exclude:
            continue
        unsaid = about.default in (None, PydanticUndefined)
        default = "" if unsaid else f"`{about.default!r}`"
        assert about.description is not None, field
        yield f"| `{field}` | {default} | {about.description.replace('|', '/')} |"
