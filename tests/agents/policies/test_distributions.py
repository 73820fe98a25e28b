from __future__ import annotations

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
    categorical_entropy,
)
from workflow_rl.agents.policies.further_distributions import (
    DiagonalGaussian,
    Mixed,
    MultiCategorical,
    SquashedGaussian,
    from_plain,
)

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
    """Of n rows, and their numbers."""
    return distribution.prepare(*example_of(distribution, n)), np.arange(n)


def uniforms_for(distribution: Distribution, n: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).random((n, distribution.n_draws))


def in_torch(
    distribution: Distribution, outputs: Any, action: Any, log_std: Any = None, row: Any = None
) -> tuple[np.ndarray, np.ndarray]:
    """Log-probability and entropy on the learner's side."""
    log_prob, entropy = distribution.log_prob_and_entropy(
        torch.as_tensor(outputs),
        None if log_std is None else torch.as_tensor(log_std),
        row if row is None else torch.as_tensor(row),
        torch.as_tensor(action),
    )
    return log_prob.numpy(), entropy.numpy()


@EVERY
@pytest.mark.parametrize("greedy", [False, True])
def test_both_sides_give_the_same_log_probabilities(
    distribution: Distribution, greedy: bool
) -> None:
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
def test_rows_may_share_the_outputs_of_one_observation(distribution: Distribution) -> None:
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


@EVERY
def test_the_mode_is_the_likeliest_action(distribution: Distribution) -> None:
    prepared, rows = prepared_example(distribution)
    _, best = distribution.mode(prepared, rows)
    for seed in range(20):
        sampled = distribution.sample(prepared, rows, uniforms_for(distribution, len(rows), seed))
        assert (sampled[1] <= best + 1e-6).all()


def test_the_first_of_equally_likely_choices_is_the_mode() -> None:
    outputs = np.array([[1, 3, 3, 0]], np.float32)
    action, log_prob = Categorical(4).mode(Categorical(4).prepare(outputs), np.array([0]))
    assert action.tolist() == [1]
    # e^3 of e^3 + e^3 + e^1 + e^0
    assert np.exp(log_prob) == pytest.approx([20.085537 / (2 * 20.085537 + 2.718282 + 1)])


@pytest.mark.parametrize(
    ("distribution", "n_outputs", "n_draws"),
    [
        (Categorical(7), 7, 1),
        (MultiCategorical([2, 3, 4]), 9, 3),
        (MultiCategorical([5]), 5, 1),
        (DiagonalGaussian(1), 1, 2),
        (DiagonalGaussian(2), 2, 2),
        (DiagonalGaussian(3), 3, 4),
        (Mixed((Categorical(7), DiagonalGaussian(3))), 10, 5),
        (SQUASHED, 6, 4),
    ],
)
def test_outputs_and_draws(distribution: Distribution, n_outputs: int, n_draws: int) -> None:
    assert (distribution.n_outputs, distribution.n_draws) == (n_outputs, n_draws)


def test_a_gaussian_by_hand() -> None:
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


def test_a_gaussian_draw_by_hand() -> None:
    # sqrt(-2 ln(1 - u)) is 1 for u = 1 - e^-1/2; a quarter turn makes (0, 1) of (1, 0).
    outputs = np.array([[1, -2]] * 2, np.float32)
    log_std = np.log(np.array([2, 0.5], np.float32))
    gaussian = DiagonalGaussian(2)
    radius_1 = 1 - math.exp(-0.5)
    uniforms = np.array([[radius_1, 0.0], [radius_1, 0.25]])
    action, log_prob = gaussian.sample(gaussian.prepare(outputs, log_std), np.arange(2), uniforms)
    np.testing.assert_allclose(action, [[1 + 2, -2], [1, -2 + 0.5]], atol=1e-6)
    np.testing.assert_allclose(log_prob, [-0.5 - math.log(2 * math.pi)] * 2, rtol=1e-6)


