import json
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from workflow_rl.agents.policies.distributions import (
    Categorical,
    Distribution,
    Prepared,
    masked,
    torch_masked,
)
from workflow_rl.agents.policies.further_distributions import (
    DiagonalGaussian,
    Mixed,
    MultiCategorical,
    SquashedGaussian,
    from_plain,
)
from workflow_rl.agents.policies.network import MLP
from workflow_rl.agents.policies.numpy_policy import NumpyPolicy, PolicyParameters
from workflow_rl.agents.policies.torch_actor import TorchActor

DISTRIBUTIONS: list[Distribution] = [
    Categorical(5),
    MultiCategorical([2, 3, 4]),
    DiagonalGaussian(3),
    DiagonalGaussian(3, (500.0, 0.0, -2.0), (500.0, 1.0, 0.1)),
    Mixed((Categorical(3), DiagonalGaussian(1, (4.0,), (2.0,)), MultiCategorical([2, 3]))),
]
SQUASHED = SquashedGaussian((-1.0, 0.0, -8.0), (1.0, 4.0, 8.0))
ALMOST_1 = math.nextafter(1, 0)
EVERY = pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=lambda one: type(one).__name__)


def example_of(distribution: Distribution, n: int = 200) -> tuple[np.ndarray, np.ndarray | None]:
    """Outputs [n, n_outputs] of order 1, and log standard deviations, if it has any."""
    random = np.random.default_rng(0)
    outputs = random.normal(0, 2, (n, distribution.n_outputs)).astype(np.float32)
    log_std = random.normal(0, 0.5, distribution.n_outputs).astype(np.float32)
    return outputs, log_std if distribution.has_log_std else None


def prepared_example(distribution: Distribution, n: int = 200) -> tuple[Prepared, np.ndarray]:
    return distribution.prepare(*example_of(distribution, n)), np.arange(n)


def uniforms_for(distribution: Distribution, n: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).random((n, distribution.n_draws))


def in_torch(
    distribution: Distribution, outputs: Any, action: Any, log_std: Any = None, row: Any = None
) -> tuple[np.ndarray, np.ndarray]:
    log_prob, entropy = distribution.log_prob_and_entropy(
        torch.as_tensor(outputs),
        None if log_std is None else torch.as_tensor(log_std),
        row if row is None else torch.as_tensor(row),
        torch.as_tensor(action),
    )
    return log_prob.numpy(), entropy.numpy()


@EVERY
@pytest.mark.parametrize("greedy", [False, True])
def test_both_sides_give_the_same_log_probabilities(distribution, greedy):
    outputs, log_std = example_of(distribution)
    prepared, rows = prepared_example(distribution)
    action, log_prob = (
        distribution.mode(prepared, rows)
        if greedy
        else distribution.sample(prepared, rows, uniforms_for(distribution, len(rows)))
    )
    assert log_prob.dtype == np.float32
    assert action.dtype == (np.float32 if distribution.has_log_std else np.int64)
    of_learner, _ = in_torch(distribution, outputs, action, log_std)
    # A Gaussian's action is rounded to float32 before the learner sees it.
    np.testing.assert_allclose(of_learner, log_prob, atol=1e-5)


@EVERY
def test_rows_may_share_the_outputs_of_one_observation(distribution):
    outputs, log_std = example_of(distribution, 6)
    prepared, _ = prepared_example(distribution, 6)
    rows = np.random.default_rng(2).integers(0, 6, 40)
    uniforms = uniforms_for(distribution, 40)
    action, log_prob = distribution.sample(prepared, rows, uniforms)
    repeated = distribution.prepare(outputs[rows], log_std)
    action_alone, log_prob_alone = distribution.sample(repeated, np.arange(40), uniforms)
    assert action.tobytes() == action_alone.tobytes()
    assert log_prob.tobytes() == log_prob_alone.tobytes()
    shared = in_torch(distribution, outputs, action, log_std, rows)
    alone = in_torch(distribution, outputs[rows], action, log_std)
    for of_shared, of_alone in zip(shared, alone, strict=True):
        assert of_shared.shape == (40,)
        np.testing.assert_allclose(of_shared, of_alone, rtol=1e-6)


