"""The values that determine an episode besides the policy: its number, variant and seeds."""

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

import numpy as np


class SeedStream(IntEnum):
    """Separates the seeds of unrelated uses. The results of runs depend on these numbers."""

    TRAINING = 0
    EVALUATION = 1
    BENCHMARK = 2
    SELECTION = 3
    # NumPy splits numbers into words of 32 bits. So a stream's small number could be the upper half
    # of a large seed, and two streams would share episodes. The numbers below are not the upper
    # half of any seed.
    VALIDATION = 2**32 - 1
    RANKING = 2**32 - 2
    WORKFLOWS = 2**32 - 3
    TEACHING = 2**32 - 4


class EpisodeSpec(NamedTuple):
    """The values that determine an episode besides the policy. variant: "" if the env has none.
    progress: the run's progress from 0 to 1, with a curriculum."""

    number: int
    variant: str
    env_seed: int
    action_seed: int
    progress: float | None = None


def episode_spec(
    run_seed: int,
    number: int,
    variants: Sequence[str] = (),
    stream: SeedStream = SeedStream.TRAINING,
    total: int | None = None,
) -> EpisodeSpec:
    """Return the spec of episode `number`, which does not depend on workers or their order.

    A variant is drawn. All variants are equally likely. total: with a curriculum, the number of
    episodes at which the progress is 1.
    """
    assert not isinstance(variants, str), "several variants, not the letters of one"
    sequence = np.random.SeedSequence([run_seed, stream, number])
    env_seed, action_seed, choice = (int(word) for word in sequence.generate_state(3))
    variant = variants[choice % len(variants)] if variants else ""
    progress = None if total is None else min(1.0, number / total)
    return EpisodeSpec(number, variant, env_seed, action_seed, progress)