@pytest.mark.parametrize("number", [0.0, ALMOST_1])
@EVERY
def test_the_most_extreme_draws_give_actions_too(distribution: Distribution, number: float) -> None:
    prepared, rows = prepared_example(distribution)
    uniforms = np.full((len(rows), distribution.n_draws), number)
    action, log_prob = distribution.sample(prepared, rows, uniforms)
    assert np.isfinite(action).all()
    assert np.isfinite(log_prob).all()


def test_several_choices_are_their_parts_one_after_another() -> None:
    sizes = (2, 3, 4)
    distribution = MultiCategorical(sizes)
    outputs, _ = example_of(distribution)
    prepared, rows = prepared_example(distribution)
    uniforms = uniforms_for(distribution, len(rows))
    for name, action_and_log_prob in (
        ("sample", distribution.sample(prepared, rows, uniforms)),
        ("mode", distribution.mode(prepared, rows)),
    ):
        action, log_prob = action_and_log_prob
        entropies = []
        log_probs = []
        for k, (start, end) in enumerate(((0, 2), (2, 5), (5, 9))):
            part = Categorical(end - start)
            own = part.prepare(outputs[:, start:end])
            draws = [uniforms[:, k : k + 1]] if name == "sample" else []
            own_action, own_log_prob = getattr(part, name)(own, rows, *draws)
            assert action[:, k].tolist() == own_action.tolist()
            log_probs.append(own_log_prob)
            entropies.append(in_torch(part, outputs[:, start:end], own_action)[1])
        np.testing.assert_allclose(log_prob, sum(log_probs), rtol=1e-6)
        of_learner, entropy = in_torch(distribution, outputs, action)
        np.testing.assert_allclose(of_learner, sum(log_probs), atol=1e-5)
        np.testing.assert_allclose(entropy, sum(entropies), rtol=1e-5)


def test_choices_and_numbers_beside_each_other_are_their_parts() -> None:
    parts = Categorical(3), DiagonalGaussian(1, (4.0,), (2.0,)), MultiCategorical([2, 3])
    mixed = Mixed(parts)
    outputs, log_std = example_of(mixed)
    assert log_std is not None
    uniforms, rows = uniforms_for(mixed, 200), np.arange(200)
    action, log_prob = mixed.sample(mixed.prepare(outputs, log_std), rows, uniforms)
    assert action.shape == (200, 4)
    own, alone = [], []
    places = (slice(3), slice(1)), (slice(3, 4), slice(1, 3)), (slice(4, 9), slice(3, 5))
    for n, (of, draws) in enumerate(places):
        prepared = parts[n].prepare(outputs[:, of], log_std[of])
        chosen, of_part = parts[n].sample(prepared, rows, uniforms[:, draws])
        assert np.array_equal(mixed.of_part(n, action), chosen)
        own.append(of_part)
        alone.append(in_torch(parts[n], outputs[:, of], chosen, log_std[of])[1])
    np.testing.assert_allclose(log_prob, sum(own), rtol=1e-6)
    np.testing.assert_allclose(in_torch(mixed, outputs, action, log_std)[1], sum(alone), rtol=1e-5)


def test_frequencies_of_several_choices_match_their_independent_probabilities() -> None:
    n = 20_000
    first, second = np.array([0.7, 0.3]), np.array([0.5, 0.2, 0.3])
    distribution = MultiCategorical([2, 3])
    outputs = np.log(np.concatenate([first, second]))[None].astype(np.float32)
    uniforms = uniforms_for(distribution, n)
    action, _ = distribution.sample(distribution.prepare(outputs), np.zeros(n, int), uniforms)
    observed = np.bincount(action[:, 0] * 3 + action[:, 1], minlength=6)

    def chi_square(probabilities: np.ndarray) -> float:
        expected = n * probabilities.ravel()
        return float(((observed - expected) ** 2 / expected).sum())

    # The 99.9 % quantile of the chi-square distribution with 5 degrees of freedom is 20.52.
    independent = np.outer(first, second)
    assert chi_square(independent) < 20.52
    assert chi_square(independent + 0.02 * np.array([[1, -1, 0], [-1, 1, 0]])) > 20.52


