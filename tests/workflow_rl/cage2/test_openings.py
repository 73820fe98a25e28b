"""First steps that are made for the policy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.workflow_rl.cage2.test_views import MEMORY, policy_for
from workflow_rl.cage2.environment import Cage2
from workflow_rl.cage2.openings import LONGEST_OPENING, opening
from workflow_rl.cage2.scenario2 import ACTION_NAMES
from workflow_rl.collection.environment import InvalidEnvironmentError
from workflow_rl.collection.episode import episode_spec
from workflow_rl.collection.play import play_episodes


def test_openings_set_up_decoys_on_one_host_and_follow_from_the_seed() -> None:
    specs = [episode_spec(3, number, MEMORY.variants) for number in range(400)]
    openings = [opening(spec, 0.5) for spec in specs]
    assert openings == [opening(spec, 0.5) for spec in specs]
    played = [[ACTION_NAMES[action] for action in actions] for actions in openings if actions]
    assert 0.4 < len(played) / len(specs) < 0.6
    assert {len(names) for names in played} == {1, 2, 3, 4} == set(range(1, LONGEST_OPENING + 1))
    for names in played:
        assert all(name.startswith("Decoy") for name in names)
        assert len({name.partition(" ")[2] for name in names}) == 1
        assert len(set(names)) == len(names)
    assert not any(opening(spec, 0.0) for spec in specs)


def test_episodes_with_openings_are_shorter_and_begin_with_what_they_led_to() -> None:
    environment = Cage2("RedMeanderAgent", 20, "compiled", "memory", "useful", 1.0)
    specs = [episode_spec(3, number, environment.variants) for number in range(30)]
    policy = policy_for(environment)
    episodes = play_episodes(environment.make_envs(7), policy, specs)
    for trajectory in (t for block in episodes for t in block):
        actions = opening(specs[trajectory.episode], 1.0)
        assert trajectory.length == 20 - len(actions)
        assert trajectory.truncated
        bare = Cage2("RedMeanderAgent", 20, "compiled").make_envs(1)
        obs = bare.reset([0], [specs[trajectory.episode]])
        for action in actions:
            obs = bare.step([0], np.array([action])).obs
        assert (trajectory.obs[0][:52] == obs[0]).all()
        # The decoys are remembered.
        assert trajectory.obs[0][52:].sum() > 0


def test_openings_need_longer_episodes() -> None:
    for arguments in ({"openings": 1.5}, {"openings": 0.5, "max_steps": 4}):
        with pytest.raises(InvalidEnvironmentError) as error:
            Cage2(**arguments)
        assert error.value.argument == "openings"
