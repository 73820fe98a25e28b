from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from examples.own_simulator import Corridors
from tests.altered import altered
from tests.playing import episodes_of
from tests.tiny_policies import actor_for
from tests.tiny_runs import same_weights
from tests.tiny_teams import ShiftEnv, Shifts, StatedShift
from tests.workflow_rl.conftest import assert_same_trajectories
from workflow_rl import TrainConfig, evaluate, load_agent, train
from workflow_rl.environments import BatchedEnv, TeamStep
from workflow_rl.environments.batched_env import BatchedEnvs, OneOfBatch
from workflow_rl.environments.env_batch import EpisodeError, SerialEnvs
from workflow_rl.environments.episode import EpisodeSpec, episode_spec
from workflow_rl.environments.flat_env import FlatEnv
from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment
from workflow_rl.environments.gymnasium_versions import MultiDiscrete
from workflow_rl.errors import ConfigError, ObservationError

NAME = "examples.own_simulator:Corridors"
SPEC = EpisodeSpec(7, "", 2**32 - 1, 3)
SPECS = [episode_spec(1, number) for number in range(6)]
ENDS = ("terminated", "truncated")


class Dial(BatchedEnv):
    """Shows the last action, pays its sum, and ends when `action_space` says so no more."""

    observation_space = spaces.Box(-9, 9, (2,), np.float64)

    def __init__(self, n_envs: int, space: spaces.Space[Any], length: int = 5) -> None:
        self.action_space = space
        self._length = length
        self._steps = np.zeros(n_envs, np.int64)

    def reset(self, indices: Any, seeds: Any) -> Any:
        assert indices.dtype == seeds.dtype == np.int64
        self._steps[indices] = 0
        return np.stack([seeds % 7, seeds % 5], axis=1).astype(np.float64)

    def step(self, indices: Any, actions: Any) -> Any:
        assert len(set(indices.tolist())) == len(indices)
        assert all(self.action_space.contains(action) for action in actions)
        self._steps[indices] += 1
        total = actions.reshape(len(indices), -1).sum(axis=1)
        obs = np.stack([total, self._steps[indices]], axis=1).astype(np.float64)
        return obs, total, np.zeros(len(indices), bool), self._steps[indices] == self._length


SPACES = [
    spaces.Discrete(3, start=-1),
    MultiDiscrete([2, 3], start=[1, 0]),
    spaces.Box(-0.5, 1, (2, 2), np.float32),
]


def played(environment: GymnasiumEnvironment, n_envs: int) -> list[Any]:
    return episodes_of(environment.make_envs(n_envs), actor_for(environment.spaces()), SPECS)


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_a_batch_plays_what_single_environments_play(space):
    dials = GymnasiumEnvironment("dial", {"space": space}, Dial)
    alone = SerialEnvs(lambda: FlatEnv(OneOfBatch(Dial(3, space))), 1)
    expected = episodes_of(alone, actor_for(dials.spaces()), SPECS)
    for n_envs in (1, 4):
        assert_same_trajectories(played(dials, n_envs), expected)
    assert all(one.obs.dtype == np.float32 and one.truncated for one in expected)


class MaskedDial(Dial):
    """Forbids the first action after odd steps."""

    def __init__(self, n_envs: int, masks: Any = None) -> None:
        super().__init__(n_envs, spaces.Discrete(3))
        self._masks = masks

    def action_masks(self, indices: Any) -> Any:
        assert (self._steps[indices] < self._length).all()
        if self._masks is not None:
            return self._masks
        masks = np.ones((len(indices), 3), np.int8)
        masks[self._steps[indices] % 2 == 1, 0] = 0
        return masks


def test_masks_follow_the_observations():
    environment = GymnasiumEnvironment("dial", {}, MaskedDial)
    assert environment.spaces().masked
    alone = SerialEnvs(lambda: FlatEnv(OneOfBatch(MaskedDial(3)), masks=True), 1)
    expected = episodes_of(alone, actor_for(environment.spaces()), SPECS)
    assert_same_trajectories(played(environment, 4), expected)
    for one in expected:
        assert one.obs[:, 2:].tolist() == [[1, 1, 1], [0, 1, 1]] * 2 + [[1, 1, 1]]
        assert one.last_obs[2:].tolist() == [1, 1, 1]
        assert (one.action[1::2] > 0).all()
    unmasked = GymnasiumEnvironment("dial", {}, MaskedDial, masks=False)
    assert not unmasked.spaces().masked
    assert unmasked.make_envs(2).reset([0], [SPEC]).shape == (1, 2)


