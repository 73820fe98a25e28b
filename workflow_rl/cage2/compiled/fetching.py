"""The memory of envs that step one after the other, fetched before they step."""

from __future__ import annotations

from typing import Any

import numpy as np

from workflow_rl.cage2.compiled.generator import M, N
from workflow_rl.cage2.compiled.jit import compiled, first_word, prefetch

# The number of envs by which prefetching is ahead, and the cache lines that every step reads.
AHEAD, FIRST_LINES, LINE = 6, 5, 64


@compiled
def fetch_ahead(states: Any, i: int) -> None:
    """Have the processor fetch the memory of the next envs, while env i steps."""
    if i + 2 * AHEAD < len(states):
        for line in range(FIRST_LINES):
            prefetch(states, i + 2 * AHEAD, LINE * line)
    if i + AHEAD < len(states):
        # The words of the generator that the next draws read.
        first = first_word(states)
        word = np.int64(states[i + AHEAD].mt_index)
        for at in (word, word + M if word + M < N else word + M - N):
            prefetch(states, i + AHEAD, first + 4 * at)
            prefetch(states, i + AHEAD, first + 4 * at + LINE)
