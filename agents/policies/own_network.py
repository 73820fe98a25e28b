"""Networks of the user's own: a class of torch modules, with which workers act too.

This module imports no torch. A worker imports torch when it acts with such a network.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

from workflow_rl.agents.policies.distributions import FloatArray
from workflow_rl.agents.policies.network import Layers, MemoryNetwork, Shape
from workflow_rl.agents.policies.networks import NETWORKS
from workflow_rl.agents.user_modules import attribute_named
from workflow_rl.errors import UserError

if TYPE_CHECKING:
    import torch

    from workflow_rl.agents.policies.own_network import OwnModule

SEEN_AGAIN = 64


@dataclass(frozen=True)
class OwnNetwork(MemoryNetwork):
    """A network that is a torch module of the user's: see docs/how-to/own-network.md.

    Its arrays are those of the module's `state_dict()`, in order, all of them as weights. The first
    one holds the sizes. The module acts on one thread, one row at a time: so a row has the same
    bits in any company.

    make: the class of the module. args: of the class, besides the sizes.
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
        """The arguments that the class is called with: of the sizes and the activation those that
        it takes."""
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
        """Return a number that the class or its module declares. Raises UserError."""
        number = getattr(self.make, name, default)
        if type(number) is not int:
            from workflow_rl.agents.policies.own_network import told_by_module

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
        """See Network. A user's arrays are no pairs: see `fits`."""
        raise NotImplementedError

    def names(self) -> list[tuple[str, str]]:
        """See Network. A user's arrays are no pairs: see `knows`."""
        raise NotImplementedError

    def knows(self, names: Collection[str]) -> bool:
        return next(iter(names), None) == "sizes"

    def fits(self, layers: Layers) -> bool:
        """See Network. Makes a module without memory for its numbers, if the class allows it."""
        import torch

        try:
            with torch.device("meta"):
                state = self.module(1.0, None).state_dict()
        except UserError:  # A constructor may read numbers.
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
        """See Network. The class draws its own initial weights, from torch's random numbers."""
        from workflow_rl.agents.policies.own_network import OwnModule

        return OwnModule(self, generator)

    def try_out(self, module: Any, n_options: int) -> None:
        from workflow_rl.agents.policies.own_network import require_contract

        require_contract(self, module, n_options)

    def step(
        self, layers: Layers, obs: FloatArray, state: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        from workflow_rl.agents.policies.own_network import acted

        return acted(self._acting(layers), obs, state)

    def _acting(self, layers: Layers) -> OwnModule:
        """Return the module with these arrays, which is made once for one policy's arrays."""
        import torch

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
    """Make a user's class of torch modules known as a kind of network. Return its name.

    name: "module:Name", by default where the class was defined.
    """
    name = name or f"{make.__module__}:{make.__qualname__}"
    known = NETWORKS.get(name)
    if known is None or getattr(known, "make", None) is not make:
        attributes = {"kind": name, "make": staticmethod(make)}
        NETWORKS[name] = type("OwnNetwork", (OwnNetwork,), attributes)
    return name


def load_network(name: str) -> str:
    """Return the name of a kind of network; import the class that "module:Name" names.

    Call this for names that the user has typed, never for those from a file. Raises ValueError.
    """
    if ":" in name:
        make = attribute_named(name)
        if not isinstance(make, type):
            raise ValueError(f"{name} is no class of torch modules")
        return kind_of(make, name)
    if name not in NETWORKS:
        raise ValueError(f"{name!r} is not one of {', '.join(NETWORKS)}, nor module:Name")
    return name