@pytest.mark.parametrize(
    ("masks", "words"),
    [
        (np.ones((1, 2)), ["(1, 2)", "(1, 3)"]),
        (np.zeros((1, 3)), ["forbids every action"]),
        (np.full((1, 3), 2), ["holds 2"]),
    ],
)
def test_a_mask_that_breaks_the_contract_ends_the_run(masks, words):
    with pytest.raises(EpisodeError) as error:
        BatchedEnvs(MaskedDial(1, masks), 1, masks=True).reset([0], [SPEC])
    assert all(word in str(error.value.__cause__) for word in words)


WRONG = [
    (Dial, {"obs": np.zeros((1, 3))}, ["(1, 3)", "(1, 2)"]),
    (Dial, {"obs": np.zeros((1, 2), np.float32)}, ["float32", "float64"]),
    (Dial, {"reward": np.zeros((1, 1))}, ["reward", "(1, 1)", "(1,)"]),
    (Dial, {"terminated": np.zeros(1)}, ["terminated", "float64", "bool"]),
    (Dial, {"truncated": False}, ["truncated", "()", "(1,)"]),
    (Shifts, {"obs": np.zeros((1, 4), np.float32)}, ["observations", "(1, 4)", "(1, 5)"]),
    (Shifts, {"status": np.full((1, 2), 0.5)}, ["status holds", "0.5"]),
    (Shifts, {"status": np.full((1, 2), 4)}, ["status holds", "4"]),
    (Shifts, {"status": np.full((1, 3), 1)}, ["status", "(1, 3)", "(1, 2)"]),
    (Shifts, {"reward": np.zeros(1)}, ["reward", "(1,)", "(1, 2)"]),
    (Shifts, {"truncated": np.zeros(1)}, ["truncated", "float64", "bool"]),
]


@pytest.mark.parametrize(("kind", "answer", "words"), WRONG, ids=str)
def test_an_answer_that_breaks_the_contract_ends_the_run(kind, answer, words):
    def wrong(envs: Any, right: Any) -> Any:
        names = TeamStep._fields if kind is Shifts else ("obs", "reward", *ENDS)
        return tuple({**dict(zip(names, right, strict=True)), **answer}.values())

    args = {} if kind is Shifts else {"space": SPACES[0]}
    environment = GymnasiumEnvironment("wrong", args, altered(kind, wrong))
    envs = environment.make_envs(1)
    envs.reset([0], [SPEC])
    with pytest.raises(EpisodeError) as error:
        envs.step([0], np.zeros((1, 2) if kind is Shifts else 1, np.int64))
    assert isinstance(error.value.__cause__, ObservationError)
    assert error.value.spec == SPEC
    assert all(word in str(error.value.__cause__) for word in words)
    with pytest.raises(ConfigError, match="wrong answer"):
        environment.check()


def test_a_mask_of_actions_with_real_numbers_is_refused():
    class Both(Dial):
        def action_masks(self, indices: Any) -> Any:
            return np.ones((len(indices), 3))

    args = {"space": spaces.Box(-1, 1, (2,))}
    with pytest.raises(ConfigError, match=r"take no action mask.*--no-action-mask"):
        GymnasiumEnvironment("mine", args, Both).check()
    with pytest.raises(ObservationError, match="take no action mask"):
        GymnasiumEnvironment("mine", args, Both).make_envs(2)
    assert GymnasiumEnvironment("mine", args, Both, masks=False).check() is None


def test_an_integer_that_would_wrap_around_ends_the_run():
    wide = altered(Dial, reset=lambda envs, obs: np.full((len(obs), 2), 300))
    wide.observation_space = spaces.Box(0, 200, (2,), np.int64)
    with pytest.raises(EpisodeError) as error:
        BatchedEnvs(wide(1, SPACES[0]), 1).reset([0], [SPEC])
    assert "300" in str(error.value.__cause__)


def test_a_space_of_another_form_is_refused():
    picture = altered(Dial)
    picture.observation_space = spaces.Box(0, 1, (2, 1))
    with pytest.raises(ConfigError, match=r"shape \(D,\)"):
        GymnasiumEnvironment("picture", {"space": SPACES[0]}, picture).spaces()


def leaking_corridors(envs: Any, answer: Any) -> Any:
    obs, reward, *ends = answer
    return obs, reward + envs.place.sum(), *ends


def leaking_shifts(envs: Any, answer: TeamStep) -> TeamStep:
    return answer._replace(reward=answer.reward + envs._shown.sum())


@pytest.mark.parametrize(
    ("kind", "leaking"), [(Corridors, leaking_corridors), (Shifts, leaking_shifts)]
)
def test_episodes_that_depend_on_others_are_found(kind, leaking):
    assert GymnasiumEnvironment("sound", {}, kind).check() is None
    leaks = GymnasiumEnvironment("leaking", {}, altered(kind, leaking))
    assert "differs when it is played again" in str(leaks.check())


