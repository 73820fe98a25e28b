"""The memory of envs that step one after the other, fetched before they step."""

from __future__ import annotations

from typing import Any

import numpy as np

from workflow_rl.cage2.compiled import tables
from workflow_rl.cage2.compiled.generator import M, N
from workflow_rl.cage2.compiled.jit import compiled, prefetch
from workflow_rl.cage2.compiled.state import SIZES, STATE, state_for

# The number of envs by which prefetching is ahead, and the cache lines that every step reads.
AHEAD, FIRST_LINES, LINE = 6, 5, 64
FIRST_WORD, FIRST_WORD_OF_ANY = (
    record.fields["mt"][1]  # type: ignore[index]
    for record in (STATE, state_for(SIZES[0], any_ports=True))
)


@compiled
def fetch_ahead(states: Any, i: int) -> None:
    """Have the processor fetch the memory of the next envs, while env i steps."""
    if i + 2 * AHEAD < len(states):
        for line in range(FIRST_LINES):
            prefetch(states, i + 2 * AHEAD, LINE * line)
    if i + AHEAD < len(states):
        # The words of the generator that the next draws read.
        first = FIRST_WORD if len(states[i].port_bits) < tables.N_HOSTS else FIRST_WORD_OF_ANY
        word = np.int64(states[i + AHEAD].mt_index)
        for at in (word, word + M if word + M < N else word + M - N):
            prefetch(states, i + AHEAD, first + 4 * at)
            prefetch(states, i + AHEAD, first + 4 * at + LINE)