def test_moments_of_gaussian_draws_match() -> None:
    n = 20_000
    distribution = DiagonalGaussian(3)
    mean, std = np.array([1.0, -2.0, 0.5]), np.array([0.5, 2.0, 1.0])
    prepared = distribution.prepare(mean[None].astype(np.float32), np.log(std).astype(np.float32))
    action, _ = distribution.sample(prepared, np.zeros(n, int), uniforms_for(distribution, n))
    noise = (action - mean) / std
    # Four standard errors each.
    assert np.abs(noise.mean(axis=0)).max() < 4 / math.sqrt(n)
    assert np.abs(noise.var(axis=0) - 1).max() < 4 * math.sqrt(2 / n)
    # Two of the three come from one pair of uniforms, and are independent all the same.
    correlation = np.corrcoef(noise.T)[np.triu_indices(3, 1)]
    assert np.abs(correlation).max() < 4 / math.sqrt(n)
    # Bounded or uniform noise of that variance would not have this many within one deviation.
    within_1 = (np.abs(noise) < 1).mean(axis=0)
    assert np.abs(within_1 - 0.6827).max() < 4 * math.sqrt(0.6827 * 0.3173 / n)


def test_a_squashed_gaussian_by_hand() -> None:
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


def test_squashed_numbers_are_within_their_bounds_and_their_densities_add_up_to_1() -> None:
    n = 50_000
    one = SquashedGaussian((-3.0,), (1.0,))
    prepared = one.prepare(np.array([[0.7, -0.2]], np.float32))
    action, log_prob = one.sample(prepared, np.zeros(n, int), uniforms_for(one, n))
    assert action.min() >= -3
    assert action.max() <= 1
    # The mean of 1 / density is the width, where the density is nowhere too small.
    inner = (action[:, 0] > -2.5) & (action[:, 0] < 0.5)
    assert (np.exp(-log_prob) * inner).mean() == pytest.approx(3.0, rel=0.05)


def test_a_far_squashed_number_has_a_finite_density() -> None:
    prepared = SQUASHED.prepare(np.array([[60, -60, 0, 3, 3, -30]], np.float32))
    action, log_prob = SQUASHED.mode(prepared, np.array([0]))
    assert action.tolist() == [[1, 0, 0]]
    assert np.isfinite(log_prob).all()
    assert SQUASHED.normalised(action).tolist() == [[1, -1, 0]]


@pytest.mark.parametrize(
    "bounds",
    [
        ((), ()),
        ((0.0,), (1.0, 2.0)),
        ((0.0,), (math.nan,)),
        ((0.0,), (math.inf,)),
        ((0.0,), (1e39,)),
        ((1.0,), (0.0,)),
        (("a",), ("b",)),
    ],
)
def test_numbers_that_are_no_bounds(bounds: Any) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        from_plain(["SquashedGaussian", bounds])


@pytest.mark.parametrize(
    "distribution",
    [*DISTRIBUTIONS, SQUASHED],
    ids=lambda one: type(one).__name__,
)
def test_plain_values_make_an_equal_distribution_again(distribution: Distribution) -> None:
    again = from_plain(json.loads(json.dumps(distribution.to_plain())))
    assert type(again) is type(distribution)
    assert again == distribution
    assert hash(again) == hash(distribution)
    assert (again.n_outputs, again.n_draws) == (distribution.n_outputs, distribution.n_draws)


def test_other_kinds_and_sizes_are_unequal() -> None:
    different: list[Distribution] = [
        *DISTRIBUTIONS,
        *(Categorical(9), MultiCategorical([3, 2, 4]), MultiCategorical([9]), DiagonalGaussian(9)),
        *(SQUASHED, SquashedGaussian((0.0,) * 3, (4.0,) * 3)),
    ]
    for n, one in enumerate(different):
        assert [one == other for other in different] == [n == m for m in range(len(different))]


def test_an_unknown_kind() -> None:
    with pytest.raises(KeyError, match="Beta"):
        from_plain(["Beta", 3])


