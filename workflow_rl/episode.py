"""What decides an episode besides the policy: its number, its red agent and its seeds."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from workflow_rl.scenario2 import RED_AGENTS

MIXED = "mixed"


class SeedStream(IntEnum):
    """Keeps the seeds of unrelated uses apart; part of what a run's results depend on."""

    TRAINING = 0
    EVALUATION = 1
    BENCHMARK = 2


class EpisodeSpec(NamedTuple):
    """All that decides an episode besides the policy."""

    number: int
    red_agent: str
    env_seed: int
    action_seed: int


def episode_spec(
    run_seed: int, number: int, red_agent: str, stream: SeedStream = SeedStream.TRAINING
) -> EpisodeSpec:
    """Episode `number` of a run. It depends on nothing else: not on workers, nor on order.

    `red_agent` "mixed" draws one of the three, each as likely.
    """
    sequence = np.random.SeedSequence([run_seed, stream, number])
    env_seed, action_seed, choice = (int(word) for word in sequence.generate_state(3))
    if red_agent == MIXED:
        red_agent = RED_AGENTS[choice % len(RED_AGENTS)]
    return EpisodeSpec(number, red_agent, env_seed, action_seed)
