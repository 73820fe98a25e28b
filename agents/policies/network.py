"""The description of a network, which workers, the learner and files share, and the kind MLP, a
multilayer perceptron. Imports no torch."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.distributions import FloatArray

if TYPE_CHECKING:
    import torch

    from workflow_rl.agents.spaces import Spaces

Shape: TypeAlias = tuple[int, ...]

MOST = 1_000_000
"""The most numbers in an observation, and the most actions, of a policy in a file."""
OBS_LIMIT = np.float32(10)


def relu(x: FloatArray) -> FloatArray:
    return np.maximum(x, np.float32(0))


ACTIVATIONS: dict[str, Callable[[FloatArray], FloatArray]] = {"tanh": np.tanh, "relu": relu}


class Layers(NamedTuple):
    """The arrays of a network, float32: a weight and a bias of each layer, first to last."""

    weights: tuple[FloatArray, ...]
    biases: tuple[FloatArray, ...]

    def with_outputs(self, chosen: slice) -> Layers:
        """Return the layers with only some outputs of the last layer."""
        *weights, weight = self.weights
        *biases, bias = self.biases
        last = np.ascontiguousarray(weight[:, chosen]), bias[chosen].copy()
        return Layers((*weights, last[0]), (*biases, last[1]))


@dataclass(frozen=True)
class Network(ABC):
    """The sizes and the activation of a network from observations to outputs. Each kind of network
    is a subclass.

    kind: the name in files and in `--network`. needs: pip's name of the package that acting needs
    besides NumPy.
    declared: a field of `agents.spaces.Spaces` that the environment must declare, such as
    "entities". The kind then has an argument `layout`. shares_trunk: whether the last layer has all
    outputs, so that an actor and a critic can share the other layers. takes_bytes: whether the
    torch module also takes observations of uint8. A kind's further fields are `--network-arg`s.
    """

    n_inputs: int
    hidden_sizes: tuple[int, ...]
    n_outputs: int
    activation: str
    kind: ClassVar[str]
    needs: ClassVar[str | None] = None
    declared: ClassVar[str] = ""
    shares_trunk: ClassVar[bool] = True
    takes_bytes: ClassVar[bool] = False

    @classmethod
    def of_sizes(
        cls,
        n_inputs: int,
        hidden_sizes: tuple[int, ...],
        n_outputs: int,
        activation: str,
        args: Mapping[str, Any] = {},
    ) -> Self:
        """Return the description of a network of these sizes. Raise ValueError for unknown
        arguments.

        args: further fields of the kind.
        """
        return cls(n_inputs, hidden_sizes, n_outputs, activation, **cls.fields_of(args))

    @classmethod
    def fields_of(cls, args: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the further fields from `--network-arg`s. Raises ValueError."""
        known = {field.name for field in fields(cls)} - {field.name for field in fields(Network)}
        for name in args:
            if name not in known:
                has = f"it has {', '.join(sorted(known))}" if known else "it has none"
                raise ValueError(f"{name!r} is no argument of {cls.kind}: {has}")
        return args

    @classmethod
    @abstractmethod
    def of_layers(cls, layers: Layers, activation: str, **args: Any) -> Self:
        """Return the description of a network with these arrays. The arrays may be inconsistent.

        args: further fields of the kind.
        """

    @classmethod
    def critics_args(cls, args: Mapping[str, Any], n_further: int) -> Mapping[str, Any]:
        """Return the further fields of the critic for an actor with these fields.

        n_further: the number of values that only the critic sees.
        """
        return args

    @classmethod
    def lacking(cls, spaces: Spaces) -> str | None:
        """Return a sentence about a missing declaration of an environment, or None."""
        return None

    @classmethod
    def known_of(cls, layout: Any) -> Any:
        """Return the part of an environment's layout that the network uses."""
        return layout

    @classmethod
    def layout_of(cls, values: Any) -> Any:
        """Return the layout from a result of its `to_plain`. Raises ValueError."""
        raise NotImplementedError

    @abstractmethod
    def shapes(self) -> list[tuple[Shape, Shape]]:
        """Return the shapes of each layer's weight and bias, as in Layers."""

    @abstractmethod
    def names(self) -> list[tuple[str, str]]:
        """Return the torch module's names of each layer's weight and bias. The module's weights are
        transposed."""

    @abstractmethod
    def forward(self, layers: Layers, obs: FloatArray) -> FloatArray:
        """Return the outputs [N, n_outputs] for observations [N, n_inputs].

        The outputs of an observation must be equal bit for bit with any N.
        """

    @property
    def memory_size(self) -> int:
        """`S`, the size of the state that the network keeps between steps of an episode."""
        return 0

    @property
    def burn_in(self) -> int:
        """The number of observations before an unroll from which the state is recomputed."""
        return 0

    @property
    def alike(self) -> NDArray[np.int64] | None:
        """A number for each input. Inputs with equal numbers share statistics for normalising, and
        inputs with -1 are not normalised. None if each input has its own statistics."""
        return None

    @property
    def limit(self) -> NDArray[np.float32] | np.float32:
        """The bound of normalised inputs on both sides: one number, or a number for each input."""
        return OBS_LIMIT

    @property
    def sees_mask(self) -> bool:
        """Whether the network also sees the masks of observations: see `distributions`."""
        return False

    def step(
        self, layers: Layers, obs: FloatArray, state: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the outputs [N, n_outputs], and the states [N, S] after these observations.

        state: [N, S], the states before these observations, zeros at an episode's beginning. A row
        of results must be equal bit for bit with any N.
        """
        return self.forward(layers, obs), state

    @abstractmethod
    def module(self, output_gain: float, generator: torch.Generator | None) -> torch.nn.Module:
        """Return a torch module [B, n_inputs] -> [B, n_outputs]. Imports torch.

        The module of a network with a memory is a `torch_memory.MemoryModule`.

        output_gain: scale of the last layer's initial weights. generator: draws the initial
        weights. None is for weights that are loaded next.
        """

    def try_out(self, module: Any, n_options: int) -> None:  # noqa: B027  # Few need it.
        """Raise UserError if a new module of the user's own class breaks its contract.

        n_options: the size of the masks of actions, 0 without masks.
        """

    def knows(self, names: Collection[str]) -> bool:
        """Whether these are the names in the `state_dict()` of this network's torch module."""
        return {name for layer in self.names() for name in layer} == set(names)

    def fits(self, layers: Layers) -> bool:
        shapes = [(w.shape, b.shape) for w, b in zip(*layers, strict=True)]
        return shapes == self.shapes()

    def layers(self, state: Mapping[str, torch.Tensor]) -> Layers:
        """Return a copy of a torch module's `state_dict()`. Raises KeyError."""

        def copied(name: str) -> FloatArray:
            return state[name].detach().cpu().numpy().T.copy(order="C")

        weights, biases = zip(*self.names(), strict=True)
        return Layers(tuple(map(copied, weights)), tuple(map(copied, biases)))

    def state(self, layers: Layers) -> dict[str, FloatArray]:
        """Return the `state_dict()` from layers, as arrays."""
        names = itertools.chain.from_iterable(self.names())
        arrays = itertools.chain.from_iterable(zip(*layers, strict=True))
        return {name: array.T.copy() for name, array in zip(names, arrays, strict=True)}


class MemoryNetwork(Network):
    """A network that may keep a state. It defines `memory_size` and `step`. `forward` is `step` at
    an episode's beginning."""

    def forward(self, layers: Layers, obs: FloatArray) -> FloatArray:
        return self.step(layers, obs, np.zeros((len(obs), self.memory_size), np.float32))[0]


def hidden_layers(
    weights: tuple[FloatArray, ...], biases: tuple[FloatArray, ...], activation: str, x: FloatArray
) -> FloatArray:
    """Return the outputs [N, 1, out] of hidden layers for x [N, 1, in].

    Each row has its own vector-matrix product. In [N, in] @ [in, out], the order of BLAS's sums
    depends on N, so a run's results would depend on the number of envs in a pass.
    """
    activate = ACTIVATIONS[activation]
    for weight, bias in zip(weights, biases, strict=True):
        x = activate(x @ weight + bias)
    return x


class MLP(Network):
    """A multilayer perceptron: weights [in, out] and biases [out]."""

    kind = "mlp"

    @classmethod
    def of_layers(cls, layers: Layers, activation: str, **args: Any) -> Self:
        *hidden, n_outputs = (len(bias) for bias in layers.biases)
        return cls(len(layers.weights[0]), tuple(hidden), n_outputs, activation, **args)

    @property
    def sizes(self) -> list[int]:
        """The sizes of the inputs, the hidden layers and the outputs."""
        return [self.n_inputs, *self.hidden_sizes, self.n_outputs]

    def shapes(self) -> list[tuple[Shape, Shape]]:
        return [((n_in, n_out), (n_out,)) for n_in, n_out in itertools.pairwise(self.sizes)]

    def names(self) -> list[tuple[str, str]]:
        places = (2 * n for n in range(len(self.hidden_sizes) + 1))  # Activations are between.
        return [(f"{place}.weight", f"{place}.bias") for place in places]

    def forward(self, layers: Layers, obs: FloatArray) -> FloatArray:
        weights, biases = layers
        hidden = hidden_layers(weights[:-1], biases[:-1], self.activation, obs[:, None, :])
        outputs: FloatArray = (hidden @ weights[-1] + biases[-1])[:, 0, :]
        return outputs

    def module(self, output_gain: float, generator: torch.Generator | None) -> torch.nn.Sequential:
        """See Network.

        Weights are orthogonal (gain sqrt(2), or `output_gain` for the last layer), and biases are
        zero. Andrychowicz et al. 2021, section 3.2, found this initialisation best for PPO.
        """
        from torch import nn

        from workflow_rl.agents.policies.torch_layers import ACTIVATIONS, Linear, draw_weights

        modules: list[nn.Module] = []
        for n_in, n_out in itertools.pairwise(self.sizes):
            is_last = len(modules) // 2 == len(self.hidden_sizes)
            linear = Linear(n_in, n_out)
            draw_weights(linear, output_gain if is_last else 2**0.5, generator)
            modules += [linear] if is_last else [linear, ACTIVATIONS[self.activation]()]
        return nn.Sequential(*modules)
