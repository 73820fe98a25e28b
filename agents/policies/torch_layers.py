"""Layers as torch modules, for the learner."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import Tensor, nn

ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU}


def _is_slow(x: Tensor) -> bool:
    """Whether MKL, which would multiply, was made slow: see Linear."""
    return os.environ.get("MKL_CBWR") == "COMPATIBLE" and x.is_cpu


def product(rows: Tensor, matrix: Tensor) -> Tensor:
    """Return rows [B, in] @ matrix [in, out], without gradients; see Linear."""
    if _is_slow(rows):
        return torch.from_numpy(rows.detach().numpy() @ matrix.detach().numpy())
    return rows @ matrix


class NumpyProduct(torch.autograd.Function):
    """`nn.functional.linear` of x [B, in], weight [out, in] and bias [out], by NumPy's BLAS."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        product = x.detach().numpy() @ weight.detach().numpy().T
        return torch.from_numpy(product).add_(bias.detach())

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
        (x, weight), grad = ctx.saved_tensors, grads[0].numpy()
        of_x = torch.from_numpy(grad @ weight.detach().numpy()) if ctx.needs_input_grad[0] else None
        return of_x, torch.from_numpy(grad.T @ x.detach().numpy()), grads[0].sum(0)


class Linear(nn.Linear):
    """A linear layer that multiplies by NumPy where MKL was made slow.

    MKL gives the same bits on Intel's and AMD's processors only with MKL_CBWR=COMPATIBLE, which is
    several times slower than NumPy's OpenBLAS with fixed kernels.
    """

    def reset_parameters(self) -> None:
        """Leave the parameters as they are: nn.Linear would use torch's global generator."""

    def forward(self, x: Tensor) -> Tensor:
        """Return outputs [B, out] of inputs [B, in]."""
        # In evaluation mode this is torch's layer, which its exporters understand.
        if not (_is_slow(x) and x.ndim == 2) or not self.training:
            return super().forward(x)
        product: Tensor = NumpyProduct.apply(x, self.weight, self.bias)
        return product
