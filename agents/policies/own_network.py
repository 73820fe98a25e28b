"""Networks of the user's own: a class of torch modules. Workers act with such modules too.

This module imports torch. Only runs with the user's own network import this module.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from workflow_rl.agents.policies.distributions import FloatArray
from workflow_rl.agents.policies.network import Layers, MemoryNetwork, Shape
from workflow_rl.agents.policies.networks import NETWORKS
from workflow_rl.agents.policies.torch_memory import MemoryModule, Packed
from workflow_rl.agents.user_modules import attribute_named, in_one_line
from workflow_rl.errors import UserError

SEEN_AGAIN = 64


@dataclass(frozen=True)
class OwnNetwork(MemoryNetwork):
    """A network from the user's class of torch modules: see docs/how-to/own-network.md.

    Its weights are all arrays of the module's `state_dict()`, in order. The first array has the
    sizes. The module acts on one thread, and on one row at a time, so that a row's outputs are
    equal bit for bit in any batch.

    make: the module's class. args: arguments of the class besides the sizes.
    """

    args: Mapping[str, Any] = field(default_factory=dict)
    make: ClassVar[Callable[..., torch.nn.Module]]
    needs = "torch"
    shares_trunk = False

    def __post_init__(self) -> None:
        try:
            inspect.signature(self.make).bind(**self.given)
        except TypeError as error:
            hint = ". It must take n_inputs and n_outputs" if "n_" in str(error) else ""
            raise ValueError(f"{self.kind} cannot be made: {error}{hint}") from None

    @classmethod
    def fields_of(cls, args: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"args": dict(args)}

    @classmethod
    def of_layers(cls, layers: Layers, activation: str, **args: Any) -> Self:
        n_inputs, n_outputs, *hidden = (int(size) for size in layers.weights[0])
        return cls(n_inputs, tuple(hidden), n_outputs, activation, args)

    @property
    def given(self) -> dict[str, Any]:
        """The arguments for the class. The hidden sizes and the activation are passed only if the
        class takes them."""
        taken = inspect.signature(self.make).parameters
        optional = {"hidden_sizes": self.hidden_sizes, "activation": self.activation}
        sizes = {name: value for name, value in optional.items() if name in taken}
        return {"n_inputs": self.n_inputs, "n_outputs": self.n_outputs, **sizes, **self.args}

    @functools.cached_property
    def memory_size(self) -> int:
        return self._number("state_size", 0)

    @functools.cached_property
    def burn_in(self) -> int:
        return self._number("seen_again", SEEN_AGAIN) if self.memory_size else 0

    def _number(self, name: str, default: int) -> int:
        number = getattr(self.make, name, default)
        if type(number) is not int:
            number = told_by_module(self, name)
        if type(number) is not int or number < 0:
            raise UserError(
                f"{self.make.__qualname__}.{name} is no whole number: write `{name} = 64` in the "
                "class, for example, or a property that returns one"
            )
        return number

    @property
    def sees_mask(self) -> bool:
        forward = getattr(self.make, "forward", None)
        return forward is not None and "mask" in inspect.signature(forward).parameters

    def shapes(self) -> list[tuple[Shape, Shape]]:
        """See Network. The user's arrays are not pairs of weight and bias: see `fits`."""
        raise NotImplementedError

    def names(self) -> list[tuple[str, str]]:
        """See Network. The user's arrays are not pairs of weight and bias: see `knows`."""
        raise NotImplementedError

    def knows(self, names: Collection[str]) -> bool:
        return next(iter(names), None) == "sizes"

    def fits(self, layers: Layers) -> bool:
        """See Network. Makes a module on the device "meta", without data, if the class allows."""
        try:
            with torch.device("meta"):
                state = self.module(1.0, None).state_dict()
        except UserError:  # The constructor may read data.
            state = self.module(1.0, None).state_dict()
        return [tuple(array.shape) for array in state.values()] == [
            array.shape for array in layers.weights
        ]

    def layers(self, state: Mapping[str, torch.Tensor]) -> Layers:
        return Layers(tuple(tensor.detach().cpu().numpy().copy() for tensor in state.values()), ())

    def state(self, layers: Layers) -> dict[str, Any]:
        names = self.module(1.0, None).state_dict()
        return dict(zip(names, (array.copy() for array in layers.weights), strict=True))

    def module(self, output_gain: float, generator: torch.Generator | None) -> OwnModule:
        """See Network. The class draws its own initial weights from torch's random numbers."""
        return OwnModule(self, generator)

    def try_out(self, module: Any, n_options: int) -> None:
        require_contract(self, module, n_options)

    def step(
        self, layers: Layers, obs: FloatArray, state: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        return acted(self._acting(layers), obs, state)

    def _acting(self, layers: Layers) -> OwnModule:
        """Return the module with these arrays. A module is made once for the arrays of a policy."""
        arrays, module = vars(self).get("_made", (None, None))
        if arrays is not layers.weights:
            module = self.module(1.0, None).eval().requires_grad_(False)
            state = {name: torch.from_numpy(array) for name, array in self.state(layers).items()}
            module.load_state_dict(state)
            vars(self)["_made"] = (layers.weights, module)
        assert module is not None
        return module

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_made"}


def kind_of(make: Callable[..., Any], name: str | None = None) -> str:
    """Register a user's class of torch modules as a kind of network. Return its name.

    name: "module:Name", by default the name from the class definition.
    """
    name = name or f"{make.__module__}:{make.__qualname__}"
    known = NETWORKS.get(name)
    if known is None or getattr(known, "make", None) is not make:
        attributes = {"kind": name, "make": staticmethod(make)}
        NETWORKS[name] = type("OwnNetwork", (OwnNetwork,), attributes)
    return name


def load_network(name: str) -> str:
    """Return the name of a kind of network. For "module:Name", the class is imported.

    Call this only for names that the user has typed, never for names from a file. Raises
    ValueError.
    """
    if ":" in name:
        make = attribute_named(name)
        if not isinstance(make, type):
            raise ValueError(f"{name} is no class of torch modules")
        return kind_of(make, name)
    if name not in NETWORKS:
        raise ValueError(f"{name!r} is not one of {', '.join(NETWORKS)}, nor module:Name")
    return name


_global_generator = threading.RLock()  # Modules draw weights from torch's global generator.


class OwnModule(MemoryModule):
    """A user's module. It is called with states and masks if its signature has them.

    generator: seeds torch's random numbers while the user's module is made. None is for weights
    that are loaded next.
    """

    def __init__(self, network: OwnNetwork, generator: torch.Generator | None) -> None:
        super().__init__()
        self.n_inputs = network.n_inputs
        self.state_size = network.memory_size
        self.sees_mask = network.sees_mask
        sizes = [network.n_inputs, network.n_outputs, *network.hidden_sizes]
        self.register_buffer("sizes", torch.tensor(sizes, dtype=torch.float32))
        with _global_generator, torch.random.fork_rng(devices=[]):
            if generator is not None:
                torch.manual_seed(int(torch.randint(2**62, (1,), generator=generator)))
            self.own = _made(network)

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """See MemoryModule. x: [B, D], or [B, D + A] with masks."""
        outputs, state = self.own(x[:, : self.n_inputs], state=state, **self._mask(x))
        return outputs, state

    def _mask(self, x: Tensor) -> dict[str, Any]:
        if not self.sees_mask:
            return {}
        has_mask = x.shape[1] > self.n_inputs
        return {"mask": x[:, self.n_inputs :] > 0 if has_mask else None}

    def forward(self, x: Tensor | Packed) -> Tensor:
        """Return the outputs of rows, or of sequences if the module has a state."""
        if isinstance(x, Packed):
            return super().forward(x)
        outputs: Tensor = self.own(x[:, : self.n_inputs], **self._mask(x))
        return outputs


def _made(network: OwnNetwork) -> Any:
    try:
        return network.make(**network.given)
    except Exception as error:
        args = ", ".join(f"{name}={value!r}" for name, value in network.args.items())
        made = f"made with {args}" if args else "made"
        raise UserError(f"{network.kind} cannot be {made}: {in_one_line(error)}") from error


def told_by_module(network: OwnNetwork, name: str) -> Any:
    """Return the value of a module's property or method. Raises UserError."""
    with _global_generator, torch.random.fork_rng(devices=[]):
        module = _made(network)
    try:
        told = getattr(module, name)
        return told() if callable(told) else told
    except Exception as error:
        raise UserError(f"{network.kind}.{name}: {in_one_line(error)}") from error


def acted(module: OwnModule, obs: FloatArray, state: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the outputs [N, n_outputs] and the next states [N, S], computed row by row on one
    thread."""
    n_threads = torch.get_num_threads()
    if n_threads != 1:
        torch.set_num_threads(1)
    outputs, states = [], []
    with torch.inference_mode():
        for row, before in zip(torch.from_numpy(obs), torch.from_numpy(state), strict=True):
            if module.state_size:
                output, after = module.step(row[None], before[None])
            else:
                output, after = module(row[None]), before[None]
            outputs.append(output)
            states.append(after)
        both = torch.cat(outputs).numpy(), torch.cat(states).numpy()
    if n_threads != 1:
        torch.set_num_threads(n_threads)
    return tuple(np.ascontiguousarray(array, np.float32) for array in both)  # type: ignore[return-value]


def require_contract(network: OwnNetwork, module: OwnModule, n_options: int) -> None:
    """Test calls of a new module as in the learner and in workers. Raises UserError.

    n_options: the size of the masks of actions, 0 without masks. The test changes the weights,
    because initial zeros could hide faults. Afterwards the weights are restored.
    """
    if not isinstance(module.own, torch.nn.Module):
        raise UserError(f"{network.kind} is no class of torch.nn.Module")
    kept = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    random = torch.Generator().manual_seed(0)
    with _global_generator, torch.random.fork_rng(devices=[]), torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=random), alpha=0.1)
        copy = network.module(1.0, None)  # A worker makes its module like this.
        copy.load_state_dict(module.state_dict())
        for size in {0, n_options if network.sees_mask else 0}:
            _try(network, module, copy, size, random)
    module.load_state_dict(kept)
    try:
        fits = network.fits(network.layers(kept))
    except Exception as error:
        raise UserError(f"{network.kind} cannot be saved: {in_one_line(error)}") from error
    if not fits:
        raise UserError(f"{network.kind} has other weights each time that it is made")


def _try(
    network: OwnNetwork,
    module: OwnModule,
    copy: OwnModule,
    n_options: int,
    random: torch.Generator,
) -> None:
    """Call the module for three rows, in one batch and alone, in both modes. Also call its copy."""
    n_rows = 3
    rows = torch.randn(n_rows, network.n_inputs, generator=random)
    mask = (torch.rand(n_rows, n_options, generator=random) < 0.5).float()
    mask[:, :1] = 1
    rows = torch.cat([rows, mask], dim=1)
    before = torch.randn(n_rows, module.state_size, generator=random)

    def called(which: slice, module: OwnModule = module) -> list[Tensor]:
        if not module.state_size:
            return [module(rows[which])]
        return [*module.step(rows[which], before[which])]

    try:
        together = called(slice(None))
        alone = [called(slice(i, i + 1)) for i in range(n_rows)]
        module.eval()
        acting = called(slice(None))
        module.train()
        copied = called(slice(None), copy)
    except Exception as error:
        with_mask, hint = " with a mask" if n_options else "", ""
        if not module.state_size and "missing 1 required positional argument" in str(error):
            hint = ". A class whose modules have a state declares its size: `state_size = 64`"
        if module.state_size and "to unpack" in str(error):
            hint = ". With a state, forward must return outputs and next_states"
        raise UserError(
            f"{network.kind} cannot be called{with_mask}: {in_one_line(error)}{hint}"
        ) from error
    sizes = {"outputs": network.n_outputs, "next_states": module.state_size}
    for i, ((name, size), found) in enumerate(zip(sizes.items(), together, strict=False)):
        shape = tuple(getattr(found, "shape", ()))
        if shape != (n_rows, size):
            raise UserError(
                f"{network.kind} gives {name} of shape {shape} for {n_rows} observations, "
                f"not {(n_rows, size)}"
            )
        for again, fault in (
            (
                torch.cat([row[i] for row in alone]),
                f"an observation other {name} when it stands alone: a row must not depend on the "
                "other rows, nor on chance",
            ),
            (
                copied[i],
                f"other {name} when it is made again with the same weights: keep all its numbers "
                "in parameters or in buffers (`register_buffer`)",
            ),
            (
                acting[i],
                f"other {name} in training than in acting (`eval()`): leave out what differs, such "
                "as dropout and batch normalisation",
            ),
        ):
            if not torch.allclose(again, found, 1e-3, 1e-4):
                raise UserError(f"{network.kind} gives {fault}")
