"""Layers as torch modules, for the learner."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import Tensor, nn

ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU}


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
    """A linear layer that does not wait for an MKL that was told to be slow.

    MKL multiplies equally on Intel's and AMD's processors only with MKL_CBWR=COMPATIBLE, several
    times slower than OpenBLAS, NumPy's, does once it is told which kernels to take.
    """

    def reset_parameters(self) -> None:
        """Leaves them uninitialised: nn.Linear would draw from torch's global generator."""

    def forward(self, x: Tensor) -> Tensor:
        """[B, in] to [B, out]."""
        if os.environ.get("MKL_CBWR") != "COMPATIBLE" or not x.is_cpu or x.ndim != 2:
            return super().forward(x)
        product: Tensor = NumpyProduct.apply(x, self.weight, self.bias)
        return product
