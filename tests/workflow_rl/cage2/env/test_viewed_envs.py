"""CAGE-2's agents teach: rows end with what an agent does next, as a choice of the policy's."""

from typing import Any

import numpy as np
import pytest

from workflow_rl.agents.policies.actors import Advised
from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.cage2.agent.views import ActionSet
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage2.env.viewed_envs import record_envs
from workflow_rl.cage2.guest import Cage2Guest
from workflow_rl.cage2.presets import ANY_NETWORK
from workflow_rl.cage2.scenario.loading import scenario_text
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scenario2 import ACTION_NAMES
from workflow_rl.cage2.scoring.players import load_blue
from workflow_rl.collection.player import play_episode
from workflow_rl.environments.episode import EpisodeSpec
from workflow_rl.errors import ConfigError

RED, STEPS = "RedMeanderAgent", 60
FAMILY = scenario_text(ANY_NETWORK["env_args"]["scenario"])
SPEC = EpisodeSpec(0, RED, 5, 6)


def taught(teacher: str, **args: Any) -> Trajectory:
    """Return an episode that a teacher plays, with the rows of an ordinary environment."""
    environment = Cage2(RED, STEPS, "compiled", **args)
    make_envs = Cage2Guest().teaching(teacher, environment)
    actor = Advised(environment.spaces())
    trajectory = actor.without(play_episode(make_envs(3), actor, SPEC))
    envs = environment.make_envs(1)
    rows = [envs.reset([0], [SPEC])]
    rows += [envs.step([0], trajectory.action[t : t + 1]).obs for t in range(trajectory.length)]
    assert np.array_equal(np.concatenate(rows)[:-1], trajectory.obs)
    assert np.array_equal(rows[-1][0], trajectory.last_obs)
    return trajectory


def evaluated(agent: str, scenario: Scenario | None = None) -> Trajectory:
    blue = load_blue(agent, scenario, greedy=True)
    return play_episode(record_envs(Cage2(RED, STEPS, scenario=blue.network.text), 1), blue, SPEC)


@pytest.mark.parametrize("teacher", ["react-restore", "react-remove", "random"])
def test_a_scripted_agent_teaches_what_it_does(teacher):
    played = evaluated(teacher)
    assert np.array_equal(taught(teacher).action, played.action)
    assert np.array_equal(taught(teacher, observation="belief").reward, played.reward)


@pytest.mark.parametrize("teacher", ["react-restore", "decoys"])
def test_a_scripted_agent_teaches_in_other_scenarios(teacher):
    larger = Scenario.scenario2().add_host("Web0", "Gateway", "Enterprise", "High")
    played = evaluated(teacher, larger)
    trajectory = taught(teacher, scenario=larger.text)
    assert np.array_equal(trajectory.action, played.action)
    assert trajectory.action.max() >= len(ACTION_NAMES)
    assert np.array_equal(trajectory.reward, played.reward)


def test_the_champion_teaches_what_it_does_to_policies_of_other_views():
    played = evaluated("champion")
    assert np.array_equal(taught("champion").action, played.action)
    set_apart = {"actions": "by-host-timed", "opening": ("DecoyFemitter User2",)}
    lesson = taught("champion", **set_apart)
    assert lesson.episode_return == pytest.approx(played.episode_return)
    view = {"observation": "belief", "actions": "by-host-timed"}
    opening = ("DecoyFemitter User2", "DecoyTomcat User2", "DecoyApache User2")
    same = Cage2(RED, STEPS, "compiled", **view, opening=opening)
    assert Cage2Guest().teaching("champion", same) is None


@pytest.mark.parametrize(
    ("teacher", "view"),
    [("champion1b", {}), ("any-network", {}), ("any-network", {"observation": "history"})],
)
def test_agents_of_other_scenarios_teach_where_they_can_play(teacher, view):
    scenario1b = Scenario.from_checked(scenario_text("scenario1b"))
    played = evaluated(teacher, scenario1b)
    assert np.array_equal(taught(teacher, scenario="scenario1b", **view).reward, played.reward)


@pytest.mark.parametrize(
    ("teacher", "scenario", "why"),
    [
        ("champion1b", "scenario2", "other hosts or actions than scenario1b"),
        ("champion1b", FAMILY, "champion1b plays one scenario, and any-network"),
        ("decoys", FAMILY, "decoys plays one scenario, and any-network"),
    ],
)
def test_who_cannot_play_there_says_why(teacher, scenario, why):
    with pytest.raises(ConfigError, match=why):
        Cage2Guest().teaching(teacher, Cage2(RED, STEPS, "compiled", scenario=scenario))


@pytest.mark.parametrize("observation", ["table", "history"])
def test_what_the_policy_cannot_choose_is_to_sleep(observation):
    view = {"observation": observation, "actions": "by-host"}
    lesson = taught("react-restore", **view)
    choices = ActionSet("by-host", Cage2(**view).facts)
    names = [choices.names[action] for action in lesson.action.tolist()]
    assert "Sleep" in names
    assert "Monitor" not in names
    played = [ACTION_NAMES[action] for action in evaluated("react-restore").action.tolist()]
    restores = [name for name in played if name.startswith("Restore")]
    assert [name for name in names if name != "Sleep"] == restores
    if choices.has_masks:
        masks = lesson.obs[:, -choices.n :]
        assert masks[np.arange(lesson.length), lesson.action].all()