@given(
    logits=st.lists(st.floats(-20, 20, width=32), min_size=2, max_size=8),
    data=st.data(),
    number=st.one_of(st.sampled_from([0.0, ALMOST_1]), st.floats(0, 1, exclude_max=True)),
)
def test_an_action_that_is_ruled_out_is_never_sampled(
    logits: list[float], data: st.DataObject, number: float
) -> None:
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


def test_entropy_and_its_gradient_do_not_see_an_action_that_is_ruled_out() -> None:
    def entropy_and_gradient(logits: list[float]) -> tuple[float, list[float]]:
        leaf = torch.tensor([logits], requires_grad=True)
        entropy = categorical_entropy(torch.log_softmax(leaf, dim=-1))
        entropy.sum().backward()
        assert leaf.grad is not None
        return entropy.item(), leaf.grad[0].tolist()

    entropy, gradient = entropy_and_gradient([1.0, -math.inf, 0.0])
    # Probabilities e / (1 + e) and 1 / (1 + e): 0.731059 and 0.268941, of logarithms -0.313262 and
    # -1.313262. The gradient is -p (ln p + H).
    assert entropy == pytest.approx(0.582203, abs=1e-6)
    expected = [-0.731059 * (-0.313262 + 0.582203), 0, -0.268941 * (-1.313262 + 0.582203)]
    assert gradient == pytest.approx(expected, abs=1e-6)
    only_one, no_gradient = entropy_and_gradient([-math.inf, 2.0, -math.inf])
    assert (only_one, no_gradient) == (0, [0, 0, 0])


def test_the_gradient_of_a_log_probability_is_finite_where_actions_are_ruled_out() -> None:
    leaf = torch.tensor([[1.0, -math.inf, 0.0]], requires_grad=True)
    log_prob, entropy = Categorical(3).log_prob_and_entropy(leaf, None, None, torch.tensor([2]))
    (log_prob + entropy).sum().backward()
    assert leaf.grad is not None
    assert torch.isfinite(leaf.grad).all()


@pytest.mark.parametrize("n_choices", [2, 8, 9, 17])
def test_a_log_probability_does_not_depend_on_the_batch(n_choices: int) -> None:
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


def test_normal_numbers_are_counted_where_a_sentence_names_them() -> None:
    assert [str(DiagonalGaussian(n)) for n in (1, 2)] == [
        "actions of 1 number",
        "actions of 2 numbers",
    ]


def test_numbers_cover_their_bounds_as_others_cover_those_from_minus_1_to_1() -> None:
    plain, scaled = DiagonalGaussian(2), DiagonalGaussian(2, (500.0, 3.0), (500.0, 1.0))
    (outputs, log_std), rows = example_of(plain), np.arange(200)
    uniforms = uniforms_for(plain, 200)
    action, log_prob = plain.sample(plain.prepare(outputs, log_std), rows, uniforms)
    wide, wide_log_prob = scaled.sample(scaled.prepare(outputs, log_std), rows, uniforms)
    np.testing.assert_allclose(wide, action * [500, 1] + [500, 3], rtol=1e-5, atol=1e-3)
    # A density over numbers that lie 500 times as far apart.
    np.testing.assert_allclose(wide_log_prob, log_prob - math.log(500), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    "sizes",
    [[[0.0], [1.0, 1.0]], [[0.0], [0.0]], [[0.0], [-1.0]], [[math.nan], [1.0]], [[0.0], [1e39]]],
)
def test_bounds_that_do_not_fit_are_refused(sizes: list[list[float]]) -> None:
    with pytest.raises(ValueError, match="bounds"):
        from_plain(["ScaledGaussian", sizes])


@pytest.mark.parametrize(
    "parts", [(Mixed((Categorical(2), DiagonalGaussian(1))), Categorical(2)), (Categorical(-1),)]
)
def test_no_mixture_of_mixtures_and_of_nothing(parts: Any) -> None:
    with pytest.raises(ValueError, match="no choices and numbers"):
        Mixed(parts)
