"""Networks that a user could have written."""

import threading
import time
from typing import Any, ClassVar

import torch
from torch import Tensor, nn


class Remembering(nn.Module):
    """Has a state, sees the mask, and takes an argument."""

    state_size = 6
    seen_again = 4

    def __init__(self, n_inputs: int, n_outputs: int, activation: str, slope: float = 1.0) -> None:
        super().__init__()
        assert activation in ("tanh", "relu")
        self.slope = slope
        self.cell = nn.GRUCell(n_inputs, 6)
        self.outputs = nn.Linear(6, n_outputs)

    def forward(self, obs: Tensor, state: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        state = self.cell(obs, state)
        outputs = self.outputs(self.slope * state)
        if mask is not None:
            assert mask.dtype == torch.bool
            outputs = outputs + 0.1 * mask.float().mean(dim=1, keepdim=True)
        return outputs, state


class Layer(nn.Linear):
    """Takes the two arguments that every network gets."""

    def __init__(self, n_inputs: int, n_outputs: int) -> None:
        super().__init__(n_inputs, n_outputs)


class OfFile(nn.Linear):
    """Takes the name of a file, which it could read."""

    def __init__(self, n_inputs: int, n_outputs: int, file: str = "none") -> None:
        super().__init__(n_inputs, n_outputs)


class Waiting(nn.Linear):
    """Draws its bias anew once others had time to draw theirs."""

    def __init__(self, n_inputs: int, n_outputs: int) -> None:
        super().__init__(n_inputs, n_outputs)
        time.sleep(0.01)
        nn.init.normal_(self.bias)


class Counting(nn.Linear):
    """Notes how many threads torch computes with, where another thread sets another number."""

    threads: ClassVar[set[int]] = set()

    def __init__(self, n_inputs: int, n_outputs: int) -> None:
        other = threading.Thread(target=torch.set_num_threads, args=[1])
        other.start()
        other.join()
        super().__init__(n_inputs, n_outputs)

    def forward(self, obs: Tensor) -> Tensor:
        self.threads.add(torch.get_num_threads())
        return super().forward(obs)


class Picture(nn.Module):
    """A small convolutional network on pictures of 8 x 8 points and three channels."""

    def __init__(self, n_inputs: int, n_outputs: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 6**2, 16)
        )
        self.outputs = nn.Linear(16, n_outputs)

    def forward(self, obs: Tensor) -> Any:
        pictures = obs.view(len(obs), 8, 8, 3).permute(0, 3, 1, 2)
        return self.outputs(torch.relu(self.layers(pictures)))


class WrongOutputs(nn.Linear):
    def __init__(self, n_inputs: int, n_outputs: int) -> None:
        super().__init__(n_inputs, n_outputs + 1)


def zeros(layer: nn.Linear) -> nn.Linear:
    """Return the layer with weights of zero, so that nothing shows what stands before it."""
    nn.init.zeros_(layer.weight)
    return layer


class Dropping(nn.Sequential):
    def __init__(self, n_inputs: int, n_outputs: int) -> None:
        super().__init__(nn.Dropout(0.5), zeros(nn.Linear(n_inputs, n_outputs)))


class InTraining(Layer):
    def forward(self, obs: Tensor) -> Tensor:
        return super().forward(obs) * (2 if self.training else 1)


class Hiding(nn.Linear):
    """Keeps numbers that are not in its state_dict."""

    def __init__(self, n_inputs: int, n_outputs: int) -> None:
        super().__init__(n_inputs, n_outputs)
        self.frequencies = torch.randn(n_inputs)

    def forward(self, obs: Tensor) -> Tensor:
        return super().forward(obs * self.frequencies)


class Reading(nn.Linear):
    """Reads numbers while it is made."""

    def __init__(self, n_inputs: int, n_outputs: int) -> None:
        super().__init__(n_inputs, n_outputs)
        self.rates = torch.linspace(0, 1, 4).tolist()


class Misled(Layer):
    """Cannot do with a mask."""

    def forward(self, obs: Tensor, mask: Tensor | None) -> Tensor:
        outputs = super().forward(obs)
        return outputs if mask is None else outputs + torch.cat([mask, mask], dim=1)


class Raising(nn.Module):
    def __init__(self, n_inputs: int, n_outputs: int) -> None:
        raise RuntimeError("no such weights")


class Propertied(Reading):
    @property
    def state_size(self) -> str:
        return "3"


class Following(nn.Module):
    """Has a state of two numbers for each input."""

    def __init__(self, n_inputs: int, n_outputs: int) -> None:
        super().__init__()
        self.cell = nn.GRUCell(n_inputs, 2 * n_inputs)
        self.outputs = nn.Linear(2 * n_inputs, n_outputs)

    @property
    def state_size(self) -> int:
        return self.cell.hidden_size

    def forward(self, obs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        state = self.cell(obs, state)
        return self.outputs(state), state


class Asked(Following):
    def state_size(self) -> int:  # type: ignore[override]
        return self.cell.hidden_size

    def seen_again(self) -> int:
        return self.cell.input_size


class Centring(nn.Linear):
    """A row depends on the other rows."""

    def __init__(self, n_inputs: int, n_outputs: int) -> None:
        super().__init__(n_inputs, n_outputs)
        zeros(self)

    def forward(self, obs: Tensor) -> Tensor:
        return super().forward(obs - obs.mean(dim=0))


class OneTensor(Centring):
    state_size = 3

    def forward(self, obs: Tensor, state: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(obs)


class Stateless(Centring):
    state_size = 3
