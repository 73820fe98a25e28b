from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from workflow_rl.agents.policies.distributions import categorical_entropy
from workflow_rl.agents.ppo.losses import (
    approximate_kl,
    clip_fraction,
    clipped_policy_loss,
    effective_share,
    explained_variance,
    normalised,
    value_loss,
)

# ratio, advantage, loss, d loss / d ratio; the clip range is 0.2.
POLICY_LOSSES = {
    "inside, good action": (1.1, 2.0, -2.2, -2.0),
    "inside, bad action": (1.1, -2.0, 2.2, 2.0),
    # min(1.5 * 2, 1.2 * 2) = 2.4: no credit for going further above the clip range ...
    "above, good action": (1.5, 2.0, -2.4, 0.0),
    # min(0.5 * 2, 0.8 * 2) = 1.0: ... but a good action made too rare is still pulled back.
    "below, good action": (0.5, 2.0, -1.0, -2.0),
    # min(-3, -2.4) = -3: a bad action made too likely is still pushed down ...
    "above, bad action": (1.5, -2.0, 3.0, 2.0),
    # min(-1, -1.6) = -1.6: ... but gains nothing by going further below.
    "below, bad action": (0.5, -2.0, 1.6, 0.0),
}


@pytest.mark.parametrize("case", POLICY_LOSSES)
def test_clipped_policy_loss_and_its_gradient_by_hand(case: str) -> None:
    ratio, advantage, expected, gradient = POLICY_LOSSES[case]
    ratios = torch.tensor([ratio], requires_grad=True)
    loss = clipped_policy_loss(ratios, torch.tensor([advantage]), 0.2)
    loss.backward()
    assert loss.item() == pytest.approx(expected)
    assert ratios.grad is not None
    assert ratios.grad.item() == gradient


def test_clipped_policy_loss_is_a_mean() -> None:
    ratio, advantage = torch.tensor([1.5, 0.5, 1.5, 0.5]), torch.tensor([2.0, 2.0, -2.0, -2.0])
    # (-2.4 - 1.0 + 3.0 + 1.6) / 4
    assert clipped_policy_loss(ratio, advantage, 0.2).item() == pytest.approx(0.3)


def test_the_clip_range_widens_the_clip() -> None:
    ratio, advantage = torch.tensor([1.5]), torch.tensor([2.0])
    assert clipped_policy_loss(ratio, advantage, 0.4).item() == pytest.approx(-2.8)


def test_value_loss_by_hand() -> None:
    # ((1 - 3)^2 + (2 - 2)^2) / 2 = 2; half of it.
    assert value_loss(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 2.0])).item() == 1.0


@pytest.mark.parametrize("n_actions", [1, 2, 145])
def test_entropy_of_a_uniform_distribution_is_the_logarithm_of_its_size(n_actions: int) -> None:
    log_probs = torch.log_softmax(torch.full((3, n_actions), 7.0), dim=-1)
    expected = pytest.approx([math.log(n_actions)] * 3, abs=1e-6)
    assert categorical_entropy(log_probs).tolist() == expected


def test_entropy_by_hand() -> None:
    # 0.5 * log 2 + 2 * 0.25 * log 4 = 1.5 log 2; a certain action has none.
    uneven = torch.tensor([[0.5, 0.25, 0.25]]).log()
    certain = torch.log_softmax(torch.tensor([[0.0, -200.0, -300.0]]), dim=-1)
    entropy = categorical_entropy(torch.cat([uneven, certain]))
    assert entropy.tolist() == pytest.approx([1.5 * math.log(2), 0.0])


def test_kl_by_hand() -> None:
    # (2 - 1 - log 2 + 0.5 - 1 + log 2) / 2 = 0.25
    assert approximate_kl(torch.tensor([2.0, 0.5]).log()).item() == pytest.approx(0.25)


def test_kl_is_unbiased() -> None:
    old, new = torch.tensor([0.5, 0.25, 0.25]), torch.tensor([0.25, 0.25, 0.5])
    # Each action as often as the old policy chooses it.
    # KL(old || new) = 0.5 log 2 + 0.25 log 1 + 0.25 log 0.5 = 0.25 log 2
    actions = torch.tensor([0, 0, 1, 2])
    log_ratio = (new.log() - old.log())[actions]
    assert approximate_kl(log_ratio).item() == pytest.approx(0.25 * math.log(2))