def test_the_first_of_equally_likely_choices_is_the_mode():
    outputs = np.array([[1, 3, 3, 0]], np.float32)
    action, log_prob = Categorical(4).mode(Categorical(4).prepare(outputs), np.array([0]))
    assert action.tolist() == [1]
    # e^3 of e^3 + e^3 + e^1 + e^0
    assert np.exp(log_prob) == pytest.approx([20.085537 / (2 * 20.085537 + 2.718282 + 1)])


def test_a_gaussian_by_hand():
    # Mean 1, deviation 2: 4 is 1.5 deviations off, and -1.5^2/2 - ln 2 - ln(2 pi)/2 = -2.737086.
    # Mean -2, deviation 1/2: -2 is the mean itself, and ln 2 - ln(2 pi)/2 = -0.225791.
    outputs = np.array([[1, -2]], np.float32)
    log_std = np.log(np.array([2, 0.5], np.float32))
    action = np.array([[4, -2]], np.float32)
    log_prob, entropy = in_torch(DiagonalGaussian(2), outputs, action, log_std)
    assert log_prob == pytest.approx([-2.737086 - 0.225791], abs=1e-5)
    # ln(2 pi e)/2 = 1.418939 each, and ln 2 - ln 2 for the deviations.
    assert entropy == pytest.approx([2 * 1.418939], abs=1e-5)
    _, wider = in_torch(DiagonalGaussian(1), outputs[:, :1], action[:, :1], log_std[:1])
    assert wider == pytest.approx([1.418939 + 0.693147], abs=1e-5)


def test_a_gaussian_draw_by_hand():
    # sqrt(-2 ln(1 - u)) is 1 for u = 1 - e^-1/2, and 2 for u = 1 - e^-2; a quarter turn makes
    # (0, 1) of (1, 0). The radii stand before the angles; three numbers take two of each, and the
    # cosines stand before the sines.
    outputs = np.array([[1, -2, 0]] * 2, np.float32)
    log_std = np.log(np.array([2, 0.5, 1], np.float32))
    gaussian = DiagonalGaussian(3)
    radius_1, radius_2 = 1 - math.exp(-0.5), 1 - math.exp(-2)
    uniforms = np.array([[radius_1, radius_2, 0.0, 0.0], [radius_1, radius_2, 0.25, 0.5]])
    action, log_prob = gaussian.sample(gaussian.prepare(outputs, log_std), np.arange(2), uniforms)
    np.testing.assert_allclose(action, [[1 + 2, -2 + 0.5 * 2, 0], [1, -2 - 0.5 * 2, 1]], atol=1e-6)
    squares = np.array([1 + 4, 4 + 1])
    expected = -0.5 * squares - 1.5 * math.log(2 * math.pi)
    np.testing.assert_allclose(log_prob, expected, rtol=1e-6)


@pytest.mark.parametrize("number", [0.0, ALMOST_1])
@EVERY
def test_the_most_extreme_draws_give_actions_too(distribution, number):
    prepared, rows = prepared_example(distribution)
    uniforms = np.full((len(rows), distribution.n_draws), number)
    action, log_prob = distribution.sample(prepared, rows, uniforms)
    assert np.isfinite(action).all()
    assert np.isfinite(log_prob).all()


