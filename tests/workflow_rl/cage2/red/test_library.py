"""Attackers that were written by hand play in every network, and do what they are there for."""

import pytest

from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage2.red.roster import LIBRARY
from workflow_rl.environments.episode import episode_spec

EPISODES = 3


def total(red_agent: str, scenario: str) -> float:
    """Blue's total reward in some episodes, in which it sleeps."""
    environment = Cage2(red_agent=red_agent, scenario=scenario, max_steps=60)
    assert environment.foreign == []
    envs, numbers = environment.make_envs(EPISODES), range(EPISODES)
    envs.reset(numbers, [episode_spec(3, n, environment.variants) for n in numbers])
    sleep = [0] * EPISODES
    return sum(float(envs.step(numbers, sleep).reward.sum()) for _ in range(60))


@pytest.mark.parametrize("scenario", ["scenario2", "scenario1b"])
@pytest.mark.parametrize("name", LIBRARY)
def test_an_attacker_takes_something_and_repeats_itself(name: str, scenario: str) -> None:
    taken = total(name, scenario)
    assert taken < -5
    assert total(name, scenario) == taken


def test_a_mixture_meets_all_of_them() -> None:
    assert set(Cage2(red_agent="library").variants) == set(LIBRARY)
