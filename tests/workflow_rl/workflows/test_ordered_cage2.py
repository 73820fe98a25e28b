"""CAGE-2 with an order: what is shown, what is forbidden, what it costs, and play on the bits."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.playing import episodes_of, save_untrained, untrained
from tests.random_actor import RandomActor
from workflow_rl import load_agent
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.environments.episode import SeedStream, episode_spec
from workflow_rl.environments.source import make_environment
from workflow_rl.errors import ConfigError
from workflow_rl.workflows.environment import OrderedCage2
from workflow_rl.workflows.scoring import play_order, rules_of

ENV = OrderedCage2("attackers", 40, "compiled")
FREE = dataclasses.replace(ENV, obedience="penalty")
ORDER = ENV.rules.workflow.order_named("users,op_hosts,enterprise,op_server")


def test_a_mask_lets_no_fix_pass_a_group_in_need() -> None:
    masked = play_order(RandomActor(ENV), ENV, ENV.rules, ORDER, 20)
    free = play_order(RandomActor(FREE), FREE, FREE.rules, ORDER, 20)
    assert masked.n_kept == masked.n_decided > 200
    assert 0.1 < free.n_kept / free.n_decided < 0.9


def test_a_fix_that_breaks_the_order_costs_the_penalty_and_nothing_else() -> None:
    specs = [episode_spec(0, n, ("RedMeanderAgent",)) for n in range(4)]
    returns = {}
    for penalty in (0.0, 2.0):
        environment = dataclasses.replace(FREE, penalty=penalty)
        played = episodes_of(environment.make_envs(3), RandomActor(environment), specs)
        returns[penalty] = np.array([one.episode_return for one in played])
    lost = (returns[0] - returns[2]) / 2
    assert lost == pytest.approx(np.round(lost))
    assert min(lost) > 0


def test_the_seed_of_an_episode_draws_its_order_wherever_it_is_played() -> None:
    specs = [episode_spec(0, n, ENV.variants) for n in range(6)]
    alone = [ENV.make_envs(1).reset([0], [spec])[0] for spec in specs]
    together = ENV.make_envs(6).reset([5, 4, 3, 2, 1, 0], specs)
    assert np.array_equal(np.array(alone), together)
    own = ENV.spaces().obs_dim
    assert len({row[own - 10 : own].tobytes() for row in together}) > 2


def test_it_plays_on_the_bits_as_in_its_own_envs() -> None:
    environment = dataclasses.replace(ENV, order=ENV.rules.workflow.name_of(ORDER))
    actor = untrained(environment).actor(greedy=True)
    specs = [episode_spec(0, n, ("RedMeanderAgent",)) for n in range(3)]
    bits = Cage2("RedMeanderAgent", 40, "compiled")
    returns = [
        [one.episode_return for one in episodes_of(envs, who, specs)]
        for envs, who in (
            (environment.make_envs(3), actor),
            (bits.make_envs(3), environment.actor_on_observations(actor)),
        )
    ]
    assert returns[0] == returns[1]
    assert len(set(returns[0])) > 1


def test_a_loaded_agent_is_told_an_order(tmp_path: Path) -> None:
    agent = load_agent(save_untrained(tmp_path / "agent.npz", ENV))
    assert agent.act(np.zeros(52, np.uint8), order="users,op_hosts,enterprise,op_server") >= 0
    with pytest.raises(ValueError, match="'nobody' is no group"):
        agent.act(np.zeros(52, np.uint8), order="nobody")
    with pytest.raises(ValueError, match="this agent takes no order"):
        load_agent("champion").act(np.zeros(52, np.uint8), order="users")


def test_an_agent_against_one_red_agent_is_scored_by_its_return() -> None:
    one = dataclasses.replace(ENV, red_agent="B_lineAgent")
    actor = untrained(ENV).actor(greedy=True)
    envs = dataclasses.replace(one, order=one.rules.workflow.name_of(ORDER)).make_envs(2)
    specs = [episode_spec(0, n, ("B_lineAgent",), SeedStream.WORKFLOWS) for n in range(2)]
    returns = [played.episode_return for played in episodes_of(envs, actor, specs)]
    assert play_order(actor, one, one.rules, ORDER, 2).totals.tolist() == returns


@pytest.mark.parametrize(
    ("args", "argument", "problem"),
    [
        ({"workflow": "a: User1; b: User1"}, "workflow", "User1 is given twice"),
        ({"order": "users"}, "order", "has to name each of"),
        ({"penalty": 1.0}, "penalty", "needs obedience penalty"),
        ({"observation": "table"}, "observation", "'table' is not one of belief"),
    ],
)
def test_wrong_arguments_are_named(args: dict[str, Any], argument: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as raised:
        make_environment(ENV.env_id, args)
    assert raised.value.field_name == argument


def test_an_environment_without_orders_has_no_rules() -> None:
    with pytest.raises(ConfigError, match="takes no order"):
        rules_of(Cage2())
