"""What actions are worth, by imagined episodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from workflow_rl.agents.policies.numpy_policy import NumpyPolicy, PolicyParameters
from workflow_rl.cage2.agent import rollouts
from workflow_rl.cage2.agent.rollouts import (
    CELLS,
    Believed,
    Watched,
    chosen_in,
    imagined_rewards,
)
from workflow_rl.cage2.agent.views import BeliefView
from workflow_rl.cage2.compiled.blue_belief import BELIEF, N_HYPOTHESES, N_SHOWN
from workflow_rl.cage2.compiled.red_hypothesis import HYPOTHESIS
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage2.scenario2 import HOSTS
from workflow_rl.cage2.scoring.selection import ATTACKERS
from workflow_rl.collection.player import play_episodes
from workflow_rl.environments.episode import SeedStream, episode_spec
from workflow_rl.runs.saved_agent import load_saved

# Half a minute to compile.
compiles = pytest.mark.slow
SEED = 154

# Of the action set "by-host": the first sleeps, and so does a policy of zeros.
SLEEP, N_CHOICES = 0, 45
OBS = np.zeros((1, 52), np.uint8)


@pytest.fixture
def policy() -> PolicyParameters:
    return PolicyParameters(
        (np.zeros((N_SHOWN, N_CHOICES), np.float32),), (np.zeros(N_CHOICES, np.float32),), "tanh"
    )


@pytest.fixture
def where() -> Believed:
    """Where an episode begins."""
    view = BeliefView()
    view.begin([0], OBS)
    return Believed(view.beliefs[0], view.hypotheses[0], OBS[0], 0)


def rewards_of(policy: PolicyParameters, where: Believed, first: list[int]) -> np.ndarray:
    random = np.random.default_rng(0)
    return imagined_rewards(policy, "by-host", where, np.array(first), 25, 40, random)


def test_a_step_counts_in_the_cells_that_are_longer() -> None:
    """The first 30 steps in three, the next 20 in two, the last 50 in one."""
    assert CELLS.tolist() == [3.0] * 30 + [2.0] * 20 + [1.0] * 50


def test_choices_are_the_likeliest(policy: PolicyParameters) -> None:
    policy.biases[0][7] = 1
    policy.weights[0][3, 9] = 2
    shown = np.zeros((2, N_SHOWN), np.uint8)
    shown[1, 3] = 1
    assert chosen_in(policy, shown).tolist() == [7, 9]


def test_an_imagined_episode_begins_with_what_blue_sees_of_each_host(
    policy: PolicyParameters, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of four bits a host, the last two: base four, the first host's last."""
    seen: list[int] = []

    def imagine_steps(*arguments: Any) -> None:
        seen.extend(arguments[4]["compromise"][:, 0].tolist())
        arguments[6][:], arguments[7][:] = 0, 0

    monkeypatch.setattr(rollouts, "imagine_steps", imagine_steps)
    hosts = OBS.reshape(len(HOSTS), 4).copy()
    hosts[0], hosts[2], hosts[12] = (1, 1, 0, 1), (0, 0, 1, 0), (0, 0, 1, 1)
    belief, random = np.zeros((), BELIEF), np.random.default_rng(0)
    belief["n_hypotheses"] = belief["probability"][0] = 1
    where = Believed(belief, np.zeros(N_HYPOTHESES, HYPOTHESIS), hosts.reshape(-1), 0)
    imagined_rewards(policy, "by-host", where, np.array([SLEEP]), 1, 2, random)
    assert seen == [2 + 1 * 4**2 + 3 * 4**12] * 2


@compiles
def test_all_are_tried_with_the_same_draws(policy: PolicyParameters, where: Believed) -> None:
    """So that what differs is what the first choice brings: here that it costs 1."""
    restore_an_idle_host = N_CHOICES - 12
    rewards = rewards_of(policy, where, [SLEEP, SLEEP, restore_an_idle_host])
    assert rewards.shape == (3, 40, 25)
    assert (rewards[0] == rewards[1]).all()
    assert (rewards[2, :, 0] == rewards[0, :, 0] - 1).all()
    assert len(set(rewards[0].sum(axis=1).tolist())) > 10, "episodes differ"


@compiles
def test_what_blue_thinks_is_left_as_it_is(policy: PolicyParameters, where: Believed) -> None:
    before = [np.copy(one) for one in where]
    rewards_of(policy, where, [SLEEP])
    for one, other in zip(before, where, strict=True):
        assert (one == other).all()


@compiles
@pytest.mark.parametrize("red_agent", ATTACKERS)
def test_they_go_on_as_the_simulator_does(red_agent: str) -> None:
    """From the middle of the champion's episodes: means of the next steps' rewards."""
    champion, environment = load_saved(Path("champion"))
    assert isinstance(environment, Cage2)
    n, at, n_steps = 300, 30, 15
    random = np.random.default_rng(0)
    watched = Watched(champion.parameters, environment, [red_agent] * n, SEED)
    while watched.t < at:
        watched.step()
    ours = []
    for env in range(n):
        where, choice = watched.place(env), watched.choices[[env]]
        parameters, actions = champion.parameters, environment.actions
        rewards = imagined_rewards(parameters, actions, where, choice, n_steps, 8, random)
        ours.append(rewards.sum(axis=2).mean())
    # Of the same episodes, so that where they were does not count as a difference.
    theirs = played(champion, environment, red_agent, n)[:, at : at + n_steps].sum(axis=1)
    difference = np.array(ours) - theirs
    assert abs(difference.mean()) < 4 * difference.std(ddof=1) / np.sqrt(n)


def played(actor: NumpyPolicy, environment: Cage2, red_agent: str, n: int) -> np.ndarray:
    """Rewards of these episodes, [n, 100]."""
    specs = [episode_spec(SEED, number, (red_agent,), SeedStream.SELECTION) for number in range(n)]
    found = np.zeros((n, 100))
    for trajectories in play_episodes(environment.make_envs(n), actor, specs):
        for one in trajectories:
            found[one.episode, -one.length :] = one.reward
    return found
