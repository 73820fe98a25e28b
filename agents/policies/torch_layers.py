"""Layers and the convolutional network as torch modules, for the learner."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from workflow_rl.agents.policies.convolutional import CNN


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
    """A linear layer that multiplies by NumPy where MKL was made slow.

    MKL gives the same bits on Intel's and AMD's processors only with MKL_CBWR=COMPATIBLE, which is
    several times slower than NumPy's OpenBLAS with fixed kernels.
    """

    def reset_parameters(self) -> None:
        """Leave the parameters as they are: nn.Linear would use torch's global generator."""

    def forward(self, x: Tensor) -> Tensor:
        """Return outputs [B, out] of inputs [B, in]."""
        return self._product(x, self.weight, self.bias)

    def of_parts(self, *parts: Tensor) -> Tensor:
        """Return outputs [B, N, out] of inputs [B, N, in], whose parts [B or 1, N or 1, in] are the
        same in all rows or columns that they lack."""
        weights = self.weight.split([part.shape[2] for part in parts], dim=1)
        outputs: Any = 0
        for part, weight in zip(parts, weights, strict=True):
            bias = self.bias if part is parts[0] else None
            product = self._product(part.flatten(0, 1), weight, bias)
            outputs = outputs + product.view(part.shape[0], part.shape[1], -1)
        return outputs

    def _product(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        # In evaluation mode this is torch's layer, which its exporters understand.
        if not (_is_slow(x) and x.ndim == 2) or not self.training:
            return nn.functional.linear(x, weight, bias)
        product: Tensor = NumpyProduct.apply(x, weight, bias)
        return product


class _Conv2d(nn.Conv2d):
    def reset_parameters(self) -> None:
        """Leave the parameters as they are: nn.Conv2d would use torch's global generator."""


class ConvolutionalModule(nn.Module):
    """See `convolutional.CNN`. Observations may be bytes.

    generator: draws orthogonal weights, with zero biases, as those of an MLP; None leaves them
    uninitialised. output_gain: the scale of the last weights.
    """

    numbers: Tensor

    def __init__(self, network: CNN, output_gain: float, generator: torch.Generator | None) -> None:
        super().__init__()
        self.layout = network.images
        # The layout is kept elsewhere.
        self.register_buffer("numbers", torch.from_numpy(self.layout.numbers), persistent=False)
        self.images = nn.ModuleList()
        for image in self.layout.images:
            layers: list[nn.Module] = []
            channels = image.channels
            for filters, size, stride in network.convolutions_of(image):
                convolution = _Conv2d(channels, filters, size, stride)
                if generator is not None:
                    nn.init.orthogonal_(convolution.weight, 2**0.5, generator=generator)
                    assert convolution.bias is not None
                    nn.init.zeros_(convolution.bias)
                layers += [convolution, nn.ReLU()]
                channels = filters
            self.images.append(nn.Sequential(*layers))
        self.mlp = network.mlp.module(output_gain, generator)

    def forward(self, obs: Tensor) -> Tensor:
        """Return the outputs [B, n_outputs] of observations [B, n_inputs]."""
        parts = []
        for image, convolutions in zip(self.layout.images, self.images, strict=True):
            pixels = obs[:, image.columns].reshape(obs.shape[0], *image.shape).float()
            # Channels that are last stay so in memory, for which there are faster kernels.
            pixels = pixels if image.channels_first else pixels.permute(0, 3, 1, 2)
            parts.append(convolutions(pixels / image.divisor).flatten(1))
        if len(self.layout.numbers):
            parts.append(obs[:, self.numbers].float())
        outputs: Tensor = self.mlp(torch.cat(parts, dim=1))
        return outputs


def set_threads(number: int) -> None:
    """Have this thread compute with so many threads, whatever other threads of Python set."""
    # A thread that has not looked yet would take, at its first sum, what any thread set last.
    torch.get_num_threads()
    torch.set_num_threads(number)
