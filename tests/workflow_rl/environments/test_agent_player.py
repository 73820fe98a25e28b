from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from tests.lying_envs import Liar
from tests.tiny_policies import actor_for
from workflow_rl.environments.agent_player import Agent
from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment
from workflow_rl.errors import ObservationError
from workflow_rl.runs.saved_agent import agent_of

TABLE = spaces.Box(0, 1, (5, 4), np.float32)


def agent(space: spaces.Space[Any]) -> Agent:
    environment = GymnasiumEnvironment("mine", {}, lambda: Liar(space, space.sample()))
    found = agent_of(actor_for(environment.spaces()), environment)
    assert isinstance(found, Agent)
    return found


@pytest.mark.parametrize(
    "turned", [np.zeros((4, 5)), np.zeros(20), np.zeros((2, 10))], ids=np.shape
)
def test_an_observation_of_another_shape_is_refused(turned):
    one, named = agent(TABLE), agent(spaces.Dict({"table": TABLE}))
    for act, obs, error in (
        (one.act, turned, ObservationError),
        (named.act, {"table": turned}, ObservationError),
        (one.predict, turned, ValueError),
        (one.predict, np.stack([turned, turned]), ObservationError),
        (one.predict, np.zeros((3, 4, 5)), ObservationError),
    ):
        with pytest.raises(error, match=r"has shape .*, not \(5, 4\)"):
            act(obs)


def test_one_or_several_of_the_spaces_shape_are_taken():
    one = agent(TABLE)
    assert one.act(np.zeros((1, 5, 4))) in (0, 1)
    assert one.predict(np.zeros((5, 4)))[0].shape == ()
    assert one.predict(np.zeros((3, 5, 4)))[0].shape == (3,)


def test_a_mask_that_the_agent_cannot_heed_is_told():
    one = agent(TABLE)
    with pytest.warns(UserWarning, match="learned without masks, and heeds none"):
        one.act(np.zeros((5, 4)), np.array([0, 1]))
    with pytest.warns(UserWarning, match="learned without masks, and heeds none"):
        one.predict(np.zeros((5, 4)), action_masks=np.array([0, 1]))
