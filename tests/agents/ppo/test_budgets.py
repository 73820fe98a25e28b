"""Budgets by hand, and what agents learn under them."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from tests.agents.examples import example_trajectory
from tests.costly_envs import Courier, Gradual, Hasty, Pair
from workflow_rl.agents.algorithm import LearningAgent
from workflow_rl.agents.ppo import budgets
from workflow_rl.agents.ppo.advantages import Estimates
from workflow_rl.agents.ppo.algorithm import PPO
from workflow_rl.agents.ppo.budgets import Budgets, Multipliers
from workflow_rl.agents.ppo.config import Budget, budgets_of
from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.collection.player import play_episodes
from workflow_rl.environments.environment import SETTINGS
from workflow_rl.environments.episode import SeedStream, episode_spec
from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment
from workflow_rl.evaluation.intervals import mean_of

SEEDS = range(5)


def test_budgets_by_their_names():
    mean, quantile, odd = budgets_of({"cost": 25.0, "a:b:p97.5": 3.0, "p95": 0.0})
    assert mean == Budget("cost", "cost", 25.0)
    assert (mean.allowed, mean.unit) == (25, 25)
    assert quantile == Budget("a:b:p97.5", "a:b", 3.0, 0.025)
    assert (quantile.allowed, quantile.unit) == (0.025, 0.025)
    assert (odd.cost, odd.allowed, odd.unit) == ("p95", 0, 1)
    for wrong in ("cost:p0", "cost:p101"):
        with pytest.raises(ValueError, match="is not from p1 to p100"):
            budgets_of({wrong: 1.0})


def test_the_steps_of_a_quantile_add_up_to_whether_the_sum_is_above():
    (budget,) = budgets_of({"cost:p90": 2.0})
    assert budget.charged_by_step(np.array([1.0, 1.0, 0.5, 3.0]), 0.0).tolist() == [0, 0, 1, 0]
    assert budget.charged_by_step(np.array([1.0, 1.0]), 1.5).tolist() == [1, 0]
    assert budget.charged_by_step(np.array([1.0, 1.0]), 2.5).tolist() == [0, 0]
    back = budget.charged_by_step(np.array([3.0, -2.0, 2.0]), 0.0)
    assert back.tolist() == [1, -1, 1]
    assert budget.charged(np.array([2.0, 2.1])).tolist() == [0, 1]


def test_multipliers_by_hand(monkeypatch):
    for name, gain in (("K_P", 0.5), ("K_I", 0.25)):
        monkeypatch.setattr(budgets, name, gain)
    one = Multipliers(2)
    one.update(np.array([0.4, -0.5]))
    assert one.now == pytest.approx([0.5 * 0.4 + 0.25 * 0.4, 0])
    one.update(np.array([9.0, -0.5]))  # Counts as 1.
    assert one.now == pytest.approx([0.5 + 0.25 * 1.4, 0])
    one.update(np.array([-0.2, 0.1]))
    assert one.now == pytest.approx([-0.1 + 0.25 * 1.2, 0.05 + 0.025])
    other = Multipliers(2)
    other.load_state_dict(one.state_dict())
    for each in (one, other):
        each.update(np.array([0.3, 0.3]))
    assert (one.now == other.now).all()
    for wrong in ({"now": [1.0]}, {"integral": [float("nan")] * 2}, {"now": "ab"}):
        with pytest.raises(ValueError, match=r"budgets|numbers"):
            other.load_state_dict({**one.state_dict(), **wrong})


def with_costs(costs: list[float], before: float = 0.0, ended: bool = True) -> Trajectory:
    played = example_trajectory([0.0] * len(costs))._replace(terminated=ended, truncated=False)
    column = np.array(costs)[:, None]
    return played._replace(costs=column, costs_before=np.array([before]))


def test_the_episodes_that_ended_set_the_multipliers(monkeypatch):
    monkeypatch.setattr(budgets, "AIM", 1.0)
    of_run = Budgets({"cost": 4.0, "cost:p50": 4.0}, ("cost",))
    trajectories = [
        with_costs([1.0, 2.0], before=3.0),
        with_costs([1.0, 1.0]),
        with_costs([50.0], ended=False),
    ]
    given: list[Trajectory] = []

    def learn(told: Any) -> Any:
        given[:] = told
        return SimpleNamespace(_asdict=dict)

    metrics = of_run.learned(trajectories, learn)
    # The sums are 6 and 2: their mean is the limit, and so is the share of those above 4.
    assert metrics._asdict() == {"multiplier_cost": 0, "multiplier_cost:p50": 0}
    assert [one.costs.tolist() for one in given[::2]] == [[[0.25, 0], [0.5, 2]], [[12.5, 2]]]
    metrics = of_run.learned(trajectories[:1], learn)
    gains = budgets.K_P + budgets.K_I
    assert metrics._asdict() == {
        "multiplier_cost": pytest.approx(0.5 * gains),
        "multiplier_cost:p50": pytest.approx(gains),
    }


def test_advantages_of_rewards_and_costs_together():
    spaces, settings = GymnasiumEnvironment("mine", {}, Hasty).spaces(), PPO.settings
    agent: Any = PPO().make(settings(budgets={"cost": 1.0}), spaces, 0, "cpu", 1)
    agent.costs.budgets.multipliers.now = np.array([0.5])
    of_reward = Estimates(np.array([1.0, 2.0], np.float32), np.array([1.0, 5.0], np.float32))
    of_cost = Estimates(np.array([3.0, -1.0], np.float32), np.array([7.0, 8.0], np.float32))
    seen = SimpleNamespace(computed=lambda compute: torch.zeros(3))
    joined, targets = agent.costs.joined([], seen, of_reward, lambda *_: of_cost)
    # The returns' deviation is 2: (A - 0.5 * 2 * A_cost) / 1.5.
    assert joined.tolist() == pytest.approx([-2 / 1.5, 3 / 1.5])
    assert targets.tolist() == [[7], [8]]


def trained(
    make: Any, limits: dict[str, float], seed: int, updates: int, episodes: int, **settings: Any
) -> tuple[LearningAgent, GymnasiumEnvironment]:
    """An agent that has learned from so many episodes in each update."""
    environment = GymnasiumEnvironment("mine", {}, make)
    spaces, plug_in = environment.spaces(), PPO()
    asked = plug_in.settings_for(SETTINGS, {"budgets": limits, "learning_rate": 3e-3, **settings})
    agent = plug_in.make(asked, spaces, seed, "cpu", 1)
    envs, done = environment._make_envs(32), 0
    for number in range(updates):
        actor = agent.policy_parameters().actor(agent.policy_version)
        specs = [episode_spec(seed, done + n) for n in range(episodes)]
        played = [one for ending in play_episodes(envs, actor, specs) for one in ending]
        agent.update(sorted(played, key=lambda one: one.episode), number / updates)
        done += episodes
    return agent, environment


def spent(agent: LearningAgent, environment: GymnasiumEnvironment, episodes: int = 300) -> Any:
    """The sums of the costs of other episodes, [N, C], and their returns [N]."""
    actor = agent.policy_parameters().actor(agent.policy_version)
    specs = [episode_spec(0, number, (), SeedStream.EVALUATION) for number in range(episodes)]
    ends = play_episodes(environment._make_envs(32), actor, specs)
    played = [one for ending in ends for one in ending]
    costs = np.array([one.episode_costs for one in played])
    return costs, np.array([one.episode_return for one in played])


FUEL = 2.5


def test_the_best_courier_by_hand():
    pay, spends = Courier._greedy(0.0)
    assert Courier.best(100.0) == pytest.approx(pay)
    assert spends > 2 * FUEL
    # Whoever walks spends 0.1 in the third district alone.
    walking = np.zeros((Courier.STEPS, 3, 3))
    walking[:, :, 0] = 1
    least = Courier.expected(walking, Courier.COST)
    assert Courier.best(FUEL) > Courier.expected(walking, Courier.PAY)
    assert least < 0.1


@pytest.mark.parametrize(
    "seed", [SEEDS[0], *(pytest.param(seed, marks=pytest.mark.slow) for seed in SEEDS[1:])]
)
def test_a_courier_earns_nearly_the_most_within_the_budget(seed):
    """What it earns and spends is computed exactly, from its chances."""
    agent: Any
    agent, _ = trained(
        Courier, {"fuel": FUEL}, seed, 40, 64, discount=1.0, normalise_obs=False, epochs=8
    )
    with torch.no_grad():
        outputs = agent.network.outputs(torch.eye(3 * Courier.STEPS))
    chances = torch.softmax(outputs, dim=1).numpy().astype(np.float64).reshape(-1, 3, 3)
    assert Courier.expected(chances, Courier.PAY) / Courier.best(FUEL) > 0.98
    assert Courier.expected(chances, Courier.COST) <= FUEL


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "limits", "column"),
    [
        (Hasty, {"wear": 1.0}, 1),
        (Gradual, {"wear": 1.0}, 1),
        (Pair, {"cost": 1.5}, 0),
        (Hasty, {"wear:p90": 1.5}, 1),
    ],
)
def test_small_environments_are_within_their_budgets(make, limits, column):
    """Discrete and continuous actions, a team, and a quantile: of four of five seeds at least, 300
    episodes do not show that the budget is exceeded."""
    (budget,) = budgets_of(limits)
    kept = 0
    for seed in SEEDS:
        costs, returns = spent(*trained(make, limits, seed, 40, 50, epochs=6))
        assert returns.mean() > 1.5
        charged = mean_of([budget.charged(costs[:, column])])
        kept += charged.mean - charged.interval_95 <= budget.allowed
    assert kept >= 4