@given(st.integers(1, 100))
def test_kl_of_a_policy_with_itself_is_exactly_0(size: int) -> None:
    assert approximate_kl(torch.zeros(size)).item() == 0.0


@given(st.lists(st.floats(-20, 20, width=32), min_size=1, max_size=20))
def test_kl_is_never_negative(log_ratio: list[float]) -> None:
    assert approximate_kl(torch.tensor(log_ratio)).item() >= 0.0


@pytest.mark.parametrize("log_ratio", [1e-3, -1e-3, 1e-5, -1e-5])
def test_a_small_kl_is_not_lost_to_rounding(log_ratio: float) -> None:
    # exp(x) - 1 - x = x^2 / 2 + x^3 / 6 + ...
    expected = log_ratio**2 / 2 + log_ratio**3 / 6
    assert approximate_kl(torch.tensor([log_ratio])).item() == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize(
    ("ratio", "share"),
    [([3.0] * 4, 1.0), ([1.0, 3.0], 16 / 20), ([1e-9, 1e-9, 1e-9, 1.0], 1 / 4), ([1e200] * 2, 1.0)],
)
def test_effective_share_by_hand(ratio: list[float], share: float) -> None:
    assert effective_share(np.array(ratio)) == pytest.approx(share)


def test_clip_fraction_by_hand() -> None:
    ratio = torch.tensor([1.0, 1.1, 0.85, 1.3, 0.5])
    assert clip_fraction(ratio, 0.2).item() == pytest.approx(2 / 5)
    assert clip_fraction(ratio, 0.4).item() == pytest.approx(1 / 5)
    assert clip_fraction(torch.ones(7), 0.2).item() == 0.0


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([1.0, 2.0, 6.0], 1.0),
        # A constant error is no variance: it is the spread that counts.
        ([11.0, 12.0, 16.0], 1.0),
        ([3.0, 3.0, 3.0], 0.0),
        # The errors are twice the returns: four times the variance.
        ([-1.0, -2.0, -6.0], -3.0),
    ],
)
def test_explained_variance_by_hand(value: list[float], expected: float) -> None:
    returns = torch.tensor([1.0, 2.0, 6.0])
    assert explained_variance(torch.tensor(value), returns) == pytest.approx(expected, abs=1e-6)


def test_half_explained_variance_by_hand() -> None:
    # Errors 0, 1 have variance 0.25; returns 1, 3 have variance 1.
    variance = explained_variance(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 3.0]))
    assert variance == pytest.approx(0.75)


@given(st.floats(-1e6, 1e6, width=32), st.integers(1, 300))
def test_explained_variance_of_equal_returns_is_nan(return_: float, size: int) -> None:
    assert math.isnan(explained_variance(torch.arange(float(size)), torch.full((size,), return_)))


def test_normalised_by_hand() -> None:
    # Mean 2.5, biased variance (2.25 + 0.25 + 0.25 + 2.25) / 4 = 1.25.
    expected = [-1.5, -0.5, 0.5, 1.5]
    scaled = normalised(torch.tensor([1.0, 2.0, 3.0, 4.0])) * math.sqrt(1.25)
    assert scaled.tolist() == pytest.approx(expected)


@given(st.integers(2, 500), st.floats(-1e2, 1e2), st.floats(0.1, 1e3), st.integers(0, 2**32 - 1))
def test_normalised_has_mean_0_and_standard_deviation_1(
    size: int, mean: float, scale: float, seed: int
) -> None:
    # An evenly spaced ramp, shuffled: never nearly constant.
    generator = torch.Generator().manual_seed(seed)
    ramp = torch.linspace(-1, 1, size)[torch.randperm(size, generator=generator)]
    result = normalised(mean + scale * ramp)
    assert result.mean().item() == pytest.approx(0, abs=2e-3)
    assert result.std(correction=0).item() == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("advantage", [[5.0], [3.0, 3.0, 3.0]])
def test_normalised_of_equal_advantages_is_0_and_not_nan(advantage: list[float]) -> None:
    assert normalised(torch.tensor(advantage)).tolist() == [0.0] * len(advantage)
