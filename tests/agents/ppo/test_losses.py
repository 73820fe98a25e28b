import math
from collections.abc import Callable
from typing import Any

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
    copy_weights,
    effective_share,
    explained_variance,
    normalised,
    value_loss,
)

# ratio, advantage, clip range, loss, d loss / d ratio.
POLICY_LOSSES = {
    "inside, good action": (1.1, 2.0, 0.2, -2.2, -2.0),
    "inside, bad action": (1.1, -2.0, 0.2, 2.2, 2.0),
    # min(1.5 * 2, 1.2 * 2) = 2.4: no credit for going further above the clip range ...
    "above, good action": (1.5, 2.0, 0.2, -2.4, 0.0),
    "above a wider clip range": (1.5, 2.0, 0.4, -2.8, 0.0),
    # min(0.5 * 2, 0.8 * 2) = 1.0: ... but a good action made too rare is still pulled back.
    "below, good action": (0.5, 2.0, 0.2, -1.0, -2.0),
    # min(-3, -2.4) = -3: a bad action made too likely is still pushed down ...
    "above, bad action": (1.5, -2.0, 0.2, 3.0, 2.0),
    # min(-1, -1.6) = -1.6: ... but gains nothing by going further below.
    "below, bad action": (0.5, -2.0, 0.2, 1.6, 0.0),
}


@pytest.mark.parametrize("case", POLICY_LOSSES)
def test_clipped_policy_loss_and_its_gradient_by_hand(case):
    ratio, advantage, clip_range, expected, gradient = POLICY_LOSSES[case]
    # A mean over two steps, of which the second adds nothing.
    ratios = torch.tensor([ratio, 1.0], requires_grad=True)
    loss = clipped_policy_loss(ratios, torch.tensor([2 * advantage, 0.0]), clip_range)
    loss.backward()
    assert loss.item() == pytest.approx(expected)
    assert ratios.grad.tolist() == [gradient, 0]


FIVE_RATIOS = torch.tensor([1.0, 1.1, 0.85, 1.3, 0.5])
RETURNS = torch.tensor([1.0, 2.0, 6.0])
BY_HAND: dict[str, tuple[Callable[..., Any], tuple[Any, ...], float]] = {
    # ((1 - 3)^2 + (2 - 2)^2) / 2 = 2; half of it.
    "value loss": (value_loss, (torch.tensor([1.0, 2.0]), torch.tensor([3.0, 2.0])), 1.0),
    # (2 - 1 - log 2 + 0.5 - 1 + log 2) / 2 = 0.25
    "kl": (approximate_kl, (torch.tensor([2.0, 0.5]).log(),), 0.25),
    "clip fraction": (clip_fraction, (FIVE_RATIOS, 0.2), 2 / 5),
    "clip fraction of a wider range": (clip_fraction, (FIVE_RATIOS, 0.4), 1 / 5),
    "effective share of equals": (effective_share, (np.array([3.0] * 4),), 1.0),
    "effective share": (effective_share, (np.array([1.0, 3.0]),), 16 / 20),
    "effective share of one": (effective_share, (np.array([1e-9, 1e-9, 1e-9, 1.0]),), 1 / 4),
    "effective share of huge ratios": (effective_share, (np.array([1e200] * 2),), 1.0),
    # A constant error is no variance: it is the spread that counts.
    "all variance explained": (explained_variance, (RETURNS + 10, RETURNS), 1.0),
    "no variance explained": (explained_variance, (torch.full((3,), 3.0), RETURNS), 0.0),
    # The errors are twice the returns: four times the variance.
    "less than no variance explained": (explained_variance, (-RETURNS, RETURNS), -3.0),
    # Errors 0, 1 have variance 0.25; returns 1, 3 have variance 1.
    "variance explained": (
        explained_variance,
        (torch.tensor([1.0, 2.0]), torch.tensor([1.0, 3.0])),
        0.75,
    ),
}


@pytest.mark.parametrize("case", BY_HAND)
def test_a_figure_by_hand(case):
    function, arguments, expected = BY_HAND[case]
    assert float(function(*arguments)) == pytest.approx(expected, abs=1e-6)


def test_entropy_by_hand():
    # 0.5 * log 2 + 2 * 0.25 * log 4 = 1.5 log 2; a certain action has none.
    uneven = torch.tensor([[0.5, 0.25, 0.25]]).log()
    certain = torch.log_softmax(torch.tensor([[0.0, -200.0, -300.0]]), dim=-1)
    entropy = categorical_entropy(torch.cat([uneven, certain]))
    assert entropy.tolist() == pytest.approx([1.5 * math.log(2), 0.0])


@pytest.mark.parametrize("log_ratio", [0.0, 1e-3, -1e-3, 1e-5, -1e-5])
def test_a_small_kl_is_not_lost_to_rounding(log_ratio):
    # exp(x) - 1 - x = x^2 / 2 + x^3 / 6 + ...
    expected = log_ratio**2 / 2 + log_ratio**3 / 6
    kl = approximate_kl(torch.tensor([log_ratio])).item()
    assert kl == pytest.approx(expected, rel=0.1, abs=0)


@given(st.floats(-1e6, 1e6, width=32), st.integers(1, 300))
def test_explained_variance_of_equal_returns_is_nan(return_, size):
    assert math.isnan(explained_variance(torch.arange(float(size)), torch.full((size,), return_)))


@pytest.mark.parametrize(
    ("advantage", "expected"),
    [
        # Mean 2.5, biased variance (2.25 + 0.25 + 0.25 + 2.25) / 4 = 1.25.
        ([1.0, 2.0, 3.0, 4.0], torch.tensor([-1.5, -0.5, 0.5, 1.5]) / math.sqrt(1.25)),
        ([5.0], torch.zeros(1)),
        ([3.0, 3.0, 3.0], torch.zeros(3)),
    ],
    ids=["by hand", "a single one", "equal ones"],
)
def test_normalised(advantage, expected):
    torch.testing.assert_close(normalised(torch.tensor(advantage)), expected)


def test_weights_by_advantage_are_1_on_average():
    weights = copy_weights(torch.tensor([-1.0, 1.0, 0.0]), 0.5)
    assert weights.mean() == pytest.approx(1)
    assert weights[1] / weights[0] == pytest.approx(np.exp(2 / (0.5 * np.sqrt(2 / 3))))
    assert copy_weights(torch.ones(3), 0.5).tolist() == [1, 1, 1]
