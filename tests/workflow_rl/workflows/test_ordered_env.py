"""An environment of one's own whose agent reaches milestones in an order."""

import itertools
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from tests.random_actor import RandomActor
from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment
from workflow_rl.errors import ObservationError
from workflow_rl.workflows.envs import OrderedEnv
from workflow_rl.workflows.scoring import play_order, rules_of

sys.path.insert(0, str(Path(__file__).parents[3] / "examples"))
from ordered_visits import SITES, Visits, best_return, fixes, make, needs

ORDER = "pier,lab,mast,gate,depot"


def played_in(name: str, factory: Any, by: str = ORDER, **args: Any) -> Any:
    """What chance does in 30 episodes of the environments of a factory, in the order `by`."""
    environment = GymnasiumEnvironment(name, args, factory)
    rules = rules_of(environment)
    order = rules.workflow.order_named(by)
    return play_order(RandomActor(environment), environment, rules, order, 30)


def test_it_plays_as_the_mask_allows_and_scores_no_more_than_the_best() -> None:
    played = played_in("ordered_visits:make", make, order=ORDER)
    assert played.n_kept == played.n_decided > 20
    assert played.totals.max() < best_return(ORDER.split(",")) == 32


def test_the_reward_of_a_milestone_out_of_order_is_less_the_penalty() -> None:
    env = make("depot,gate,lab,mast,pier", "penalty", 3.0)
    obs, info = env.reset(seed=0)
    assert obs.shape == env.observation_space.shape == (36 + 5 + 10 + 5,)
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


class Fenced(Visits):
    """Offers a mask of its own: one move at first, and none after the end."""

    def reset(self, **options: Any) -> tuple[np.ndarray, dict[str, Any]]:
        return super().reset(**options)[0], {"action_mask": np.array([0, 0, 0, 1], np.int8)}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        obs, reward, _, _, _ = super().step(action)
        return obs, reward, True, False, {"action_mask": np.zeros(4, np.int8)}


def test_an_environments_own_mask_holds_beside_the_orders() -> None:
    env = OrderedEnv(Fenced(), list(SITES), needs, fixes, ORDER)
    assert env.reset(seed=0)[1]["action_mask"].tolist() == [0, 0, 0, 1]
    assert env.step(3)[2]


def test_an_order_that_the_own_mask_does_not_let_keep_is_an_error() -> None:
    blocked = [-1, -1, -1, 0]  # The only move that is possible reaches depot, which is last.
    env = OrderedEnv(Fenced(), list(SITES), needs, lambda _: blocked, ORDER)
    with pytest.raises(ObservationError, match="only actions that break the order"):
        env.reset(seed=0)


def test_scores_do_not_contain_the_penalty_of_a_factory() -> None:
    order = "depot,gate,lab,mast,pier"
    charged = played_in("costly", lambda order="": make(order, "penalty", 3.0), order)
    assert charged.n_kept < charged.n_decided
    plain = played_in("plain", make, order, obedience="penalty")
    assert np.array_equal(charged.totals, plain.totals)


@pytest.mark.parametrize("names", [["a, b", "c"], ["a", "a"], ["a"], [" a", "b"]])
def test_names_that_no_order_can_tell_are_refused(names: list[str]) -> None:
    with pytest.raises(ValueError, match="milestones"):
        OrderedEnv(Visits(), names, needs, fixes)


def test_a_factory_may_know_no_orders() -> None:
    unaware = played_in("unaware", lambda: make()).totals
    assert np.array_equal(unaware, played_in("aware", make, order=ORDER).totals)
    assert unaware.max() > -60


@pytest.mark.parametrize("obedience", ["mask", "penalty"])
def test_an_own_mask_in_the_observation_is_passed_on(obedience: str) -> None:
    class Shown(Visits):
        observation_space = spaces.Dict(
            {"own": Visits().observation_space, "action_mask": spaces.Box(0, 1, (4,), np.int8)}
        )

        def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
            obs, info = super().reset(**options)
            return {"own": obs, "action_mask": np.array([1, 0, 1, 1], np.int8)}, info

    env = OrderedEnv(Shown(), list(SITES), needs, fixes, ORDER, obedience)
    obs, info = env.reset(seed=0)
    assert obs.shape == env.observation_space.shape
    assert info["action_mask"][1] == 0


class Advised(Visits):
    """Shows what only a critic may see."""

    observation_space = spaces.Dict(
        {"own": spaces.Box(0, 1, (2,)), "privileged_obs": spaces.Box(0, 1, (3,))}
    )


def test_what_only_a_critic_sees_does_not_become_the_actors() -> None:
    with pytest.raises(ValueError, match="privileged_obs"):
        OrderedEnv(Advised(), list(SITES), needs, fixes)
