"""CAGE-4's teams teach: rows end with what a team does next."""

from typing import Any

import numpy as np
import pytest

from workflow_rl.agents.policies.actors import Advised
from workflow_rl.agents.team import ACTS
from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.cage4.agent.scripted import make_scripted_team
from workflow_rl.cage4.agent.views import SLEEP
from workflow_rl.cage4.compiled.simulator import CompiledSimulator
from workflow_rl.cage4.env.environment import Cage4
from workflow_rl.cage4.guest import Cage4Guest
from workflow_rl.cage4.scenario.scenario4 import ACTIONS
from workflow_rl.collection.player import play_episode
from workflow_rl.environments.episode import episode_spec

STEPS = 120
SPEC = episode_spec(0, 3, ("FiniteStateRedAgent",))


def taught(teacher: str, **args: Any) -> Trajectory:
    environment = Cage4(max_steps=STEPS, **args)
    make_envs = Cage4Guest().teaching(teacher, environment)
    actor = Advised(environment.spaces())
    trajectory = actor.without(play_episode(make_envs(2), actor, SPEC))
    assert trajectory.obs.shape == (STEPS - 1, environment.make_envs(1).reset([0], [SPEC]).shape[1])
    return trajectory


@pytest.mark.parametrize(
    "args",
    [
        {},
        {"observation": "belief"},
        {"messages": "learned"},
    ],
)
def test_a_team_earns_as_a_teacher_what_it_earns_alone(args: dict[str, Any]) -> None:
    simulator, team = CompiledSimulator("FiniteStateRedAgent", STEPS), make_scripted_team("rules")
    seen = simulator.reset(SPEC.env_seed)
    team.reset(simulator.masks, SPEC.action_seed)
    rewards = []
    for _ in range(STEPS - 1):
        result = simulator.step(*team.act_in(simulator, seen))
        seen = result.observations
        rewards.append(result.machine_reward + result.action_cost)
    assert taught("rules", **args).reward.tolist() == rewards


def test_of_suspects_the_advice_is_what_the_rules_repair() -> None:
    """Who is advised to analyse waits, and the sweep analyses."""
    args = {"observation": "belief", "actions": "suspects", "own_rewards": True}
    lesson = taught("rules", **args)
    layout = Cage4(**args).spaces().team
    decides = layout.status(lesson.obs) == ACTS
    taken = [(agent, lesson.action[step, agent]) for step, agent in np.argwhere(decides)]
    kinds = {ACTIONS[agent][action].kind for agent, action in taken}
    assert kinds == {"Sleep", "Remove", "Restore"}
    assert 0.005 < decides.mean() < 0.5
    repeated = taught("rules", **args)
    assert np.array_equal(repeated.obs, lesson.obs)


def test_impossible_actions_are_to_sleep() -> None:
    lesson = taught("random", actions="repair")
    masks = lesson.obs[:, -570:].astype(bool)
    first = np.cumsum([0, *(82,) * 4])
    assert np.take_along_axis(masks, first + lesson.action, 1).all()
    assert (lesson.action == SLEEP).mean() > 0.3


def test_a_path_is_no_team_by_name() -> None:
    assert Cage4Guest().teaching("runs/team", Cage4()) is None