def test_a_function_makes_single_environments():
    def make() -> Any:
        return Corridors(1)

    assert GymnasiumEnvironment(NAME).steps_together
    assert not GymnasiumEnvironment("make", {}, make).steps_together
    assert not GymnasiumEnvironment("CartPole-v1").steps_together
    with pytest.raises(ConfigError, match="Corridors"):
        GymnasiumEnvironment("make", {}, make).spaces()


def test_a_class_that_only_a_file_names_is_not_imported():
    named = GymnasiumEnvironment("no_such_module:Class", named_by_file=True)
    assert not named.steps_together
    with pytest.raises(ConfigError, match="no module no_such_module is found"):
        named.make_envs(2).reset([0], [SPEC])


def test_both_trainers_learn_the_same_with_any_number_of_workers(tmp_path):
    settings: Any = {"n_envs": 8, "total_steps": 600, "steps_per_update": 300}
    settings |= {"env": NAME, "env_args": {"length": 6}}
    runs = []
    for mode, n_workers, by_class in (
        ("sync", 1, None),
        ("async", 1, None),
        ("async", 2, Corridors),
    ):
        config = TrainConfig(mode, n_workers=n_workers, **settings)
        runs.append(train(config, tmp_path / f"{mode}-{n_workers}", env=by_class))
        assert same_weights(runs[0], runs[-1])
    assert load_agent(runs[0], env=Corridors).act(np.zeros(2)) in (0, 1)
    assert len(evaluate(runs[2], 5, n_workers=1).returns) == 5


class StatedShifts(Shifts):
    state_space = spaces.Box(0, 8, (1,), np.int64)

    def states(self, indices: Any) -> Any:
        return (self.length - self._steps[indices])[:, None]


@pytest.mark.parametrize(
    ("single", "batched"),
    [(ShiftEnv, Shifts), (StatedShift, StatedShifts)],
    ids=["plain", "stated"],
)
def test_rows_are_those_of_single_environments(single, batched):
    alone, together = (GymnasiumEnvironment("team", {}, make) for make in (single, batched))
    assert together.spaces() == alone.spaces()
    assert together.steps_together
    expected = played(alone, 1)
    for n_envs in (1, 4):
        assert_same_trajectories(played(together, n_envs), expected)
    assert all(one.truncated for one in expected)
    layout = alone.spaces().team
    if single is StatedShift:
        for one in expected:
            assert layout.state(one.obs).ravel().tolist() == [8, 7, 6, 5, 4, 3, 2, 1]
            assert layout.state(one.last_obs[None]).tolist() == [[0]]


class SharedBits(Shifts):
    shared_reward = True

    def __init__(self, n_envs: int) -> None:
        super().__init__(n_envs)
        self.observation_spaces = {
            name: spaces.Box(0, 1, space.shape, np.int8)
            for name, space in self.observation_spaces.items()
        }

    def step(self, indices: Any, actions: Any) -> Any:
        answer = super().step(indices, actions)
        return answer._replace(reward=answer.reward.sum(axis=1))


def test_bits_and_a_shared_reward_make_small_rows():
    bits, plain = (GymnasiumEnvironment("team", {}, make) for make in (SharedBits, Shifts))
    for ours, theirs in zip(played(bits, 2), played(plain, 2), strict=True):
        assert ours.obs.dtype == np.uint8
        assert ours.obs[:, :7].tolist() == theirs.obs[:, :7].tolist()
        assert ours.obs[:, 7:].tolist() == theirs.obs[:, 9:].tolist()
        assert ours.reward.tolist() == theirs.reward.tolist()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"action_spaces": {"early": spaces.Discrete(2)}}, r"\['early', 'late'\] by observations"),
        (
            {"observation_spaces": {n: spaces.Box(0, 1, (1, 2)) for n in ("early", "late")}},
            r"\(D,\) of one dtype",
        ),
        (
            {"action_spaces": {n: spaces.Discrete(2, start=1) for n in ("early", "late")}},
            "begin with 0",
        ),
        ({"action_spaces": {n: spaces.Box(0, 1) for n in ("early", "late")}}, "Discrete is"),
    ],
)
def test_spaces_that_the_contract_does_not_allow_are_refused(changes, words):
    class Odd(Shifts):
        def __init__(self, n_envs: int) -> None:
            super().__init__(n_envs)
            vars(self).update(changes)

    with pytest.raises(ConfigError, match=words):
        GymnasiumEnvironment("odd", {}, Odd).spaces()
