"""Adam with torch's computation of a step."""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.optim.adam import adam


class FusedAdam:
    """An optimizer equal bit for bit to `torch.optim.Adam` with `fused=True`.

    See Kingma and Ba 2015, "Adam: A Method for Stochastic Optimization", algorithm 1.

    torch's own class would import torch's compiler, which takes longer than a short run and is not
    needed otherwise. The function that computes a step is torch's.

    state: by the number of each parameter that has had a gradient, the values of torch's class:
        `step`, the number of steps, float32; `exp_avg` and `exp_avg_sq`, the moments, with the
        parameter's shape.
    """

    def __init__(self, parameters: Iterable[Tensor], learning_rate: float, eps: float) -> None:
        self.parameters = list(parameters)
        self.learning_rate = learning_rate
        self.eps = eps
        self.state: dict[int, dict[str, Tensor]] = {}

    def zero_grad(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Change the parameters in place. A parameter without a gradient is not changed."""
        learned = {n: tensor for n, tensor in enumerate(self.parameters) if tensor.grad is not None}
        for number, parameter in learned.items():
            if number not in self.state:
                self.state[number] = _no_steps(parameter)
        states = [self.state[number] for number in learned]
        adam(
            list(learned.values()),
            [parameter.grad for parameter in learned.values() if parameter.grad is not None],
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [],
            [state["step"] for state in states],
            foreach=False,
            fused=True,
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=self.learning_rate,
            weight_decay=0.0,
            eps=self.eps,
            maximize=False,
        )

    def state_dict(self) -> dict[str, Any]:
        """Return the state. The next step changes its tensors."""
        return {"state": self.state}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a copy of a `state_dict()` of this class or of torch's class.

        Raises KeyError or ValueError if the state does not fit.
        """
        loaded = {}
        for number, saved in state["state"].items():
            if type(number) is not int or not 0 <= number < len(self.parameters):
                raise ValueError("its optimizer is of another network")
            loaded[number] = _no_steps(self.parameters[number])
            for name, tensor in loaded[number].items():
                if not isinstance(saved[name], Tensor) or saved[name].shape != tensor.shape:
                    raise ValueError("its optimizer is of another network")
                tensor.copy_(saved[name])
        self.state = loaded


def _no_steps(parameter: Tensor) -> dict[str, Tensor]:
    return {
        "step": torch.zeros((), device=parameter.device),
        "exp_avg": torch.zeros_like(parameter, requires_grad=False),
        "exp_avg_sq": torch.zeros_like(parameter, requires_grad=False),
    }
