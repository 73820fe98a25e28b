from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from tests.lying_envs import Liar
from workflow_rl.agents.policies.convolutional import Image
from workflow_rl.agents.policies.distributions import Categorical
from workflow_rl.agents.policies.further_distributions import (
    DiagonalGaussian,
    Mixed,
    MultiCategorical,
)
from workflow_rl.environments.action_mask import choices_of, mask_reader
from workflow_rl.environments.flat_env import (
    FlatEnv,
    distribution_over,
    flat_space,
    flattener,
    sampled,
    unflattener,
)
from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment
from workflow_rl.environments.gymnasium_versions import MultiDiscrete
from workflow_rl.environments.making import images_of
from workflow_rl.errors import ConfigError, ObservationError

OBSERVATIONS: list[tuple[spaces.Space[Any], Any, list[float], Any]] = [
    (spaces.Box(-1, 1, (2, 2), np.float32), [[0.5, 0], [1, -1]], [0.5, 0, 1, -1], np.float32),
    (spaces.Box(-1, 1, (2,), np.float64), [0.1, 0], [0.1, 0], np.float32),
    (spaces.Box(0, 1, (), np.float32), 0.25, [0.25], np.float32),
    (spaces.Box(0, 255, (1, 2), np.uint8), [[7, 255]], [7, 255], np.uint8),
    (spaces.Box(0, 9, (2,), np.int64), [3, 9], [3, 9], np.uint8),
    (spaces.Box(-1, 9, (2,), np.int64), [-1, 9], [-1, 9], np.int64),
    (spaces.Box(0, 256, (2,), np.int32), [0, 256], [0, 256], np.int32),
    (spaces.Discrete(4), 2, [0, 0, 1, 0], np.uint8),
    (spaces.Discrete(3, start=-1), 1, [0, 0, 1], np.uint8),
    (spaces.MultiBinary([2, 2]), [[1, 0], [0, 1]], [1, 0, 0, 1], np.uint8),
    (spaces.MultiDiscrete([2, 3]), [1, 0], [0, 1, 1, 0, 0], np.uint8),
    (MultiDiscrete([2, 3], start=[5, 1]), [5, 3], [1, 0, 0, 0, 1], np.uint8),
    (
        spaces.Dict({"b": spaces.Discrete(2), "a": spaces.Box(-2, 2, (2,), np.float64)}),
        {"b": 1, "a": [1.5, -2]},
        [1.5, -2, 0, 1],
        np.float32,
    ),
    (
        spaces.Tuple([spaces.MultiBinary(2), spaces.Tuple([spaces.Discrete(2)])]),
        ([0, 1], (0,)),
        [0, 1, 1, 0],
        np.uint8,
    ),
]


