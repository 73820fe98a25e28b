"""What candidates are compared on: episodes of their own, and how sure the comparison is."""

import math

import numpy as np
import pytest

from tests.random_actor import RandomActor
from tests.workflow_rl.cage2.actors import Sleeping
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage2.scenario2 import RED_AGENTS
from workflow_rl.cage2.scoring import selection
from workflow_rl.cage2.scoring.protocol import cell_spec
from workflow_rl.cage2.scoring.selection import ATTACKERS, score, scores_of_episodes
from workflow_rl.environments.episode import SeedStream, episode_spec
from workflow_rl.environments.source import make_environment

N = 4


def seeds_against(red_agent: str) -> set[int]:
    actor = Sleeping()
    scores_of_episodes(actor, Cage2("attackers", 2, "compiled"), red_agent, N)
    return set(actor.seeds)


def test_every_attacker_comes_with_episodes_of_its_own() -> None:
    seeds = [seeds_against(red_agent) for red_agent in ATTACKERS]
    assert [len(one) for one in seeds] == [N, N]
    assert not seeds[0] & seeds[1]


def test_candidates_are_not_chosen_on_episodes_that_score_or_train_them() -> None:
    numbers = [red * 1_000_000 + number for red in range(3) for number in range(2 * N)]
    others = {
        episode_spec(0, number, (), stream).action_seed
        for stream in SeedStream
        if stream is not SeedStream.SELECTION
        for number in numbers
    }
    others |= {
        cell_spec(0, max_steps, red_agent, number).action_seed
        for max_steps in (2, 30, 50, 100)
        for red_agent in RED_AGENTS
        for number in range(2 * N)
    }
    for red_agent in ATTACKERS:
        assert not seeds_against(red_agent) & others


def test_a_candidates_score_and_its_interval_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Episodes of -3 and -9 in all cells: variance 18, of the mean of two 9; two attackers, and
    together 3 degrees of freedom."""
    monkeypatch.setattr(
        selection,
        "scores_of_episodes",
        lambda *arguments: np.array([[-1.0, -1.0, -1.0], [-2.0, -3.0, -4.0]]),
    )
    found = score(Sleeping(), Cage2("attackers"), 2)
    assert found.mean == -12
    assert found.interval_95 == pytest.approx(3.1824 * math.sqrt(9 + 9), rel=1e-4)


def test_scores_do_not_contain_the_price_of_a_fix() -> None:
    priced, free = (
        make_environment("workflow_rl/OrderedCAGE2-v0", {"obedience": "penalty", "penalty": cost})
        for cost in (5.0, 0.0)
    )
    scores = [scores_of_episodes(RandomActor(one), one, "B_lineAgent", N) for one in (priced, free)]
    assert np.array_equal(*scores)
