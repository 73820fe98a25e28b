"""Texts that somebody else may have written, as a terminal may show them."""

from __future__ import annotations

import logging
import math
from typing import Any

MOST = 2_000
"""Characters of one text that are shown. An exception, or a name in a file, may have any number."""


def shortened(text: str, most: int = MOST) -> str:
    """Return a text, or the beginning of an overlong one and its length."""
    return text if len(text) <= most else f"{text[:most]}... ({len(text):,} characters)"


def in_short(value: Any) -> str:
    """Return a setting as text: of a text of several lines, the first tells what it is."""
    return str(value).partition("\n")[0]


def printable(value: Any, kept: str = "", most: int = MOST) -> str:
    """Return a value as text, without characters that command a terminal, and not overlong.

    kept: such characters that stay, as line breaks.
    """
    return "".join(
        sign if sign.isprintable() or sign in kept else sign.encode("unicode_escape").decode()
        for sign in shortened(str(value), most)
    )


def fitting(decimals: int, *values: float) -> str:
    """Return the format in which numbers beside each other show at least three digits of the
    largest, and no decimals of one of 100,000 or more; an exponent from 1e15 on. decimals: of
    numbers between."""
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    if largest >= 1e15:
        return ".3e"
    if largest >= 100_000:
        return ",.0f"
    if 0 < largest < 1:
        decimals = max(decimals, 2 - math.floor(math.log10(largest)))
    return f".{decimals}f"


class PrintableFormatter(logging.Formatter):
    """Shows what is logged as text that a terminal may show."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the whole record, which may be of several lines."""
        return printable(super().format(record), "\n", 10 * MOST)