def element(space: spaces.Space[Any], plain: Any) -> Any:
    if isinstance(space, spaces.Dict):
        return {name: element(part, plain[name]) for name, part in space.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(element(part, one) for part, one in zip(space, plain, strict=True))
    return plain if isinstance(space, spaces.Discrete) else np.array(plain, space.dtype)


def flattened(space: spaces.Space[Any], obs: Any) -> Any:
    """Gymnasium's, which knew no `start` of a MultiDiscrete before 0.29."""
    knows_none = isinstance(space, MultiDiscrete) and MultiDiscrete is not spaces.MultiDiscrete
    return spaces.flatten(space, obs - space.start if knows_none else obs)


@pytest.mark.parametrize(("space", "plain", "flat", "dtype"), OBSERVATIONS, ids=str)
def test_observations_are_vectors_of_float32_or_of_few_bytes(space, plain, flat, dtype):
    whole, flatten, obs = flat_space(space), flattener(space), element(space, plain)
    assert space.contains(obs), "or else this tests nothing"
    assert flatten(obs).dtype == whole.dtype == dtype
    np.testing.assert_array_equal(flatten(obs), np.array(flat, dtype))
    assert whole.shape == (len(flat),)
    space.seed(0)
    samples = [space.sample() for _ in range(50)]
    rows = [flatten(sample) for sample in samples]
    assert all(whole.contains(row) for row in rows)
    assert len({row.tobytes() for row in rows}) > 1
    for sample, row in zip(samples, rows, strict=True):
        assert row.tobytes() == np.asarray(flattened(space, sample)).astype(dtype).tobytes()


def test_unbounded_observations():
    flat = flat_space(spaces.Box(-np.inf, np.inf, (2,), np.float64))
    assert (flat.low.tolist(), flat.high.tolist()) == ([-np.inf] * 2, [np.inf] * 2)


@pytest.mark.parametrize(
    ("space", "distribution", "drawn", "action"),
    [
        (spaces.Discrete(4), Categorical(4), 3, 3),
        (spaces.Discrete(3, start=-1), Categorical(3), 0, -1),
        (spaces.MultiDiscrete([3, 2]), MultiCategorical([3, 2]), [2, 0], [2, 0]),
        (MultiDiscrete([3, 2], start=[1, 5]), MultiCategorical([3, 2]), [2, 0], [3, 5]),
        (
            spaces.MultiDiscrete([[3, 2], [4, 5]]),
            MultiCategorical([3, 2, 4, 5]),
            [2, 1, 3, 4],
            [[2, 1], [3, 4]],
        ),
        (spaces.MultiBinary(3), MultiCategorical([2, 2, 2]), [0, 1, 1], [0, 1, 1]),
        (spaces.MultiBinary((1, 2)), MultiCategorical([2, 2]), [0, 1], [[0, 1]]),
        (
            spaces.Tuple([spaces.MultiBinary(2), MultiDiscrete([3, 4], start=[5, 0])]),
            MultiCategorical([2, 2, 3, 4]),
            [1, 0, 2, 3],
            ([1, 0], [7, 3]),
        ),
        (
            spaces.Dict([("b", spaces.Discrete(3, start=1)), ("a", spaces.MultiBinary(2))]),
            MultiCategorical([3, 2, 2]),
            [2, 0, 1],
            {"b": 3, "a": [0, 1]},
        ),
        (spaces.Box(-2, 1, (2,), np.int64), MultiCategorical([4, 4]), [0, 3], [-2, 1]),
        (spaces.Box(-1, 1, (2,)), DiagonalGaussian(2), [-3, 1.5], [-1, 1]),
        (
            spaces.Box(np.array([0, -2.0]), np.array([1, np.inf]), dtype=np.float64),
            DiagonalGaussian(2, (0.5, 0.0), (0.5, 1.0)),
            [-1, 1e9],
            [0, 1e9],
        ),
        (spaces.Box(0, 1000, (1,)), DiagonalGaussian(1, (500.0,), (500.0,)), [700], [700]),
        # Environments write such bounds where they mean none.
        (spaces.Box(-3e38, 3e38, (1,)), DiagonalGaussian(1), [7], [7]),
        (spaces.Box(0, np.inf, (1,)), DiagonalGaussian(1), [7], [7]),
        (spaces.Box(2, 2, (1,)), DiagonalGaussian(1), [7], [2]),
        (spaces.Box(-1, 1, (2, 1)), DiagonalGaussian(2), [0.5, 2], [[0.5], [1]]),
        (spaces.Box(-1, 1, ()), DiagonalGaussian(1), [0.5], 0.5),
    ],
    ids=lambda one: type(one).__name__ if hasattr(one, "n_outputs") else str(one),
)
def test_actions_are_shaped_shifted_and_clipped(space, distribution, drawn, action):
    assert distribution_over(space) == distribution
    is_float = distribution.has_log_std
    given_action = np.array(drawn, np.float32 if is_float else np.int64)
    made = unflattener(space)(given_action)
    assert space.contains(made)
    np.testing.assert_equal(made, action)
    assert isinstance(made, int) == isinstance(space, spaces.Discrete)


def test_masks_may_be_nested_as_their_actions():
    pair = spaces.Tuple([spaces.Discrete(2), spaces.MultiDiscrete([2, 3])])
    read = mask_reader(spaces.Dict([("pair", pair), ("whole", spaces.Box(0, 2, (1,), np.int32))]))
    flat = [1, 0, 0, 1, 1, 1, 0, 0, 0, 1]
    of_pair: list[Any] = [[1, 0], ([0, 1], [1, 1, 0])]
    for told in (of_pair, tuple(of_pair), [[1, 0], [0, 1], [1, 1, 0]], flat[:7]):
        assert read({"pair": told, "whole": [0, 0, 1]}).tolist() == [bit == 1 for bit in flat]
    with pytest.raises(ObservationError, match="has no entry 'whole'"):
        read({"pair": of_pair})
    with pytest.raises(ObservationError, match="has 9 numbers, not 10"):
        read({"pair": of_pair, "whole": [1, 0]})


def test_random_actions_are_pythons_integers_where_workers_give_these():
    space = spaces.Dict({"a": spaces.Discrete(3), "b": spaces.Tuple([spaces.Discrete(2)])})
    for mask in (None, np.ones(3)):
        assert type(sampled(spaces.Discrete(3, start=5), mask)) is int
    action = sampled(space, None)
    assert type(action["a"]) is type(action["b"][0]) is int
    assert space.contains(action)


@given(st.data())
def test_random_actions_keep_to_the_mask(data):
    inner = spaces.Tuple([spaces.Discrete(3, start=1), spaces.MultiBinary(2)])
    space = spaces.Tuple([spaces.MultiDiscrete([2, 3]), inner])
    sizes, forced = choices_of(space), []
    for size in sizes:
        forced.append(data.draw(st.integers(0, size - 1)))
    mask = np.concatenate([np.eye(size)[n] for size, n in zip(sizes, forced, strict=True)])
    (a, b), (c, (d, e)) = sampled(space, mask)
    assert [a, b, c - 1, d, e] == forced


def test_actions_that_float32_cannot_tell_apart_are_refused():
    with pytest.raises(ConfigError, match=r"from 1000000000.0 .*too close .*scale them"):
        distribution_over(spaces.Box(1e9, 1e9 + 1, (1,), np.float64))


@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=3, max_size=3))
def test_whatever_a_gaussian_samples_the_action_is_in_its_space(numbers):
    for dtype in (np.float32, np.float64):
        low, high = np.array([-0.1, 0.3, -1e3]), np.array([0.7, 0.9, 1e3])
        space = spaces.Box(low.astype(dtype), high.astype(dtype), dtype=dtype)
        assert space.contains(unflattener(space)(np.array(numbers, np.float32)))


