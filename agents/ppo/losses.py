"""The mathematics of PPO as pure functions of tensors."""

import math
from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from workflow_rl.agents.algorithm import DivergedError


def normalised(advantage: Tensor) -> Tensor:
    """Return advantages [B] shifted and scaled to mean 0 and (biased) standard deviation 1."""
    return (advantage - advantage.mean()) / (advantage.std(correction=0) + 1e-8)


def copy_weights(advantage: Tensor, beta: float) -> Tensor:
    """Return weights [B] of copied steps with mean 1: Peng et al. 2019, arXiv 1910.00177."""
    weight = (normalised(advantage) / beta).exp().clamp(max=20.0)
    return weight / weight.mean()


def clipped_policy_loss(ratio: Tensor, advantage: Tensor, clip_range: float) -> Tensor:
    """Return minus the clipped surrogate objective. [B], [B] -> scalar.

    Schulman et al. 2017, equation 7.
    ratio: pi(a|s) / pi_old(a|s). The policy pi_old is in the middle of the clip range.
    """
    clipped = ratio.clamp(1 - clip_range, 1 + clip_range)
    return -torch.min(ratio * advantage, clipped * advantage).mean()


def value_loss(value: Tensor, return_: Tensor) -> Tensor:
    """Return half the mean squared error of the critic. [B], [B] -> scalar."""
    return 0.5 * (value - return_).square().mean()


def approximate_kl(log_ratio: Tensor) -> Tensor:
    """Estimate KL(pi_old || pi) from actions of pi_old. log_ratio: log pi - log pi_old [B].

    This is the low-variance estimator k3, (r - 1) - log r, of Schulman 2020, "Approximating KL
    divergence". It is unbiased if pi_old chose the actions.
    """
    return (log_ratio.expm1() - log_ratio).mean()


def clip_fraction(ratio: Tensor, clip_range: float) -> Tensor:
    """Return the share of the ratios [B] outside the clip range."""
    return ((ratio - 1).abs() > clip_range).float().mean()


def effective_share(ratio: NDArray[np.float64]) -> float:
    """Return the effective sample size of steps with importance ratios [B], divided by B.

    This is (sum r)^2 / (B sum r^2), of Kong 1992. It is 1 for equal ratios, and 1 / B if one step
    outweighs all others.
    """
    scaled = ratio / ratio.max()
    return float(scaled.sum() ** 2 / (len(scaled) * np.square(scaled).sum()))


def explained_variance(value: Tensor, return_: Tensor) -> float:
    """Return 1 - Var[return - value] / Var[return] over a batch [B], or NaN for equal returns."""
    # For equal float32 numbers, the rounded variance can be above 0.
    if return_.min() == return_.max():
        return float("nan")
    return float(1 - (return_ - value).var(correction=0) / return_.var(correction=0))


def require_finite(numbers: Mapping[str, Tensor]) -> None:
    """Raise DivergedError for NaN or infinity, before a step makes every weight NaN."""
    for name, number in numbers.items():
        if not math.isfinite(number.item()):
            raise DivergedError(f"the {name} is {number.item()}")
