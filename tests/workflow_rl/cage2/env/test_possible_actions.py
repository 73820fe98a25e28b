"""Masks of CAGE-2's own: the trainers' envs and an agent that plays see what Cage2Env offers."""

from __future__ import annotations

import numpy as np
import pytest

from workflow_rl.agents.policies.distributions import Categorical
from workflow_rl.agents.policies.numpy_policy import PolicyParameters
from workflow_rl.cage2.env.cage2_env import Cage2Env
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage2.scenario2 import ACTION_NAMES, ENV_ID
from workflow_rl.environments.by_name import make_environment
from workflow_rl.environments.environment import InvalidEnvironmentError
from workflow_rl.environments.episode import EpisodeSpec

OPENING = ("DecoyTomcat User2",)
ENVIRONMENT = Cage2(simulator="compiled", actions="possible", opening=OPENING)


def test_the_masks_follow_the_decoys() -> None:
    envs = ENVIRONMENT.make_envs(1)
    alone = Cage2Env(simulator="compiled")
    alone.reset(seed=4)
    alone.step(ACTION_NAMES.index(OPENING[0]))
    obs = envs.reset([0], [EpisodeSpec(0, "B_lineAgent", 4, 0)])
    random = np.random.default_rng(0)
    seen = set()
    for _ in range(60):
        masks = alone.action_masks()
        np.testing.assert_array_equal(obs[0, 52:], masks)
        seen.add(masks.tobytes())
        action = random.choice(np.flatnonzero(masks))
        shown, *_ = alone.step(int(action))
        obs = envs.step([0], np.array([action])).obs
        np.testing.assert_array_equal(obs[0, :52], shown)
    assert len(seen) > 10


def test_an_agent_plays_possible_actions_alone() -> None:
    spaces = ENVIRONMENT.spaces()
    assert spaces.masked
    bias = np.zeros(145, np.float32)
    bias[ACTION_NAMES.index("DecoyApache User2")] = 2
    bias[ACTION_NAMES.index("DecoySSHD User2")] = 1
    weights = (np.zeros((52, 145), np.float32),)
    parameters = PolicyParameters(
        weights, (bias,), "tanh", distribution=Categorical(145), masked=True
    )
    actor = ENVIRONMENT.bare_actor(parameters.actor(greedy=True))
    actor.reset(0)
    taken = [ACTION_NAMES[actor.act(np.zeros((1, 52), np.uint8))[0][0]] for _ in range(4)]
    # What has been set up cannot be set up again: the third choice is the first action of all.
    assert taken == [*OPENING, "DecoyApache User2", "DecoySSHD User2", "Sleep"]


def test_masks_that_were_asked_for_cannot_be_ignored() -> None:
    with pytest.raises(InvalidEnvironmentError, match="asked for masks"):
        make_environment(ENV_ID, {"actions": "possible"}, masks=False)
