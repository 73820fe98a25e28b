"""HTML pages of one file: all that they need is inside, and nothing is asked of any network."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from importlib import resources
from typing import Any

STYLE = "workflow_rl.measuring.pages"


def filled(package: str, name: str, **parts: str) -> str:
    """The template `name` of a package, with each {{part}} as given. `style` is there already.

    The parts are HTML: see `escaped` and `as_json`.
    """
    parts["style"] = source(STYLE, "style.css")

    def part(match: re.Match[str]) -> str:
        return parts[match[1]]

    return re.sub(r"\{\{(\w+)\}\}", part, source(package, name))


def source(package: str, name: str) -> str:
    """The text of a file of a package."""
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")


def escaped(text: Any) -> str:
    """Text as HTML."""
    return html.escape(str(text))


def as_json(value: Any) -> str:
    """A value for a script element of type application/json, which nothing in it can end."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


def attributes(values: Mapping[str, Any]) -> str:
    """Of an element, each with a space before it."""
    return "".join(f' {name}="{escaped(value)}"' for name, value in values.items())
