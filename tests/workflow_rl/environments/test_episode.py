"""The seeds of episodes, which published results depend on."""

import numpy as np
import pytest

from workflow_rl.environments.episode import EpisodeSpec, SeedStream, episode_spec


@pytest.mark.parametrize(
    ("stream", "word"),
    [
        (SeedStream.TRAINING, 0),
        (SeedStream.EVALUATION, 1),
        (SeedStream.BENCHMARK, 2),
        (SeedStream.SELECTION, 3),
        (SeedStream.VALIDATION, 2**32 - 1),
        (SeedStream.RANKING, 2**32 - 2),
    ],
)
def test_an_episodes_seeds_stay_the_same(stream, word):
    seeds = np.random.SeedSequence([5, word, 7]).generate_state(3).tolist()
    variant = ("even", "odd")[seeds[2] % 2]
    assert episode_spec(5, 7, ("even", "odd"), stream) == EpisodeSpec(7, variant, *seeds[:2])