UNSUPPORTED = [
    spaces.Text(5),
    spaces.Sequence(spaces.Discrete(2)),
    spaces.Graph(spaces.Discrete(2), None),
]


@pytest.mark.parametrize("space", UNSUPPORTED, ids=lambda space: type(space).__name__)
def test_observation_spaces_that_are_not_supported(space):
    inside = spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Tuple([space])})
    for whole in (space, inside):
        for make in (flat_space, flattener):
            with pytest.raises(ConfigError) as refused:
                make(whole)
            message = str(refused.value)
            assert f"its observation space {space}" in message
            assert (f"within {whole}" in message) == (whole is inside)
            assert "is not supported" in message
            assert "\n" not in message
            assert refused.value.field_name == "env"


@pytest.mark.parametrize("space", [spaces.Box(0, 5000, (2,), np.int64), spaces.Text(5)], ids=str)
def test_action_spaces_that_are_not_supported(space):
    with pytest.raises(ConfigError) as refused:
        distribution_over(space)
    assert refused.value.message.startswith(f"its action space {space} is not supported")
    assert "\n" not in str(refused.value)
    assert refused.value.field_name == "env"


def test_choices_and_numbers_may_be_parts_of_one_action():
    numbers = spaces.Box(-1, 3, (2,), np.float64)
    space = spaces.Dict(
        a=spaces.Tuple([spaces.Discrete(2, start=5), numbers]), b=spaces.MultiDiscrete([2, 3])
    )
    mixed = distribution_over(space)
    of_parts = Categorical(2), DiagonalGaussian(2, (1, 1), (2, 2)), MultiCategorical([2, 3])
    assert mixed == Mixed(of_parts)
    action = unflattener(space)(np.array([1, 0.5, 9, 1, 2], np.float32))
    assert space.contains(action)
    assert action["a"][0] == 6
    assert action["a"][1].tolist() == [0.5, 3]
    assert action["b"].tolist() == [1, 2]


def test_spaces_and_environments_of_gym_are_named():
    kind = type("Discrete", (), {"__module__": "gym.spaces.discrete", "__str__": lambda x: "D(2)"})
    for refuse, name in ((flat_space, "observation"), (distribution_over, "action")):
        with pytest.raises(ConfigError, match=rf"{name} space D\(2\) is one of gym"):
            refuse(kind())
    old = type("Env", (), {"__module__": "gym.core"})
    with pytest.raises(ConfigError, match="mine made an environment of gym, which"):
        GymnasiumEnvironment("mine", {}, old).spaces()


