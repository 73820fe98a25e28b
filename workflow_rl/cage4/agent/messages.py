"""The messages that a trained team sends: none, alerts by a fixed protocol, or bits that it learns.

In the challenge, each agent sends eight bits to the other four. This module needs NumPy and
`agents` alone, because submissions contain a copy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage4.agent.belief import IS_USER
from workflow_rl.cage4.scenario.scenario4 import AGENTS, MESSAGE_BITS, OWN_ZONES

MESSAGES = ("none", "alerts", "learned")
LEARNED_BITS = 2
N_WORDS = 2**LEARNED_BITS
"""How many messages an agent can choose from if the agents learn what they send."""


def alerts(suspected: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return what the agents send, bool [M, 5, 8]: two bits for each of an agent's own zones.

    The first bit says that the agent suspects a server, the second that it suspects a user host.
    suspected: bool [M, 7, 16], the hosts of all own zones."""
    sent = np.zeros((len(suspected), len(AGENTS), MESSAGE_BITS), np.bool_)
    for zone, (agent, number) in enumerate(OWN_ZONES):
        sent[:, agent, 2 * number] = suspected[:, zone, ~IS_USER].any(axis=1)
        sent[:, agent, 2 * number + 1] = suspected[:, zone, IS_USER].any(axis=1)
    return sent


def spoken(words: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return the bits [M, 5, 8] of words [M, 5], numbers below N_WORDS."""
    sent = np.zeros((*words.shape, MESSAGE_BITS), np.bool_)
    sent[..., :LEARNED_BITS] = (words[..., None] >> np.arange(LEARNED_BITS)) & 1
    return sent
