from typing import Any

import numpy as np
import pytest

from tests.workflow_rl.cage4.red_files import write_red_team
from workflow_rl import TrainConfig
from workflow_rl.cage4.env.red_environment import Cage4Red
from workflow_rl.cage4.guest import Cage4Guest
from workflow_rl.cage4.red.roster import LIBRARY
from workflow_rl.cage4.scenario.scenario4 import ENV_ID
from workflow_rl.collection.player import play_episode
from workflow_rl.environments.episode import EpisodeSpec
from workflow_rl.environments.source import make_environment
from workflow_rl.errors import ConfigError
from workflow_rl.studies.duel import actor_for_side
from workflow_rl.studies.exploit import attack

GUEST = Cage4Guest()


def args(**changes: Any) -> dict[str, Any]:
    return dict(GUEST.make(GUEST.arguments()(**changes)).args)


def test_both_sides_play_in_the_scenario_that_is_asked_for():
    sides = GUEST.sides(args(max_steps=40, users=3, phishing_rate=0.5))
    for side, opponents in (("Blue", "SleepAgent=3,DiscoveryFSRed=1"), ("Red", "champion,rules=2")):
        found = sides[side]
        environment = make_environment(found.env, {**found.args, found.opponents: opponents})
        assert environment.episode_steps == 39
        assert environment.args["users"] == 3
        assert environment.args["phishing_rate"] == 0.5
    envs = make_environment(sides["Red"].env, sides["Red"].args).make_envs(1)
    envs.reset([0], [EpisodeSpec(0, "", 0, 0)])
    assert envs._simulator.states["scenario"]["users"] == 3  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match="give the values of one scenario"):
        GUEST.sides(args(scenarios=("challenge", "more-phishing")))


def test_a_run_against_several_blues_has_a_name():
    assert Cage4Red(blue_agent="champion=2,rules=1").label == "cage4-red-champion-2-rules-1"
    assert len(Cage4Red(blue_agent="rules=1," * 20).label) == 80


def test_an_episode_of_red_meets_one_of_several_blues():
    """Red does nothing: it gets what Blue pays for greens and for its own actions."""
    numbers, blues = range(8), ("random", "rules", "champion")

    def rewards(blue: str) -> list[list[float]]:
        envs = Cage4Red(blue_agent=blue, max_steps=60).make_envs(len(numbers))
        envs.reset(numbers, [EpisodeSpec(n, "", n, n) for n in numbers])
        sleep = np.zeros((len(numbers), 6), np.int64)
        return np.array([envs.step(numbers, sleep).reward for _ in range(59)]).T.tolist()

    alone = [*map(rewards, blues)]
    for number, played in enumerate(rewards("random=2,rules=1,champion=2")):
        assert played in [of[number] for of in alone]
    met = [
        [played == of[number] for of in alone[::2]]
        for number, played in enumerate(rewards("random=2,champion=2"))
    ]
    assert all(any(blue) for blue in zip(*met, strict=True))


def test_agents_of_both_sides_play_each_other(tmp_path):
    red, sides = write_red_team(tmp_path / "red.npz"), GUEST.sides(args(max_steps=60, users=3))

    def episode_return(agent: str, side: str, opponent: str) -> float:
        actor, given = actor_for_side(agent, sides[side], {opponent: 1.0})
        assert (given["max_steps"], given["users"]) == (60, 3)
        envs = make_environment(sides[side].env, given).make_envs(1)
        return play_episode(envs, actor, EpisodeSpec(3, opponent, 3, 3)).episode_return

    assert episode_return("champion", "Blue", red) == -episode_return(red, "Red", "champion")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("side", "other", "fixed"),
    [
        ("Blue", "Red", ["FiniteStateRedAgent", "DiscoveryFSRed", "RandomSelectRedAgent"]),
        ("Red", "Blue", ["champion", "rules"]),
    ],
)
def test_new_opponents_of_either_side_are_trained(tmp_path, side, other, fixed):
    agent = "champion" if side == "Blue" else write_red_team(tmp_path / "red.npz")
    config = TrainConfig(
        **{"mode": "async", "env": ENV_ID, "env_args": {"max_steps": 20}},
        **{"total_episodes": 2, "episodes_per_update": 2, "n_envs": 2, "n_workers": 1},
        settings={"hidden_sizes": (8,)},
    )
    found = attack(agent, config, tmp_path / "attackers", side, "", 1, 2, 2)
    assert found["attackers_side"] == other
    assert list(found["fixed"]) == fixed
    # Of the library, the worst three.
    known = {of["run"] for of in found["attackers"][1:]}
    assert len(known) == (3 if other == "Red" else 0)
    assert known <= LIBRARY.keys()
