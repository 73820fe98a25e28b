"""Names in pictures: drawn as they are."""

from __future__ import annotations


def as_drawn(name: str) -> str:
    """The text by which matplotlib draws a name that a user or a file chose.

    Given the name itself, matplotlib would read what is between two `$` as a formula, hide a label
    that begins with `_`, and fail at bytes that are no UTF-8.
    """
    readable = name.encode(errors="backslashreplace").decode()
    visible = f" {readable}" if readable.startswith("_") else readable
    return visible.replace("$", r"\$")
