"""Checks of an installation for CAGE-4: the checkout of CybORG 4."""

import os
from collections.abc import Iterator

from workflow_rl.cage4.cyborg import checkout
from workflow_rl.commands.doctor import Finding


def simulators() -> Iterator[Finding]:
    """Yield one finding: whether the user named a checkout of the commit `checkout.COMMIT`."""
    if not os.environ.get(checkout.VARIABLE):
        where = f"no checkout is named by {checkout.VARIABLE}"
        yield Finding("CybORG 4", f"{where}: CAGE-4 plays only on the compiled simulator")
        return
    try:
        checkout.cyborg_checkout()
    except checkout.CheckoutError as error:
        yield Finding("CybORG 4", str(error).partition(": ")[2], checkout.HOW_TO_GET_IT)
    else:
        yield Finding("CybORG 4", f"commit {checkout.COMMIT[:7]}, named by {checkout.VARIABLE}")