IMAGE, TABLE = spaces.Box(0, 255, (4, 4, 3), np.uint8), spaces.Box(0, 9, (5, 4), np.float32)
PAIR = spaces.Dict({"a": spaces.Box(0, 1, (2,)), "b": spaces.Box(0, 1, (3,))})


@pytest.mark.parametrize(
    ("space", "shown", "how"),
    [
        (spaces.Box(-1, 300, (1,), np.int64), np.array([2**63], np.uint64), f"holds {2**63}, "),
        (spaces.Box(0, 255, (1,), np.uint8), np.array([0.7]), "holds 0.7, which is no uint8"),
        (spaces.Box(0, 255, (1,), np.uint8), np.array([256.0]), "holds 256.0, which is no uint8"),
        (spaces.Box(0, 255, (1,), np.uint8), np.array([np.nan]), "holds nan, which is no uint8"),
        (spaces.Box(0, 1, (2,)), np.zeros(3), "has shape (3,), not (2,)"),
        (spaces.Box(0, 1, (2,)), np.array(["1", "2"]), "is of <U1, not float32"),
        (
            spaces.Tuple((spaces.Box(0, 1, (1,)), spaces.Box(0, 9, (1,), np.int8))),
            ([0.5], [0.5]),
            "holds 0.5, which is no int8",
        ),
        (spaces.Discrete(3), 1.5, "holds 1.5, which is not in Discrete(3)"),
        (spaces.Discrete(3), np.nan, "holds nan, which is not in Discrete(3)"),
        (spaces.Discrete(3), [0, 1], "cannot be used"),
        (spaces.MultiBinary(2), np.array([0, 1, 0], np.int8), "has shape (3,), not (2,)"),
        (spaces.MultiDiscrete([2, 3]), np.array([2, 0]), "holds 2, which is not in MultiDis"),
        (spaces.MultiDiscrete([2, 3]), np.array([0.5, 1]), "holds 0.5, which is no int64"),
        (spaces.Tuple([spaces.Discrete(2), spaces.Discrete(3)]), (0, 1, 2), "cannot be used"),
        (spaces.Dict({"a": spaces.Discrete(2)}), {"b": 1}, "cannot be used: KeyError"),
        (
            spaces.Dict({"a": spaces.Box(0, 9, (1,), np.int8), "b": spaces.Box(0, 1, (1,))}),
            {"a": np.array([0.5], np.float32), "b": np.array([0.5])},
            "holds 0.5",
        ),
        # As many numbers as there should be, but not where they should be.
        (PAIR, {"a": np.zeros(3), "b": np.zeros(2)}, "has shape (3,), not (2,)"),
        (IMAGE, np.zeros((3, 4, 4), np.uint8), "has shape (3, 4, 4), not (4, 4, 3)"),
        (IMAGE, np.zeros(48, np.uint8), "has shape (48,), not (4, 4, 3)"),
        (spaces.Tuple([IMAGE]), (np.zeros((3, 4, 4)),), "has shape (3, 4, 4), not (4, 4, 3)"),
        (TABLE, np.zeros((4, 5)), "has shape (4, 5), not (5, 4)"),
        (spaces.MultiBinary([2, 3]), np.zeros((3, 2)), "has shape (3, 2), not (2, 3)"),
        (spaces.MultiDiscrete([[2] * 3] * 2), np.zeros(6), "has shape (6,), not (2, 3)"),
        (TABLE, np.ma.array(np.zeros((5, 4)), mask=np.eye(5, 4)), "has masked numbers"),
    ],
    ids=str,
)
def test_what_would_become_another_observation_is_refused(space, shown, how):
    for ask in (FlatEnv(Liar(space, shown)).reset, lambda: flattener(space)(shown)):
        with pytest.raises(ObservationError) as refused:
            ask()
        assert how in str(refused.value)
        assert str(refused.value).endswith(f"; its space is {space}".replace("\n", ""))
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize("shape", [(1, 5, 4), (5, 4, 1), (5, 1, 4)])
def test_sides_of_length_one_move_no_number(shape):
    numbers = np.arange(20, dtype=np.float32)
    assert flattener(TABLE)(numbers.reshape(shape)).tolist() == numbers.tolist()


