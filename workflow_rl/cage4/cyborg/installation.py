"""Checks of an installation for CAGE-4: the checkout of CybORG 4."""

from __future__ import annotations

import os
from collections.abc import Iterator

from workflow_rl.cage4.cyborg.checkout import (
    COMMIT,
    HOW_TO_GET_IT,
    VARIABLE,
    CheckoutError,
    cyborg_checkout,
)
from workflow_rl.runs.installation import Finding


def simulators() -> Iterator[Finding]:
    """Say whether the user has named a checkout, and whether it is the right commit."""
    if not os.environ.get(VARIABLE):
        text = f"no checkout is named by {VARIABLE}: CAGE-4 plays on the compiled simulator alone"
        yield Finding("CybORG 4", text)
        return
    try:
        cyborg_checkout()
    except CheckoutError as error:
        yield Finding("CybORG 4", str(error).partition(": ")[2], HOW_TO_GET_IT)
    else:
        yield Finding("CybORG 4", f"commit {COMMIT[:7]}, named by {VARIABLE}")
