"""How far a policy is from its teacher's copy, in nats."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from workflow_rl.agents.policies.distributions import Categorical
from workflow_rl.agents.policies.further_distributions import (
    DiagonalGaussian,
    Mixed,
    MultiCategorical,
)

HALVES, QUARTERS = [math.log(1 / 2), math.log(1 / 2)], [math.log(1 / 4), math.log(3 / 4)]
APART = 0.5 * math.log(2) + 0.5 * math.log(2 / 3)


def test_of_choices_by_hand() -> None:
    teacher, student = torch.tensor([HALVES, QUARTERS]), torch.tensor([QUARTERS, QUARTERS])
    found = Categorical(2).divergence((teacher, None), (student, None))
    assert found.tolist() == pytest.approx([APART, 0.0], abs=1e-6)


def test_of_several_choices_it_is_the_sum() -> None:
    teacher, student = torch.tensor([HALVES + QUARTERS]), torch.tensor([QUARTERS + QUARTERS])
    found = MultiCategorical((2, 2)).divergence((teacher, None), (student, None))
    assert found.tolist() == pytest.approx([APART])


def test_of_choices_and_numbers_it_is_the_sum() -> None:
    mixed, log_std = Mixed((Categorical(2), DiagonalGaussian(1))), torch.tensor([9.0, 9.0, 0.0])
    teacher, student = torch.tensor([[*HALVES, 0.0]]), torch.tensor([[*QUARTERS, 2.0]])
    found = mixed.divergence((teacher, log_std), (student, log_std))
    assert found.tolist() == pytest.approx([APART + 0.5 * 2**2])


def test_what_a_mask_rules_out_adds_nothing_and_has_no_gradient() -> None:
    teacher = torch.tensor([[*HALVES, -math.inf]])
    student = torch.tensor([[*QUARTERS, 5.0]], requires_grad=True)
    masked = student.masked_fill(torch.tensor([[False, False, True]]), -math.inf)
    found = Categorical(3).divergence((teacher, None), (masked, None))
    assert found.tolist() == pytest.approx([APART])
    found.sum().backward()
    assert student.grad is not None
    assert student.grad.tolist() == [pytest.approx([0.25 - 0.5, 0.75 - 0.5, 0.0])]


def test_of_numbers_by_hand() -> None:
    """Means 1 apart; deviations 1 and 2."""
    teacher = torch.tensor([[0.0]]), torch.tensor([0.0])
    student = torch.tensor([[1.0]]), torch.tensor([math.log(2)])
    for distribution in (DiagonalGaussian(1), DiagonalGaussian(1, (3.0,), (7.0,))):
        found = distribution.divergence(teacher, student)
        assert found.tolist() == pytest.approx([math.log(2) + (1 + 1) / (2 * 4) - 0.5])


@given(st.integers(0, 2**32 - 1))
def test_it_is_nothing_between_equals_and_positive_otherwise(seed: int) -> None:
    draw = np.random.default_rng(seed)
    outputs = [torch.from_numpy(draw.normal(size=(3, 4)).astype(np.float32)) for _ in range(2)]
    deviations = [torch.from_numpy(draw.normal(size=4).astype(np.float32)) for _ in range(2)]
    for distribution in (Categorical(4), MultiCategorical((2, 2)), DiagonalGaussian(4)):
        one, other = zip(outputs, deviations, strict=True)
        assert (distribution.divergence(one, other) > 0).all()
        assert distribution.divergence(one, one).numpy() == pytest.approx(0, abs=1e-5)