OF_INTEGERS = [
    spaces.Box(0, 9, (2,), np.int64),
    spaces.Box(-5, 9, (2,), np.int16),
    spaces.Box(0, 255, (2, 1), np.uint8),
    spaces.Discrete(4, start=-1),
    spaces.MultiBinary(3),
    MultiDiscrete([2, 3], start=[5, 1]),
]


@given(
    st.sampled_from(OF_INTEGERS),
    st.integers(-9, 9) | st.integers(-(2**40), 2**40),
    st.booleans(),
)
def test_any_integer_is_kept_as_it_is_or_refused(space, number, is_part):
    obs = np.asarray(space.sample()).astype(np.int64)
    obs.flat[0] = number
    shown = int(obs) if isinstance(space, spaces.Discrete) else obs
    chosen = isinstance(space, spaces.Discrete | spaces.MultiDiscrete)
    kept = np.iinfo(flat_space(space).dtype)
    is_held = space.contains(shown) if chosen else kept.min <= number <= kept.max
    env = FlatEnv(Liar(spaces.Tuple([space]), (shown,)) if is_part else Liar(space, shown))
    if is_held:
        expected = flattened(space, shown) if chosen else obs.ravel()
        assert env.reset()[0].tolist() == expected.tolist()
    else:
        with pytest.raises(ObservationError, match=f"holds {number}, "):
            env.reset()


def test_a_space_of_nothing_is_refused():
    for space in (spaces.Box(-1, 1, (0,)), spaces.Dict({}), spaces.Tuple([])):
        with pytest.raises(ConfigError, match="holds no numbers"):
            flat_space(space)
    with pytest.raises(ConfigError, match=r"action space .* holds no numbers"):
        distribution_over(spaces.Box(-1, 1, (0,)))


def byte(*shape: int) -> spaces.Box:
    return spaces.Box(0, 255, shape, np.uint8)


@pytest.mark.parametrize(
    ("space", "image"),
    [
        (byte(84, 84, 4), Image(0, 84, 84, 4, False, 255.0)),
        (byte(4, 84, 84), Image(0, 84, 84, 4, True, 255.0)),
        (byte(7, 7, 20), Image(0, 7, 7, 20, False, 255.0)),
        (byte(20, 7, 7), Image(0, 7, 7, 20, True, 255.0)),
        (byte(210, 160, 3), Image(0, 210, 160, 3, False, 255.0)),
        (byte(3, 210, 160), Image(0, 210, 160, 3, True, 255.0)),
        (byte(5, 5, 5), Image(0, 5, 5, 5, False, 255.0)),
        (byte(84, 84), Image(0, 84, 84, 1, False, 255.0)),
        (spaces.Box(0, 1, (9, 9, 2)), Image(0, 9, 9, 2, False, 1.0)),
        (spaces.Box(-np.inf, np.inf, (9, 9, 2)), Image(0, 9, 9, 2, False, 1.0)),
        (spaces.Box(0, 10, (9, 9, 2), np.int64), Image(0, 9, 9, 2, False, 10.0)),
        (spaces.Tuple([spaces.Discrete(3), byte(8, 9, 1)]), Image(3, 8, 9, 1, False, 255.0)),
    ],
)
def test_an_image_is_found(space, image):
    layout = images_of(space)
    assert layout.images == (image,)


@pytest.mark.parametrize(
    "space",
    [
        *(byte(9), byte(5, 5), byte(2, 9, 9, 9), byte(2, 2, 3)),
        *(spaces.Box(0, 1, (84, 84)), spaces.MultiBinary((4, 4, 4)), spaces.Discrete(3)),
    ],
)
def test_other_spaces_hold_no_image(space):
    assert images_of(space) is None


def test_several_images_beside_numbers():
    layout = images_of(
        spaces.Dict(
            {
                "bearing": spaces.Discrete(4),
                "cameras": spaces.Tuple([byte(8, 8, 3), byte(1, 9, 8)]),
                "speed": spaces.Box(-1, 1, (2,)),
            }
        )
    )
    assert layout.images == (Image(4, 8, 8, 3, False, 255.0), Image(196, 9, 8, 1, True, 255.0))
    assert layout.numbers.tolist() == [0, 1, 2, 3, 268, 269]
    assert str(layout) == "8 x 8 x 3 channels; 1 channel x 9 x 8"
