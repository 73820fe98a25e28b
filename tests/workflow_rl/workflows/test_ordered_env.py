"""An environment of one's own whose agent reaches milestones in an order."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import numpy as np
import pytest

from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment
from workflow_rl.workflows.scoring import RandomActor, play, rules_of

sys.path.insert(0, str(Path(__file__).parents[3] / "examples"))
from ordered_visits import SITES, best_return, make

ORDER = "pier,lab,mast,gate,depot"


def test_it_plays_as_the_mask_allows_and_scores_no_more_than_the_best() -> None:
    environment = GymnasiumEnvironment("ordered_visits:make", {"order": ORDER}, make)
    rules = rules_of(environment)
    order = rules.workflow.order_named(ORDER)
    played = play(RandomActor(environment), environment, rules, order, range(30))
    assert played.adherence == 1
    assert played.fixes.sum() > 20
    assert played.totals.max() < best_return(ORDER.split(",")) == 32


def test_the_reward_of_a_milestone_out_of_order_is_less_the_penalty() -> None:
    env = make("depot,gate,lab,mast,pier", "penalty", 3.0)
    obs, info = env.reset(seed=0)
    assert obs.shape == env.observation_space.shape == (36 + 5 + 10,)
    assert "action_mask" not in info
    rewards = [env.step(action)[1] for action in (3, 3, 1)]
    assert rewards == [-1, -1, -1 + 10 - 3]


def test_each_seed_draws_an_order() -> None:
    env = make()
    rows = [env.reset(seed=seed)[0][-10:] for seed in range(20)]
    assert np.array_equal(env.reset(seed=3)[0][-10:], rows[3])
    assert len({row.tobytes() for row in rows}) > 10
    assert env.observation_space.contains(env.reset(seed=0)[0])


def test_the_best_order_is_known() -> None:
    returns = {order: best_return(order) for order in itertools.permutations(SITES)}
    assert max(returns.values()) == returns[tuple(ORDER.split(","))]


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="obedience='no'"):
        make(obedience="no")
    with pytest.raises(ValueError, match="'x' is no group"):
        make("x")
