"""What decides an episode besides the policy: its number, its env's variant and its seeds."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

import numpy as np


class SeedStream(IntEnum):
    """Keeps the seeds of unrelated uses apart; part of what a run's results depend on."""

    TRAINING = 0
    EVALUATION = 1
    BENCHMARK = 2
    SELECTION = 3
    # No seed has these in its upper half, and no episode has them as its number. NumPy splits
    # numbers into words of 32 bits, so that a smaller stream would share episodes with another one
    # of a larger seed.
    VALIDATION = 2**32 - 1
    RANKING = 2**32 - 2


class EpisodeSpec(NamedTuple):
    """All that decides an episode besides the policy. variant: "" if its env has none."""

    number: int
    variant: str
    env_seed: int
    action_seed: int


def episode_spec(
    run_seed: int,
    number: int,
    variants: Sequence[str] = (),
    stream: SeedStream = SeedStream.TRAINING,
) -> EpisodeSpec:
    """Episode `number` of a run. It depends on nothing else: not on workers, nor on order.

    Of several variants one is drawn, each as likely.
    """
    assert not isinstance(variants, str), "several variants, not the letters of one"
    sequence = np.random.SeedSequence([run_seed, stream, number])
    env_seed, action_seed, choice = (int(word) for word in sequence.generate_state(3))
    variant = variants[choice % len(variants)] if variants else ""
    return EpisodeSpec(number, variant, env_seed, action_seed)
