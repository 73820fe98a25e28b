"""The torch side of networks of the user's own."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from workflow_rl.agents.policies.distributions import FloatArray
from workflow_rl.agents.policies.torch_memory import MemoryModule, Packed
from workflow_rl.agents.user_modules import in_one_line
from workflow_rl.errors import UserError

if TYPE_CHECKING:
    from workflow_rl.agents.policies.own_network import OwnNetwork

_global_generator = threading.RLock()  # A user's module draws its weights from torch's only one.


class OwnModule(MemoryModule):
    """A user's module, called as its signature asks: with states and masks, or without.

    generator: seeds torch's random numbers while the user's module is made; None leaves the initial
    weights to chance, for weights that are loaded next.
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
    """Return what a module's property or method of this name returns. Raises UserError."""
    with _global_generator, torch.random.fork_rng(devices=[]):
        module = _made(network)
    try:
        told = getattr(module, name)
        return told() if callable(told) else told
    except Exception as error:
        raise UserError(f"{network.kind}.{name}: {in_one_line(error)}") from error


def acted(module: OwnModule, obs: FloatArray, state: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the outputs [N, n_outputs] and the next states [N, S], on one thread, row by row."""
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
    """Call a new module as the learner and as workers do. Raises UserError.

    n_options: the size of the masks of actions; 0 if the module gets none. The weights, of which
    some may begin as zeros, are others meanwhile.
    """
    if not isinstance(module.own, torch.nn.Module):
        raise UserError(f"{network.kind} is no class of torch.nn.Module")
    kept = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    random = torch.Generator().manual_seed(0)
    with _global_generator, torch.random.fork_rng(devices=[]), torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=random), alpha=0.1)
        copy = network.module(1.0, None)  # As a worker makes it.
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
    """Call the module for three rows, together and alone, in training and in acting, and call its
    copy."""
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
