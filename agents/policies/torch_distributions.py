"""The learner's side of `distributions`: log-probabilities and entropies with gradients."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from workflow_rl.agents.policies.distributions import (
    HALF_LOG_2_PI,
    Categorical,
    DiagonalGaussian,
    Distribution,
    Mixed,
    MultiCategorical,
)


def categorical_entropy(log_probs: Tensor) -> Tensor:
    """Entropy in nats of each distribution: normalised log-probabilities [B, A] -> [B].

    An action that is ruled out, of log-probability -inf, adds nothing.
    """
    probs = log_probs.exp()
    return -(probs * log_probs.clamp(min=torch.finfo(log_probs.dtype).min)).sum(dim=-1)


def gaussian_entropy(log_std: Tensor) -> Tensor:
    """Entropy in nats of independent normal numbers: log standard deviations [K] -> scalar."""
    return (log_std + 0.5 * math.log(2 * math.pi * math.e)).sum()


def divergence(
    distribution: Distribution,
    teacher: tuple[Tensor, Tensor | None],
    student: tuple[Tensor, Tensor | None],
) -> Tensor:
    """Return the divergence KL(teacher || student) of each of B steps, in nats [B].

    teacher, student: the outputs [B, n_outputs], and the log standard deviations [K] if the
    distribution has them. What a mask rules out, it rules out for both.
    """
    (outputs, log_std), (others, other_log_std) = teacher, student
    if isinstance(distribution, MultiCategorical):
        parts = zip(distribution.components, distribution.slices, strict=True)
        of_parts = [divergence(c, (outputs[:, s], None), (others[:, s], None)) for c, s in parts]
        return torch.stack(of_parts).sum(dim=0)
    if isinstance(distribution, Mixed):
        assert log_std is not None
        assert other_log_std is not None
        placed = zip(distribution.parts, distribution.outputs, strict=True)
        of_parts = [
            divergence(part, (outputs[:, s], log_std[s]), (others[:, s], other_log_std[s]))
            for part, s in placed
        ]
        return torch.stack(of_parts).sum(dim=0)
    if isinstance(distribution, Categorical):
        log_prob, other = (torch.log_softmax(of, dim=-1) for of in (outputs, others))
        is_possible = log_prob > -math.inf  # Infinity minus infinity is no number.
        return (log_prob.exp() * torch.where(is_possible, log_prob - other, 0)).sum(dim=-1)
    # The bounds' scale cancels out.
    assert log_std is not None
    assert other_log_std is not None
    apart = (2 * log_std).exp() + (outputs - others).square()
    per_number = other_log_std - log_std + 0.5 * (apart * (-2 * other_log_std).exp() - 1)
    return per_number.sum(dim=-1)


def log_prob_and_entropy(
    distribution: Distribution,
    outputs: Tensor,
    log_std: Tensor | None,
    row: Tensor | None,
    action: Tensor,
) -> tuple[Tensor, Tensor]:
    """Return the log-probabilities [B] of the actions of B steps, and the entropies [B] in nats.

    outputs: [U, n_outputs], of distinct observations. row: int64 [B], the row of `outputs` for each
    step; None if every step has a row of its own, in order. action: [B] or [B, K]. log_std: [K], if
    the distribution has one.
    """
    if isinstance(distribution, Categorical):
        log_probs = torch.log_softmax(outputs, dim=-1)
        if row is None:
            return log_probs.gather(1, action[:, None])[:, 0], categorical_entropy(log_probs)
        # In this order, which is also that in which gradients are added up.
        log_prob = log_probs[row, action]
        return log_prob, categorical_entropy(log_probs)[row]
    if isinstance(distribution, MultiCategorical):
        parts = [
            log_prob_and_entropy(component, outputs[:, part], None, row, action[:, k])
            for k, (component, part) in enumerate(
                zip(distribution.components, distribution.slices, strict=True)
            )
        ]
        log_prob, entropy = (torch.stack(column).sum(dim=0) for column in zip(*parts, strict=True))
        return log_prob, entropy
    if isinstance(distribution, Mixed):
        assert log_std is not None
        parts = [
            log_prob_and_entropy(
                part, outputs[:, of], log_std[of], row, distribution.of_part(n, action)
            )
            for n, (part, of) in enumerate(
                zip(distribution.parts, distribution.outputs, strict=True)
            )
        ]
        log_prob, entropy = (torch.stack(column).sum(dim=0) for column in zip(*parts, strict=True))
        return log_prob, entropy
    assert isinstance(distribution, DiagonalGaussian)
    assert log_std is not None
    if distribution.middle:
        middle, half_width, log_half_width = (
            torch.from_numpy(numbers).to(outputs.device) for numbers in distribution.scale
        )
        outputs, log_std = middle + half_width * outputs, log_std + log_half_width
    mean = outputs if row is None else outputs[row]
    noise = (action - mean) * torch.exp(-log_std)
    log_prob = -(0.5 * noise.square() + log_std + HALF_LOG_2_PI).sum(dim=-1)
    return log_prob, gaussian_entropy(log_std).expand(len(action))
