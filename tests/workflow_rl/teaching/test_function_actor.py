"""A user's function plays: it sees the environment's observations and gives its actions."""

from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest

from tests.any_envs import MaskedPuzzleEnv, NamedPuzzleEnv, PuzzleEnv, TargetEnv
from tests.playing import episodes_of
from tests.tiny_teams import ShiftEnv, Shifts
from workflow_rl.environments.episode import episode_spec
from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment
from workflow_rl.teaching.teachers import actor_of


def returns(function: Any, factory: Any, n_episodes: int = 3, **args: Any) -> list[float]:
    environment = GymnasiumEnvironment("own", args, factory)
    specs = [episode_spec(0, number) for number in range(n_episodes)]
    played = episodes_of(environment.make_envs(2), actor_of(function, environment), specs)
    return [one.episode_return for one in played]


def returns_by_hand(function: Any, env: gymnasium.Env[Any, Any], masked: bool = False) -> Any:
    found = []
    for number in range(3):
        obs, info = env.reset(seed=episode_spec(0, number).env_seed)
        rewards, over = 0.0, False
        while not over:
            mask = [np.concatenate(info["action_mask"]) > 0] if masked else []
            action = np.asarray(function(obs, *mask), env.action_space.dtype)
            obs, reward, terminated, truncated, info = env.step(action)
            rewards, over = rewards + float(reward), terminated or truncated
        found.append(rewards)
    return pytest.approx(found)


def lamp(obs: Any) -> Any:
    assert isinstance(obs["clock"], int | np.integer)
    assert obs["hand"].dtype == np.float64
    return 1 + int(obs["lamps"][:2].sum()), int(obs["hand"][0] > 0)


def allowed_lamp(obs: Any, mask: Any) -> Any:
    assert mask.dtype == bool
    return 1 + int(mask[:3].argmax()), 0


def test_observations_and_actions_are_the_environments():
    assert returns(lamp, PuzzleEnv) == returns_by_hand(lamp, PuzzleEnv())
    assert returns(lambda obs: obs / 2, TargetEnv) == pytest.approx([0, 0, 0], abs=1e-6)


@pytest.mark.parametrize("privileged", [False, True])
def test_a_mask_is_the_second_argument_and_what_the_critic_sees_is_not_shown(privileged):
    def checked(obs: Any, mask: Any) -> Any:
        assert set(obs) == {"clock", "hand", "lamps"}
        return allowed_lamp(obs, mask)

    env = MaskedPuzzleEnv(privileged=privileged)
    found = returns(checked, MaskedPuzzleEnv, privileged=privileged)
    assert found == returns_by_hand(allowed_lamp, env, masked=True)


def test_actions_by_name():
    def named(obs: Any, mask: Any) -> Any:
        lamp, direction = allowed_lamp(obs, mask)
        return {"lamp": np.array([lamp], np.int32), "direction": direction}

    assert returns(named, NamedPuzzleEnv) == returns(allowed_lamp, MaskedPuzzleEnv)
    with pytest.raises(ValueError, match="is no action of Dict"):
        returns(allowed_lamp, NamedPuzzleEnv)


class Counting:
    """Says how many steps of its episode it has seen, with an offset from the seed."""

    def __init__(self) -> None:
        self.steps = 0

    def reset(self, seed: int) -> None:
        self.seed = seed

    def act(self, obs: Any) -> Any:
        assert int(obs["clock"]) == self.steps
        self.steps += 1
        return 1 + self.seed % 3, 0


def test_each_episode_has_an_object_of_its_own():
    assert len(set(returns(Counting, PuzzleEnv, 8))) > 1
    assert returns(Counting, PuzzleEnv) == returns(Counting, PuzzleEnv)


@pytest.mark.parametrize("action", [(0, 0), (1, 2), (1,), (1.0, 0.0), "lamp", None])
def test_an_action_of_another_space_is_named(action):
    with pytest.raises(ValueError, match="is no action of MultiDiscrete"):
        returns(lambda obs: action, PuzzleEnv)


def matched(obs: Any, mask: Any) -> int:
    assert mask.tolist() == [True, True, True, False][: len(mask)]
    return int(obs.argmax())


class Drawing:
    """Draws an action of `ShiftEnv` with its own seed."""

    drawn: ClassVar[dict[int, list[int]]] = {}

    def reset(self, seed: int) -> None:
        self.random, self.actions = np.random.default_rng(seed), self.drawn.setdefault(seed, [])

    def act(self, obs: Any, mask: Any) -> int:
        self.actions.append(int(self.random.integers(2)))
        return self.actions[-1]


@pytest.mark.parametrize("team", [ShiftEnv, Shifts])
def test_a_function_plays_every_agent_of_a_team(team):
    """`early` decides in 8 steps, `late` in those 3 of its 5 in which it is not busy."""
    assert returns(matched, team) == [8 + 3] * 3


def test_each_agent_of_a_team_has_an_object_and_a_seed_of_its_own():
    assert returns(Drawing, ShiftEnv) == returns(Drawing, ShiftEnv)
    assert sorted(map(len, Drawing.drawn.values())) == [2 * 3] * 3 + [2 * 8] * 3
    assert len(set(map(tuple, Drawing.drawn.values()))) > 2