@pytest.mark.parametrize(
    ("whole", "parts"),
    [
        (MultiCategorical([2, 3, 4]), (Categorical(2), Categorical(3), Categorical(4))),
        (DISTRIBUTIONS[-1], (Categorical(3), DISTRIBUTIONS[-1].parts[1], MultiCategorical([2, 3]))),
    ],
    ids=["choices", "choices and numbers"],
)
@pytest.mark.parametrize("greedy", [False, True])
def test_several_parts_are_each_of_them_one_after_another(whole, parts, greedy):
    outputs, log_std = example_of(whole)
    outputs[::2, 1] = -np.inf  # Ruled out.
    rows, uniforms = np.arange(200), uniforms_for(whole, 200)

    def chosen(one: Distribution, of: slice, drawn: slice) -> tuple[np.ndarray, ...]:
        own_std = None if log_std is None else log_std[of]
        prepared = one.prepare(outputs[:, of], own_std)
        action, log_prob = (
            one.mode(prepared, rows) if greedy else one.sample(prepared, rows, uniforms[:, drawn])
        )
        return action, log_prob, *in_torch(one, outputs[:, of], action, own_std)

    action, *found = chosen(whole, slice(None), slice(None))
    n_outputs = n_draws = n_numbers = 0
    of_parts = []
    for part in parts:
        drawn = slice(n_draws, n_draws + part.n_draws)
        own_action, *own = chosen(part, slice(n_outputs, n_outputs + part.n_outputs), drawn)
        columns = own_action.reshape(200, -1)
        of_parts.append(own)
        assert np.array_equal(action[:, n_numbers : n_numbers + columns.shape[1]], columns)
        n_outputs, n_draws = n_outputs + part.n_outputs, n_draws + part.n_draws
        n_numbers += columns.shape[1]
    assert action.shape == (200, n_numbers)
    for figure, of_each in zip(found, zip(*of_parts, strict=True), strict=True):
        np.testing.assert_allclose(figure, sum(of_each), rtol=1e-5, atol=1e-5)


def test_a_squashed_gaussian_by_hand():
    one = SquashedGaussian((0.0,), (4.0,))
    mean, log_std = 0.5, math.log(0.25)
    prepared = one.prepare(np.array([[mean, log_std]], np.float32))
    action, log_prob = one.mode(prepared, np.array([0]))
    assert action.dtype == log_prob.dtype == np.float32
    assert action[0, 0] == pytest.approx(2 + 2 * math.tanh(0.5))
    # The normal density of its mean, divided by the slope 2 (1 - tanh(1/2)^2).
    density = 1 / (0.25 * math.sqrt(2 * math.pi)) / (2 * (1 - math.tanh(0.5) ** 2))
    assert math.exp(log_prob[0]) == pytest.approx(density, rel=1e-5)
    # A uniform 1 - exp(-1/2) is a radius of 1, and an angle of 0: one deviation up.
    uniforms = np.array([[1 - math.exp(-0.5), 0.0]])
    action, _ = one.sample(prepared, np.array([0]), uniforms)
    assert action[0, 0] == pytest.approx(2 + 2 * math.tanh(0.75))


def test_a_far_squashed_number_has_a_finite_density():
    prepared = SQUASHED.prepare(np.array([[60, -60, 0, 3, 3, -30]], np.float32))
    action, log_prob = SQUASHED.mode(prepared, np.array([0]))
    assert action.tolist() == [[1, 0, 0]]
    assert np.isfinite(log_prob).all()
    assert SQUASHED.normalised(action).tolist() == [[1, -1, 0]]


@pytest.mark.parametrize(
    "distribution",
    [*DISTRIBUTIONS, SQUASHED],
    ids=lambda one: type(one).__name__,
)
def test_plain_values_make_an_equal_distribution_again(distribution):
    again = from_plain(json.loads(json.dumps(distribution.to_plain())))
    assert type(again) is type(distribution)
    assert again == distribution
    assert hash(again) == hash(distribution)
    assert (again.n_outputs, again.n_draws) == (distribution.n_outputs, distribution.n_draws)


