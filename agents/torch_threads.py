"""How many threads torch computes with. Libraries split sums by this number."""

from __future__ import annotations

import torch


def set_threads(number: int) -> None:
    """Have this thread compute with so many threads, whatever other threads of Python set."""
    # A thread that has not looked yet would take, at its first sum, what any thread set last.
    torch.get_num_threads()
    torch.set_num_threads(number)
