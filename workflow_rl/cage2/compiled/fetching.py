"""Let the processor fetch an env's memory before the env steps. Envs step one after the other."""

from typing import Any

import numpy as np

from workflow_rl.cage2.compiled.generator import M, N
from workflow_rl.cage2.compiled.jit import compiled, first_word, prefetch

AHEAD = 6  # While env i steps, memory of env i + AHEAD and env i + 2 * AHEAD is fetched.
FIRST_LINES = 5  # The number of cache lines at the start of a record that every step reads.
LINE = 64  # The number of bytes of a cache line.
WORD = 4  # The number of bytes of a word of the random generator.


@compiled
def fetch_ahead(states: Any, i: int) -> None:
    """Let the processor fetch the memory of the next envs while env i steps."""
    if i + 2 * AHEAD < len(states):
        for line in range(FIRST_LINES):
            prefetch(states, i + 2 * AHEAD, LINE * line)
    if i + AHEAD < len(states):
        # The generator's next draws read its words at these two indices.
        first = first_word(states)
        index = np.int64(states[i + AHEAD].mt_index)
        middle = index + M if index + M < N else index + M - N
        for word in (index, middle):
            prefetch(states, i + AHEAD, first + WORD * word)
            prefetch(states, i + AHEAD, first + WORD * word + LINE)