def test_other_kinds_and_sizes_are_unequal():
    different: list[Distribution] = [
        *DISTRIBUTIONS,
        *(Categorical(9), MultiCategorical([3, 2, 4]), MultiCategorical([9]), DiagonalGaussian(9)),
        *(SQUASHED, SquashedGaussian((0.0,) * 3, (4.0,) * 3)),
    ]
    for n, one in enumerate(different):
        assert [one == other for other in different] == [n == m for m in range(len(different))]


@pytest.mark.parametrize(
    ("plain", "words"),
    [
        (["Beta", 3], "Beta"),
        (["SquashedGaussian", ((), ())], "no bounds"),
        (["SquashedGaussian", ((0.0,), (1.0, 2.0))], "no bounds"),
        (["SquashedGaussian", ((0.0,), (math.nan,))], "needs finite bounds"),
        (["SquashedGaussian", ((0.0,), (math.inf,))], "needs finite bounds"),
        (["SquashedGaussian", ((0.0,), (1e39,))], "needs finite bounds"),
        (["SquashedGaussian", ((1.0,), (0.0,))], "needs finite bounds"),
        (["SquashedGaussian", (("a",), ("b",))], "could not convert"),
        (["ScaledGaussian", [[0.0], [1.0, 1.0]]], "are no bounds"),
        (["ScaledGaussian", [[0.0], [0.0]]], "no widths of bounds"),
        (["ScaledGaussian", [[0.0], [-1.0]]], "no widths of bounds"),
        (["ScaledGaussian", [[math.nan], [1.0]]], "are no bounds"),
        (["ScaledGaussian", [[0.0], [1e39]]], "are no bounds"),
        (["ScaledGaussian", [[], [], [0.0], []]], "are no bounds"),
        (["ScaledGaussian", [[], [], [], [0.0]]], "are no bounds"),
        (["ScaledGaussian", [[], [], [1.0], [0.0]]], "are no bounds"),
        (["ScaledGaussian", [[], [], [math.nan], [1.0]]], "are no bounds"),
        (["ScaledGaussian", [[1.0], [1.0], [0, 0], [1, 1]]], "are no bounds"),
        (["Mixed", [["Mixed", [["Categorical", 2]]], ["Categorical", 2]]], "no choices and num"),
        (["Mixed", [["Categorical", -1]]], "no choices and num"),
    ],
)
def test_what_describes_no_distribution_is_refused(plain, words):
    with pytest.raises((ValueError, KeyError), match=words):
        from_plain(plain)


@given(
    logits=st.lists(st.floats(-20, 20, width=32), min_size=2, max_size=8),
    data=st.data(),
    number=st.one_of(st.sampled_from([0.0, ALMOST_1]), st.floats(0, 1, exclude_max=True)),
)
def test_an_action_that_is_ruled_out_is_never_sampled(logits, data, number):
    n = len(logits)
    possible = data.draw(st.sets(st.integers(0, n - 1), min_size=1))
    outputs = np.array([[x if k in possible else -np.inf for k, x in enumerate(logits)]])
    categorical = Categorical(n)
    prepared = categorical.prepare(outputs.astype(np.float32))
    for action, log_prob in (
        categorical.sample(prepared, np.array([0]), np.array([[number]])),
        categorical.mode(prepared, np.array([0])),
    ):
        assert int(action[0]) in possible
        assert np.isfinite(log_prob).all()


@pytest.mark.parametrize("n_choices", [2, 8, 9, 17])
def test_a_log_probability_does_not_depend_on_the_batch(n_choices):
    """NumPy adds up a single row of eight and more in another order than several."""
    distribution = MultiCategorical([3] * n_choices)
    random = np.random.default_rng(0)
    outputs = random.normal(size=(40, distribution.n_outputs)).astype(np.float32)
    uniforms = random.random((40, distribution.n_draws))
    prepared = distribution.prepare(outputs)
    _, together = distribution.sample(prepared, np.arange(40), uniforms)
    alone = [
        distribution.sample(distribution.prepare(outputs[[n]]), np.zeros(1, int), uniforms[[n]])[1]
        for n in range(40)
    ]
    assert np.array_equal(together, np.concatenate(alone))


