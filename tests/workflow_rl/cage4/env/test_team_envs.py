"""CAGE-4 as the trainers see it: rows of a team, equal on every simulator."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from agents.policies.numpy_policy import PolicyParameters
from agents.policies.team_policy import TeamParameters, TeamPolicy
from agents.team import ACTS, BUSY, CUT_OFF, policy_map
from tests.workflow_rl.cage4.counting_simulator import CountingSimulator
from workflow_rl.cage4.agent.policy_team import PolicyTeam
from workflow_rl.cage4.agent.views import ACTION_SETS, OBSERVATIONS, SLEEP, TeamRows
from workflow_rl.cage4.compiled.simulator import CompiledSimulator
from workflow_rl.cage4.env.environment import Cage4
from workflow_rl.cage4.env.settings import MOST_STEPS
from workflow_rl.cage4.env.team_envs import SerialNetworks, TeamEnvs
from workflow_rl.cage4.interface import N_ACTIONS
from workflow_rl.cage4.scenario4 import ACTIONS
from workflow_rl.collection.player import play_episode
from workflow_rl.environments.env_batch import EnvBatch, EpisodeError
from workflow_rl.environments.environment import InvalidEnvironmentError, make_environment
from workflow_rl.environments.episode import EpisodeSpec, episode_spec

RESTORE = 33
N_MASKS = sum(N_ACTIONS)


def specs(*numbers: int) -> list[EpisodeSpec]:
    return [episode_spec(0, number, ("FiniteStateRedAgent",)) for number in numbers]


def drawn(rows: NDArray[np.generic], random: np.random.Generator) -> NDArray[np.int64]:
    masks = np.split(rows[:, -N_MASKS:], np.cumsum(N_ACTIONS)[:-1], axis=1)
    return np.array([[random.choice(np.flatnonzero(row)) for row in mask] for mask in masks]).T


def status(rows: NDArray[np.generic]) -> list[int]:
    return rows[0, -N_MASKS - 5 : -N_MASKS].astype(int).tolist()


@pytest.mark.parametrize(
    ("observation", "messages"), [("flat", "none"), ("flat", "alerts"), ("belief", "alerts")]
)
def test_cyborg_and_the_compiled_simulator_give_the_same_rows(
    checkout: Path, observation: str, messages: str
) -> None:
    made: list[EnvBatch] = [
        Cage4(simulator=one, observation=observation, max_steps=40, messages=messages).make_envs(2)
        for one in ("compiled", "cyborg")
    ]
    random, rows = np.random.default_rng(3), [envs.reset([0, 1], specs(4, 5)) for envs in made]
    for _ in range(39):
        assert rows[0].dtype == rows[1].dtype
        assert np.array_equal(*rows)
        actions = drawn(rows[0], random)
        first, second = (envs.step([0, 1], actions) for envs in made)
        assert np.array_equal(first.reward, second.reward)
        assert np.array_equal(first.truncated, second.truncated)
        rows = [first.obs, second.obs]
    assert first.truncated.all()
    assert not first.terminated.any()
    assert status(first.obs) == [CUT_OFF] * 5


def test_a_busy_agent_decides_nothing_and_its_action_costs_nothing() -> None:
    envs = Cage4(max_steps=20, actions="repair").make_envs(1)
    rows = envs.reset([0], specs(0))
    assert status(rows) == [ACTS] * 5
    restores = np.tile(SLEEP, (1, 1))
    restores[0, 0] = RESTORE + np.flatnonzero(rows[0, -N_MASKS:][RESTORE : RESTORE + 16])[0]
    answer = envs.step([0], restores)
    assert answer.reward.tolist() == [-1]
    for _ in range(4):
        assert status(answer.obs) == [BUSY, ACTS, ACTS, ACTS, ACTS]
        answer = envs.step([0], restores)
        assert answer.reward.tolist() == [0]
    assert status(answer.obs) == [ACTS] * 5


def test_own_rewards_are_of_an_agents_own_zones() -> None:
    layout = Cage4(own_rewards=True).spaces().team
    assert layout is not None
    envs = Cage4(max_steps=20, own_rewards=True).make_envs(2)
    rows = envs.reset([0, 1], specs(0, 1))
    assert not layout.rewards(rows).any()
    assert not layout.state(rows).any()
    restores = np.tile(SLEEP, (2, 1))
    restores[0, 2] = RESTORE + np.flatnonzero(rows[0, -N_MASKS + 2 * 82 :][RESTORE:])[0]
    first = envs.step([0, 1], restores)
    # Nothing else costs in the first step: red is in the contractor's zone, which is no agent's.
    assert layout.rewards(first.obs).tolist() == [[0, 0, -1, 0, 0], [0] * 5]
    assert first.reward.tolist() == [-1, 0]
    busy = layout.state(first.obs).reshape(2, 5, -1)[0, :, 18]
    assert busy.tolist() == pytest.approx([0, 0, 4 / 5, 0, 0])
    plain = Cage4(max_steps=20).make_envs(2)
    plain.reset([0, 1], specs(0, 1))
    without = plain.step([0, 1], restores).obs
    n_shown = sum(layout.obs_sizes) + 5
    assert np.array_equal(first.obs[:, :n_shown], without[:, :n_shown])
    assert np.array_equal(first.obs[:, -N_MASKS:], without[:, -N_MASKS:])


def test_a_set_of_actions_rules_out_the_others() -> None:
    envs = Cage4(max_steps=20, actions="repair").make_envs(1)
    mask = envs.reset([0], specs(0))[0, -N_MASKS:]
    kinds = np.array([action.kind for actions in ACTIONS for action in actions])
    assert not mask[np.isin(kinds, ["Restore", "Remove"])].any()
    assert mask.sum() == 5
