import copy

import numpy as np
import pytest

from workflow_rl.cage2 import duel_env
from workflow_rl.cage2.scenario2 import RED_ACTION_NAMES

SWEEP = RED_ACTION_NAMES.index("DiscoverRemoteSystems User")


def test_the_spaces_hold_what_the_env_gives() -> None:
    env = duel_env(5)
    seen, infos = env.reset()
    while env.agents:
        for agent in env.possible_agents:
            assert env.observation_space(agent).contains(seen[agent])
            assert infos[agent]["action_mask"].shape == (env.action_space(agent).n,)
        actions = {agent: env.action_space(agent).sample() for agent in ("Red",)}
        seen, rewards, _, truncated, infos = env.step(actions)
        assert rewards["Blue"] == -rewards["Red"]
    assert truncated == {"Blue": True, "Red": True}
    with pytest.raises(RuntimeError, match="call reset"):
        env.step({})


def test_a_seed_begins_a_stream_of_episodes_and_a_copy_goes_on() -> None:
    env, again = duel_env(3), duel_env(3)
    env.reset(seed=1)
    again.reset(seed=1)
    for _ in range(2):
        env.reset()
        again.reset()
        twin = copy.copy(env)
        addresses = [played._sides.state["subnet_index"].tolist() for played in (env, again)]
        assert addresses[0] == addresses[1]
        first, second = (played.step({"Red": SWEEP})[0]["Red"] for played in (env, twin))
        assert np.array_equal(first, second)


@pytest.mark.parametrize(
    ("actions", "message"),
    [({"Green": 0}, "'Green' is unknown"), ({"Red": 44}, "from 0 to 43"), ({"Blue": -1}, "144")],
)
def test_what_is_no_action_is_refused(actions: dict[str, int], message: str) -> None:
    env = duel_env(3)
    env.reset(seed=0)
    with pytest.raises(ValueError, match=message):
        env.step(actions)
    assert env.agents == ["Blue", "Red"]


def test_it_keeps_pettingzoos_contract() -> None:
    tests = pytest.importorskip("pettingzoo.test")
    tests.parallel_api_test(duel_env(20), 100)