def test_numbers_cover_their_bounds_as_others_cover_those_from_minus_1_to_1():
    plain, scaled = DiagonalGaussian(2), DiagonalGaussian(2, (500.0, 3.0), (500.0, 1.0))
    (outputs, log_std), rows = example_of(plain), np.arange(200)
    uniforms = uniforms_for(plain, 200)
    action, log_prob = plain.sample(plain.prepare(outputs, log_std), rows, uniforms)
    wide, wide_log_prob = scaled.sample(scaled.prepare(outputs, log_std), rows, uniforms)
    np.testing.assert_allclose(wide, action * [500, 1] + [500, 3], rtol=1e-5, atol=1e-3)
    # A density over numbers that lie 500 times as far apart.
    np.testing.assert_allclose(wide_log_prob, log_prob - math.log(500), rtol=1e-5, atol=1e-4)


# Probabilities 1/2, 1/4, 1/8, 1/8. Without the first action: 1/2, 1/4, 1/4.
LOGITS = np.log(np.array([[4, 2, 1, 1]], np.float32))
MASK = np.array([[0, 1, 1, 1]], np.uint8)
ENTROPY = math.log(2) / 2 + math.log(4) / 2


def test_an_impossible_action_is_never_taken_and_the_others_share_its_probability():
    one = Categorical(4)
    prepared = one.prepare(masked(LOGITS, MASK))
    assert one.mode(prepared, np.array([0]))[0].tolist() == [1]
    uniforms = np.array([[0.0], [0.49], [0.51], [0.74], [0.76], [np.nextafter(1, 0)]])
    rows = np.zeros(len(uniforms), np.int64)
    actions, log_probs = one.sample(prepared, rows, uniforms)
    assert actions.tolist() == [1, 1, 2, 2, 3, 3]
    expected = np.log([0.5, 0.5, 0.25, 0.25, 0.25, 0.25])
    np.testing.assert_allclose(log_probs, expected, rtol=1e-6)


def test_the_learner_sees_the_same_probabilities():
    outputs = torch.tensor(LOGITS, requires_grad=True)
    log_prob, entropy = Categorical(4).log_prob_and_entropy(
        torch_masked(outputs, torch.tensor(MASK)),
        None,
        torch.tensor([0, 0]),
        torch.tensor([1, 3]),
    )
    assert log_prob.tolist() == pytest.approx([math.log(0.5), math.log(0.25)])
    assert entropy.tolist() == pytest.approx([ENTROPY, ENTROPY])
    log_prob[0].backward()
    # Of a softmax: 1 - p of the action, -p of the others, and nothing of what is impossible.
    assert outputs.grad[0].tolist() == pytest.approx([0, 0.5, -0.25, -0.25])
    outputs.grad = None
    log_prob, entropy = Categorical(4).log_prob_and_entropy(
        torch_masked(outputs, torch.tensor(MASK)), None, None, torch.tensor([1])
    )
    entropy.sum().backward()
    # dH/dx = -p (log p + H)
    expected = [0, -0.5 * (math.log(0.5) + ENTROPY), *2 * [-0.25 * (math.log(0.25) + ENTROPY)]]
    assert outputs.grad[0].tolist() == pytest.approx(expected, abs=1e-6)


