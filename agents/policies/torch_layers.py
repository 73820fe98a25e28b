"""Layers as torch modules, for the learner."""

import os
from typing import Any

import torch
from torch import Tensor, nn

ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU}


def _is_slow(x: Tensor) -> bool:
    """Whether torch would multiply by MKL in its slow mode: see Linear."""
    return os.environ.get("MKL_CBWR") == "COMPATIBLE" and x.is_cpu


def product(rows: Tensor, matrix: Tensor) -> Tensor:
    """Return rows [B, in] @ matrix [in, out] without gradients: see Linear."""
    if _is_slow(rows):
        return torch.from_numpy(rows.detach().numpy() @ matrix.detach().numpy())
    return rows @ matrix


class NumpyProduct(torch.autograd.Function):
    """`nn.functional.linear` of x [B, in], weight [out, in] and bias [out], by NumPy's BLAS."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        product = torch.from_numpy(x.detach().numpy() @ weight.detach().numpy().T)
        return product if bias is None else product.add_(bias.detach())

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor, Tensor | None]:
        (x, weight), grad = ctx.saved_tensors, grads[0].numpy()
        of_x = torch.from_numpy(grad @ weight.detach().numpy()) if ctx.needs_input_grad[0] else None
        of_bias = grads[0].sum(0) if ctx.needs_input_grad[2] else None
        return of_x, torch.from_numpy(grad.T @ x.detach().numpy()), of_bias


class Linear(nn.Linear):
    """A linear layer that multiplies by NumPy if MKL is in its slow mode.

    MKL gives equal bits on Intel's and AMD's processors only with MKL_CBWR=COMPATIBLE. This mode is
    several times slower than NumPy's OpenBLAS with fixed kernels.
    """

    def reset_parameters(self) -> None:
        """Do not draw parameters: nn.Linear would use torch's global generator."""

    def forward(self, x: Tensor) -> Tensor:
        return self._product(x, self.weight, self.bias)

    def of_parts(self, *parts: Tensor) -> Tensor:
        """Return outputs [B, N, out] from parts of inputs [B or 1, N or 1, in]. A part of size 1 is
        repeated B or N times."""
        weights = self.weight.split([part.shape[2] for part in parts], dim=1)
        outputs: Any = 0
        for part, weight in zip(parts, weights, strict=True):
            bias = self.bias if part is parts[0] else None
            product = self._product(part.flatten(0, 1), weight, bias)
            outputs = outputs + product.view(part.shape[0], part.shape[1], -1)
        return outputs

    def _product(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        # Evaluation mode uses torch's own layer, because torch's exporters need it.
        if not (_is_slow(x) and x.ndim == 2) or not self.training:
            return nn.functional.linear(x, weight, bias)
        product: Tensor = NumpyProduct.apply(x, weight, bias)
        return product


def draw_weights(
    layer: nn.Linear | nn.Conv2d, gain: float, generator: torch.Generator | None
) -> None:
    """Give a layer orthogonal weights and zero biases. Without a generator, do nothing, because
    weights are loaded next."""
    if generator is not None:
        nn.init.orthogonal_(layer.weight, gain, generator=generator)
        assert layer.bias is not None
        nn.init.zeros_(layer.bias)


def set_threads(number: int) -> None:
    """Set torch's number of threads for computations of the present Python thread."""
    # Without this call, the first computation would take the number that any thread set last.
    torch.get_num_threads()
    torch.set_num_threads(number)
