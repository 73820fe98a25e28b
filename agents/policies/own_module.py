"""The torch side of networks of the user's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from agents.policies.distributions import FloatArray
from agents.policies.network import NetworkError
from agents.policies.torch_memory import MemoryModule, Packed

if TYPE_CHECKING:
    from agents.policies.own_network import OwnNetwork


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
        with torch.random.fork_rng(devices=[]):
            if generator is not None:
                torch.manual_seed(int(torch.randint(2**62, (1,), generator=generator)))
            self.own = network.make(**network.given)
            if generator is not None:
                self._require_contract(network)

    def _require_contract(self, network: OwnNetwork) -> None:
        """Call the module for three rows, together and alone. Raises NetworkError."""
        if not isinstance(self.own, torch.nn.Module):
            raise NetworkError(f"{network.kind} is no class of torch.nn.Module")
        n_rows = 3
        rows = torch.randn(n_rows, network.n_inputs)
        before = torch.randn(n_rows, self.state_size)

        def called(which: slice) -> list[Tensor]:
            if not self.state_size:
                return [self(rows[which])]
            return [*self.step(rows[which], before[which])]

        try:
            with torch.no_grad():
                together = called(slice(None))
                alone = [called(slice(i, i + 1)) for i in range(n_rows)]
        except Exception as error:
            raise NetworkError(
                f"{network.kind} cannot be called: {type(error).__name__}: {error}"
            ) from error
        sizes = {"outputs": network.n_outputs, "next_states": self.state_size}
        for i, ((name, size), found) in enumerate(zip(sizes.items(), together, strict=False)):
            shape = tuple(getattr(found, "shape", ()))
            if shape != (n_rows, size):
                raise NetworkError(
                    f"{network.kind} gives {name} of shape {shape} for {n_rows} observations, "
                    f"not {(n_rows, size)}"
                )
            if not torch.allclose(torch.cat([one[i] for one in alone]), found, 1e-3, 1e-4):
                raise NetworkError(
                    f"{network.kind} gives an observation other {name} when it stands alone: a row "
                    "must not depend on the other rows, nor on chance"
                )

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
    return tuple(np.ascontiguousarray(one, np.float32) for one in both)  # type: ignore[return-value]