def test_a_single_action_that_is_possible_leaves_no_entropy_and_no_gradient():
    leaf = torch.tensor([[-math.inf, 2.0, -math.inf]], requires_grad=True)
    log_prob, entropy = Categorical(3).log_prob_and_entropy(leaf, None, None, torch.tensor([1]))
    (log_prob + entropy).sum().backward()
    assert (entropy.item(), leaf.grad[0].tolist()) == (0, [0, 0, 0])


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_a_policy_reads_the_mask_at_the_end_of_an_observation(dtype):
    network = MLP(3, (4,), 4, "tanh")
    layers = network.layers(network.module(1.0, torch.Generator().manual_seed(0)).state_dict())
    moments = (np.full(3, 0.5, np.float32), np.full(3, 2, np.float32))
    parameters = PolicyParameters(*layers, "tanh", None, *moments, Categorical(4), masked=True)
    policy = NumpyPolicy(parameters)
    numbers = np.array([[0, 1, 1], [0, 1, 1], [1, 0, 0]], dtype)
    masks = np.array([[1, 0, 0, 1], [0, 0, 1, 0], [1, 1, 1, 1]], dtype)
    obs = np.concatenate([numbers, masks], axis=1)
    plain = NumpyPolicy(parameters._replace(masked=False)).outputs(numbers)
    np.testing.assert_array_equal(policy.outputs(obs), np.where(masks > 0, plain, -np.inf))
    with torch.no_grad():
        np.testing.assert_allclose(
            TorchActor(parameters)(torch.tensor(obs, dtype=torch.float32)),
            policy.outputs(obs),
            rtol=1e-5,
        )
    for env in range(3):
        policy.reset(env, env)
    # The second time what was computed for the same observations is remembered.
    for _ in range(2):
        for _ in range(20):
            actions, _ = policy.act(obs, range(3))
            assert masks[range(3), actions].all()
    with pytest.raises(ValueError, match=r"\(3, 7\)"):
        policy.act(numbers, range(3))


HALVES, QUARTERS = [math.log(1 / 2), math.log(1 / 2)], [math.log(1 / 4), math.log(3 / 4)]
APART = 0.5 * math.log(2) + 0.5 * math.log(2 / 3)


def as_tensors(outputs: Any, log_std: Any = None) -> tuple[Any, Any]:
    return torch.tensor(outputs), None if log_std is None else torch.tensor(log_std)


ONE_APART = math.log(2) + (1 + 1) / (2 * 4) - 0.5
"""Means 1 apart; deviations 1 and 2."""


@pytest.mark.parametrize(
    ("distribution", "teacher", "student", "expected"),
    [
        (Categorical(2), ([HALVES, QUARTERS],), ([QUARTERS, QUARTERS],), [APART, 0.0]),
        (MultiCategorical((2, 2)), ([HALVES + QUARTERS],), ([QUARTERS + QUARTERS],), [APART]),
        (DiagonalGaussian(1), ([[0.0]], [0.0]), ([[1.0]], [math.log(2)]), [ONE_APART]),
        (
            DiagonalGaussian(1, (3.0,), (7.0,)),
            ([[0.0]], [0.0]),
            ([[1.0]], [math.log(2)]),
            [ONE_APART],
        ),
        (
            Mixed((Categorical(2), DiagonalGaussian(1))),
            ([[*HALVES, 0.0]], [9.0, 9.0, 0.0]),
            ([[*QUARTERS, 2.0]], [9.0, 9.0, 0.0]),
            [APART + 0.5 * 2**2],
        ),
    ],
    ids=["choices", "several choices", "numbers", "numbers with bounds", "choices and numbers"],
)
def test_the_divergence_is_the_sum_of_the_parts(distribution, teacher, student, expected):
    found = distribution.divergence(as_tensors(*teacher), as_tensors(*student))
    assert found.tolist() == pytest.approx(expected, abs=1e-6)


def test_what_a_mask_rules_out_adds_nothing_and_has_no_gradient():
    teacher = torch.tensor([[*HALVES, -math.inf]])
    student = torch.tensor([[*QUARTERS, 5.0]], requires_grad=True)
    masked = student.masked_fill(torch.tensor([[False, False, True]]), -math.inf)
    found = Categorical(3).divergence((teacher, None), (masked, None))
    assert found.tolist() == pytest.approx([APART])
    found.sum().backward()
    assert student.grad.tolist() == [pytest.approx([0.25 - 0.5, 0.75 - 0.5, 0.0])]
