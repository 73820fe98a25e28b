import functools
import re
from collections.abc import Callable
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from tests.altered import altered
from tests.any_envs import FailingResetEnv, PictureEnv, TargetEnv
from tests.lying_envs import LaterLyingEnv, Liar
from tests.tiny_policies import actor_for
from tests.tiny_teams import Doors, Kinds, ShiftEnv, Shifts
from workflow_rl.collection.player import play_episodes
from workflow_rl.environments.env_batch import EpisodeError, SerialEnvs
from workflow_rl.environments.episode import episode_spec
from workflow_rl.environments.flat_env import FlatEnv
from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment
from workflow_rl.errors import ConfigError, ObservationError

RIGHT = (np.zeros(2, np.float32), 1.0, False, False, {})


class Answering(TargetEnv):
    """Answers each step with five values of which one is another."""

    def __init__(self, part: int, value: Any) -> None:
        super().__init__()
        self.answer = (*RIGHT[:part], value, *RIGHT[part + 1 :])

    def step(self, action: Any) -> Any:
        return self.answer


def checked(make_env: Callable[[], Any], masks: bool = True) -> str | None:
    return GymnasiumEnvironment("mine", {}, make_env, masks).check()


def refused(make_env: Callable[[], Any], *words: str) -> None:
    with pytest.raises(ConfigError) as error:
        checked(make_env)
    assert "\n" not in str(error.value)
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize(
    "value", [np.array([1.0]), [1.0], None, "1.5", 1j, {"a": 1.0}, np.ones(3), 10**400]
)
def test_a_reward_is_one_number(value):
    refused(lambda: Answering(1, value), "the reward of step 1 is", "not a number")


@pytest.mark.parametrize("value", [1, True, 10**30, np.float32(1), np.int64(1), np.array(1.0)])
def test_numbers_of_other_types_are_rewards(value):
    assert checked(lambda: Answering(1, value)) is None


@pytest.mark.parametrize("part", [2, 3])
@pytest.mark.parametrize("value", [None, "False", np.array([False]), 2, 0.5, []])
def test_an_end_is_true_or_false(part, value):
    name = ("terminated", "truncated")[part - 2]
    refused(lambda: Answering(part, value), f"{name} of step 1 is", "not True or False")


@pytest.mark.parametrize("value", [0, 0.0, np.bool_(0), np.array(False), np.int8(0)])
def test_ends_of_other_types_are_ends(value):
    assert checked(lambda: Answering(2, value)) is None


