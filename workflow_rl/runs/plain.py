"""Values of a saved config that can name nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

WORD = re.compile(r"[\w-]*")


def is_plain(value: Any) -> bool:
    """Whether a value can name neither a file, nor a module, nor an address."""
    with suppress(RecursionError):  # No user wrote such a value.
        return all(map(WORD.fullmatch, texts_in(value)))
    return False


def texts_in(value: Any) -> Iterator[str]:
    """All texts of a value, which is made of JSON's kinds of values."""
    if isinstance(value, list | tuple):
        for one in value:
            yield from texts_in(one)
    elif isinstance(value, dict):
        yield from texts_in([*value, *value.values()])
    elif isinstance(value, str):
        yield value