def changed(part: int, change: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    """What changes one part of each answer to a step."""
    return lambda env, answer: (*answer[:part], change(answer[part]), *answer[part + 1 :])


def team(part: int, change: Callable[[Any], Any]) -> type:
    return altered(ShiftEnv, changed(part, change))


def without_late(given: dict[str, Any]) -> dict[str, Any]:
    return {agent: value for agent, value in given.items() if agent != "late"}


def seen_while_there(env: Any, answer: Any) -> Any:
    obs, *others = answer
    return {agent: seen for agent, seen in obs.items() if agent in env.agents}, *others


def staying(env: Any, answer: Any) -> Any:
    env.agents = env.agents or ["early"]
    return answer


def with_ghost(env: Any, answer: Any) -> Any:
    env.agents = [*env.agents, "ghost"]
    return answer


def of_small_seeds(env: Any, answer: Any) -> Any:
    if env.seed is not None and env.seed >= 2**31:
        raise OverflowError("the seed is too large")
    return answer


class Seedless(TargetEnv):
    def reset(self) -> Any:  # type: ignore[override]
        return super().reset()


class Turned(PictureEnv):
    """Its pictures have the channels at another side than it says."""

    def __init__(self) -> None:
        super().__init__()
        height, width, channels = self.observation_space.shape
        self.observation_space = spaces.Box(0, 255, (channels, height, width), np.uint8)


class Undescribed(Doors):
    def __init__(self) -> None:
        super().__init__()
        del self.entities["south"]


SHAPE = PictureEnv().observation_space.shape
OLD_RESET = "reset gave an object of type \\w+, not an observation and an info"
OLD_STEP = "gave 4 values, not an observation, a reward, terminated, truncated and an info"
GHOST = "'ghost' is not in `possible_agents`"


@pytest.mark.parametrize(
    ("make_env", "words"),
    [
        (lambda: Answering(0, np.zeros(3, np.float32)), r"step 1 has shape \(3,\), not \(2,\)"),
        (Turned, f"step 0 has shape {re.escape(f'{SHAPE}, not {SHAPE[2:] + SHAPE[:2]}')}"),
        (altered(TargetEnv, reset=lambda env, answer: answer[0]), OLD_RESET),
        (altered(ShiftEnv, reset=lambda env, answer: answer[0]), OLD_RESET),
        (Seedless, "unexpected keyword argument 'seed'"),
        (altered(TargetEnv, reset=of_small_seeds), "OverflowError: the seed is too large"),
        (altered(TargetEnv, lambda env, answer: answer[1:]), OLD_STEP),
        (altered(ShiftEnv, lambda env, answer: answer[1:]), OLD_STEP),
        (altered(TargetEnv, lambda env, answer: None), "step 1 gave an object of type NoneType"),
        (team(0, lambda obs: {**obs, "ghost": 1}), GHOST),
        (team(1, lambda paid: {**paid, "ghost": 1.0}), GHOST),
        (altered(ShiftEnv, reset=with_ghost), GHOST),
        (team(1, lambda paid: 1.0), "each agent's reward is given as float, not as a dict"),
        (team(1, dict.fromkeys), "the reward of early is None, not a number"),
        (
            team(1, lambda paid: dict.fromkeys(paid, "1")),
            "the reward of early is '1', not a number",
        ),
        (team(2, dict.fromkeys), "terminated of early is None, not True or False"),
        (team(3, lambda cut: None), "each agent's truncated is given as NoneType, not as a dict"),
        (team(4, lambda infos: None), "each agent's info is given as NoneType, not as a dict"),
        (team(4, lambda infos: [infos]), "each agent's info is given as list, not as a dict"),
        (team(1, without_late), "step gave no reward for late, who acted"),
        (team(0, without_late), "no observation of late, who is in `agents`"),
        (
            altered(ShiftEnv, seen_while_there),
            "no observation of early, who was truncated: give its last observation",
        ),
        (
            altered(ShiftEnv, staying),
            "early terminated or were truncated, and are still in `agents`",
        ),
        (lambda: Liar(spaces.Box(-np.inf, np.inf, (1,)), np.array([1e300])), "wrong answer"),
        (LaterLyingEnv, r"wrong answer.* of step 3 holds 300"),
        (FailingResetEnv, "cannot be played: OSError: the map"),
        (Undescribed, "tables for north, chief, and its agents are north, south, chief"),
    ],
)
def test_an_answer_of_another_form_is_refused(make_env, words):
    with pytest.raises(ConfigError, match=words) as error:
        checked(make_env)
    assert "\n" not in str(error.value)


class Renamed(ShiftEnv):
    def __init__(self, names: list[Any]) -> None:
        super().__init__()
        self.possible_agents = names  # type: ignore[misc]


@pytest.mark.parametrize(
    "name", [0, None, ("a", 1), 1.5, b"a", "", "two\nlines", "\x1b[2J", "\ud800", "x" * 201]
)
def test_agents_are_named_by_text_that_files_can_hold(name):
    words = f"its agents are ['a', {name!r}"[:100]
    refused(lambda: Renamed(["a", name]), words, "printable text", "such as 'agent_0'")


@pytest.mark.parametrize("names", [[], ["a", "a"]])
def test_a_team_has_agents_of_different_names(names):
    refused(lambda: Renamed(names), f"its agents are {names}: name each by another")


BITS, THREE = spaces.Box(0, 1, (3,)), spaces.Discrete(3)
METHODS = ("action_masks", "valid_action_mask", "get_action_mask")


class TwoOfThree(gymnasium.Env[Any, Any]):
    """Of three actions one is impossible, which is told in the way `tell`."""

    played: ClassVar[list[Any]] = []

    def __init__(self, tell: str, action: Any = THREE) -> None:
        self.observation_space, self.action_space = spaces.Box(0, 1, (1,)), action
        if tell == "obs":
            self.observation_space = spaces.Dict(a=spaces.Box(0, 1, (1,)), action_mask=BITS)
        self.tell = tell
        if tell in METHODS:
            setattr(self, tell, self._mask)

    def _mask(self) -> Any:
        return np.array([True, False, True])

    def _obs(self) -> Any:
        obs = np.zeros(1, np.float32)
        return {"a": obs, "action_mask": self._mask()} if self.tell == "obs" else obs

    def _info(self, is_reset: bool) -> dict[str, Any]:
        if self.tell in METHODS or (is_reset and self.tell == "step"):
            return {}
        if self.tell == "nested":
            return {"more": {"legal_moves": [1, 0, 1]}}
        return {"action_mask" if self.tell == "step" else self.tell.strip(): self._mask()}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        return self._obs(), self._info(True)

    def step(self, action: Any) -> Any:
        self.steps += 1
        self.played.append(action)
        return self._obs(), 1.0, False, self.steps == 10, self._info(False)


@pytest.mark.parametrize(
    ("tell", "source"),
    [
        *((method, f"its method {method}") for method in METHODS),
        *((key, "what it tells in info") for key in ("action_mask", "action_masks ")),
    ],
)
def test_masks_of_a_method_and_in_info_are_read(tell, source):
    wrapped = gymnasium.wrappers.TimeLimit
    environment = GymnasiumEnvironment("mine", {}, lambda: wrapped(TwoOfThree(tell), 50))
    assert environment.spaces().masked
    assert environment.facts.masks_from == source
    assert environment.check() is None
    actor, envs = actor_for(environment.spaces()), environment.make_envs(1)
    TwoOfThree.played.clear()
    list(play_episodes(envs, actor, [episode_spec(0, number) for number in range(5)]))
    assert {*TwoOfThree.played} == {0, 2}


@pytest.mark.parametrize("tell", ["mask", "valid_actions", "nested", "step"])
def test_masks_that_are_not_read_are_refused_unless_the_run_takes_none(tell):
    refused(lambda: TwoOfThree(tell), "action", "mask", "--no-action-mask")
    assert checked(lambda: TwoOfThree(tell), masks=False) is None


FLOATS = spaces.Box(-1, 1, (2,))
PARTLY = spaces.Tuple([spaces.Discrete(3), FLOATS])
NAMED = spaces.Dict(choice=spaces.MultiDiscrete([3]), by=FLOATS)


def test_what_looks_like_a_mask_is_refused_if_there_are_choices():
    refused(lambda: TwoOfThree("valid_actions", PARTLY), "take no action mask", "--no-action-mask")
    assert checked(lambda: TwoOfThree("valid_actions", FLOATS)) is None


@pytest.mark.parametrize("action", [FLOATS, PARTLY, NAMED], ids=str)
@pytest.mark.parametrize("tell", [*METHODS, "action_mask", "action_masks", "step", "obs"])
def test_a_mask_of_actions_with_real_numbers_is_refused(tell, action):
    refused(lambda: TwoOfThree(tell, action), "take no action mask", "--no-action-mask")
    assert checked(lambda: TwoOfThree(tell, action), masks=False) is None
    assert checked(lambda: TwoOfThree("nothing", action)) is None
    if tell not in METHODS:  # An unchecked training finds it, too.
        env = FlatEnv(TwoOfThree(tell, action), masks=True)
        with pytest.raises(ObservationError, match="take no action mask"):
            env.reset(seed=0) and env.step(np.zeros((env.action_space is FLOATS and 2) or 3))


class MaskedKinds(Kinds):
    def __init__(self, agent: str) -> None:
        self.masked = agent

    def _infos(self) -> dict[str, Any]:
        return {**super()._infos(), self.masked: {"action_mask": np.ones(2, np.int8)}}


@pytest.mark.parametrize("agent", ["mover", "mixer"])
def test_a_mask_of_an_agent_with_real_numbers_is_refused(agent):
    refused(lambda: MaskedKinds(agent), f"{agent}'s actions", "take no action mask")
    envs = GymnasiumEnvironment("mine", {}, lambda: MaskedKinds(agent)).make_envs(1)
    with pytest.raises(EpisodeError) as error:
        envs.reset([0], [episode_spec(0, 0)])
    assert "take no action mask" in str(error.value.__cause__)
    GymnasiumEnvironment("mine", {}, lambda: MaskedKinds(agent), False).make_envs(1).reset(
        [0], [episode_spec(0, 0)]
    )


def raising(error: Exception) -> Callable[[Any], Any]:
    def method(self: Any) -> Any:
        raise error

    return method


def with_method(name: str, method: Any, base: type = TwoOfThree) -> Any:
    return functools.partial(type("Odd", (base,), {name: method}), "nothing")


@pytest.mark.parametrize(
    ("name", "method", "words"),
    [
        ("get_action_mask", lambda self: np.ones(7), "get_action_mask"),
        ("get_action_mask", raising(TypeError("one argument is missing")), "get_action_mask"),
        ("action_masks", np.ones(3), "action_masks is no method"),
        ("action_masks", lambda self, state: [1, 1, 1], "action_masks is no method"),
        ("action_masks", raising(NotImplementedError()), "action_masks is no method"),
    ],
    ids=["of another size", "an error", "no method", "of a state", "unfinished"],
)
def test_what_is_no_method_for_masks_is_named(name, method, words):
    refused(with_method(name, method), words, "--no-action-mask")
    assert checked(with_method(name, method), masks=False) is None


def test_a_method_for_masks_of_other_actions_is_left_alone():
    """As that of NASim."""
    flat = with_method("get_action_mask", raising(AssertionError("flat")))
    environment = GymnasiumEnvironment("mine", {}, flat)
    assert environment.check() is None
    assert not environment.spaces().masked


def test_a_team_has_no_method_for_masks():
    kind = type("Odd", (Doors,), {"action_masks": lambda self: {}})
    refused(kind, "'action_masks' looks like", "--no-action-mask")
    assert checked(kind, masks=False) is None


def test_what_is_called_valid_and_is_no_mask_is_left_alone():
    infos = {"is_valid": True, "valid": [0.5, 1.0], "mask": "no"}
    assert checked(altered(TargetEnv, changed(4, lambda info: infos))) is None


class Far(gymnasium.Env[Any, Any]):
    """Shows `at`, and the same plus `by`, in turn."""

    def __init__(self, at: float, by: float, dtype: Any, more: int = 0) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (1 + more,), np.float64)
        if dtype is np.int64:
            self.observation_space = spaces.Box(-(2**62), 2**62, (1 + more,), np.int64)
        self.action_space = spaces.Discrete(2)
        self.shown = np.array([[at, *[0] * more], [at + by, *range(more)]], dtype)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        return self.shown[0], {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        return self.shown[self.steps % 2], 0.0, False, self.steps == 5, {}


@pytest.mark.parametrize(
    ("at", "by", "dtype", "more", "is_refused"),
    [
        (2**40, 1, np.int64, 0, True),
        (1e9, 1, np.float64, 0, True),
        (1e9, 1, np.float64, 3, True),
        (2**60, 1, np.int64, 1, True),
        (1.0, 1e-9, np.float64, 0, True),
        (2**40, 2**30, np.int64, 0, False),
        (1e9, 1e5, np.float64, 0, False),
        (1e9, 0, np.float64, 1, False),
        # What differs by a rounding error beside what differs much.
        (0.3, 1e-12, np.float64, 2, False),
    ],
)
def test_observations_that_float32_cannot_tell_apart_are_refused(at, by, dtype, more, is_refused):
    def make() -> Any:
        return Far(at, by, dtype, more)

    if is_refused:
        refused(make, "which float32 cannot tell apart: subtract")
    else:
        assert checked(make) is None


class FarTeam(ShiftEnv):
    """Shows numbers of agents that come and go, far from zero. The state is as far."""

    at, state_at = 2.0**40, 0.0
    state_space = spaces.Box(-np.inf, np.inf, (1,), np.float64)

    def observation_space(self, agent: str) -> Any:
        return spaces.Box(-np.inf, np.inf, super().observation_space(agent).shape, np.float64)

    def _obs(self) -> Any:
        return {agent: seen.astype(np.float64) + self.at for agent, seen in super()._obs().items()}

    def state(self) -> Any:
        return np.array([self.state_at + self._steps % 2])


class FarShifts(Shifts):
    def __init__(self, n_envs: int, at: float) -> None:
        super().__init__(n_envs)
        self.at = at
        self.observation_spaces = {
            agent: spaces.Box(-np.inf, np.inf, space.shape, np.float64)
            for agent, space in self.observation_spaces.items()
        }

    def _seen(self, indices: Any) -> Any:
        return super()._seen(indices).astype(np.float64) + self.at


def test_a_team_whose_observations_float32_cannot_tell_apart_is_refused():
    words = "which float32 cannot tell apart: subtract"
    refused(FarTeam, words)
    refused(type("FarState", (FarTeam,), {"at": 0.0, "state_at": 1e9}), words)
    assert checked(type("Near", (FarTeam,), {"at": 1000.0, "state_at": 100.0})) is None
    with pytest.raises(ConfigError, match=words):
        GymnasiumEnvironment("mine", {"at": 2.0**40}, FarShifts).check()
    assert GymnasiumEnvironment("mine", {"at": 1000.0}, FarShifts).check() is None


class GreedyEnv(TargetEnv):
    def step(self, action: Any) -> Any:
        answer = super().step(action)
        action *= 0
        return answer


def test_an_environment_may_change_its_action():
    assert checked(GreedyEnv) is None


class ForgetfulShifts(Shifts):
    def reset(self, indices: Any, seeds: Any) -> Any:
        answer = super().reset(indices, seeds)
        indices *= 0
        return answer

    def step(self, indices: Any, actions: Any) -> Any:
        answer = super().step(indices, actions)
        indices *= 0
        return answer


def test_a_simulator_may_change_its_indices():
    specs = [episode_spec(0, number) for number in range(3)]
    both = [GymnasiumEnvironment("mine", {}, one).make_envs(3) for one in (Shifts, ForgetfulShifts)]
    shown = [envs.reset([0, 1, 2], specs) for envs in both]
    np.testing.assert_array_equal(*shown)
    actions = np.zeros((3, 2), np.int64)
    for _ in range(4):
        shown = [envs.step([0, 1, 2], actions).obs for envs in both]
        np.testing.assert_array_equal(*shown)


BOARD = np.zeros(2, np.float32)


class BoardEnv(TargetEnv):
    def _show(self) -> Any:
        BOARD[:] = super()._show()
        return BOARD


def test_environments_that_share_an_array_show_what_each_of_them_showed():
    specs = [episode_spec(0, number) for number in range(3)]
    (obs, stepped), (expected, expected_step) = (
        (envs.reset([0, 1, 2], specs), envs.step([0, 1, 2], np.zeros((3, 2))).obs)
        for envs in (
            SerialEnvs(lambda: FlatEnv(BoardEnv()), 3),
            SerialEnvs(lambda: FlatEnv(TargetEnv()), 3),
        )
    )
    np.testing.assert_array_equal(obs, expected)
    np.testing.assert_array_equal(stepped, expected_step)
