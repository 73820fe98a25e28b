"""Networks with a memory as torch modules, for the learner. They compute whole sequences."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from workflow_rl.agents.policies.torch_layers import ACTIVATIONS, Linear, product

if TYPE_CHECKING:
    from workflow_rl.agents.policies.recurrent import RecurrentNetwork

LONGEST = 100
"""The number of steps that the slowest numbers of a new memory last."""


class Packed(NamedTuple):
    """Sequences in the order of time: the first rows of all sequences, then all second rows, etc.

    Longer sequences come first, so that the first sequences are those with a row at a given time.

    rows: float32 [R, D]. counts: how many sequences have a row at each time, in descending order.
    """

    rows: Tensor
    counts: tuple[int, ...]


class MemoryModule(nn.Module):
    """A network with a state of `state_size` numbers, which begins with zeros in a sequence."""

    state_size: int

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Return the outputs [B, n_outputs] and the next states [B, S] for x [B, D]."""
        raise NotImplementedError

    def forward(self, packed: Packed) -> Tensor:
        """Return the outputs [R, n_outputs] of sequences, each from a state of zeros."""
        rows, counts = packed
        state = rows.new_zeros(counts[0], self.state_size)
        outputs = []
        for x in rows.split(counts):
            output, state = self.step(x, state[: len(x)])
            outputs.append(output)
        return torch.cat(outputs)


class StackedFrames(MemoryModule):
    """An MLP on the last observations: see `recurrent.FrameStack`."""

    def __init__(self, mlp: nn.Module, state_size: int) -> None:
        super().__init__()
        self.mlp = mlp
        self.state_size = state_size

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        stacked = torch.cat([state, x], dim=1)
        return self.mlp(stacked), stacked[:, x.shape[1] :]

    def forward(self, packed: Packed | Tensor) -> Tensor:
        """See MemoryModule. All rows are computed in one pass. One frame needs no sequences."""
        if isinstance(packed, Tensor):
            alone: Tensor = self.mlp(packed)
            return alone
        rows, counts = packed
        state = rows.new_zeros(counts[0], self.state_size)
        stacks = []
        for x in rows.split(counts):
            stacks.append(torch.cat([state[: len(x)], x], dim=1))
            state = stacks[-1][:, x.shape[1] :]
        outputs: Tensor = self.mlp(torch.cat(stacks))
        return outputs


# The recurrences below have hand-written derivatives, because automatic differentiation of a loop
# over time takes several times as long.


def _slices(counts: Sequence[int]) -> list[slice]:
    ends = list(itertools.accumulate(counts))
    return [slice(end - n, end) for end, n in zip(ends, counts, strict=True)]


def _before(rows: Tensor, counts: Sequence[int]) -> Tensor:
    """Return the previous row of each row [R, H] of sequences, or zeros for first rows."""
    earlier = torch.zeros_like(rows)
    for now, then in zip(_slices(counts)[1:], _slices(counts), strict=False):
        n = now.stop - now.start
        earlier[now] = rows[then.start : then.start + n]
    return earlier


class _GRUCell(torch.autograd.Function):
    """The hidden layers [R, H] of packed sequences.

    inputs: [R, 3 H], the inputs' summands of the gates. weight, bias: [3 H, H] and [3 H], of the
    memory. counts: see Packed.
    """

    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor, counts: tuple[int, ...]
    ) -> Tensor:
        width = weight.shape[1]
        both = 2 * width
        hidden = inputs.new_zeros(counts[0], width)
        kept: list[tuple[Tensor, ...]] = []
        transposed = weight.T
        for x in inputs.split(counts):
            hidden = hidden[: len(x)]
            memory = product(hidden, transposed).add_(bias)
            gate = torch.sigmoid(x[:, :both] + memory[:, :both])
            candidate = memory[:, both:]
            new = torch.tanh(torch.addcmul(x[:, both:], gate[:, :width], candidate))
            hidden = torch.addcmul(new, gate[:, width:], hidden - new)
            kept.append((hidden, gate, new, candidate))
        saved = [torch.cat(parts) for parts in zip(*kept, strict=True)]
        ctx.counts = counts
        ctx.save_for_backward(weight, *saved)
        return saved[0]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        weight, hidden, gates, new, candidate = ctx.saved_tensors
        counts, width = ctx.counts, weight.shape[1]
        both = 2 * width
        earlier = _before(hidden, counts)
        reset, update = gates[:, :width], gates[:, width:]
        # The factors from gradients of the hidden layer to gradients of the gates' sums.
        slope = gates * (1 - gates)
        by_new = (1 - update) * (1 - new.square())
        by_reset = by_new * candidate * slope[:, :width]
        by_update = (earlier - new) * slope[:, width:]
        factors = torch.cat([by_reset, by_update, by_new * reset], dim=1)
        of_memory = torch.empty_like(factors)
        of_hidden = torch.empty_like(hidden)
        carried = hidden.new_zeros(0, width)
        for at in reversed(_slices(counts)):
            total = grads[0][at].clone()
            total[: len(carried)] += carried
            of_hidden[at] = total
            of_gates = factors[at] * total.repeat(1, 3)
            of_memory[at] = of_gates
            carried = torch.addcmul(product(of_gates, weight), total, update[at])
        of_inputs = torch.cat([of_memory[:, :both], of_hidden * by_new], dim=1)
        return of_inputs, product(of_memory.T, earlier), of_memory.sum(0), None


class _LSTMCell(torch.autograd.Function):
    """The hidden layers [R, H] of packed sequences, with 4 gates. See _GRUCell."""

    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor, counts: tuple[int, ...]
    ) -> Tensor:
        width = weight.shape[1]
        hidden = inputs.new_zeros(counts[0], width)
        cells = hidden
        kept: list[tuple[Tensor, ...]] = []
        transposed = weight.T
        for x in inputs.split(counts):
            total = product(hidden[: len(x)], transposed).add_(bias).add_(x)
            gate = torch.sigmoid(total[:, : 3 * width])
            new = torch.tanh(total[:, 3 * width :])
            cells = gate[:, width : 2 * width] * cells[: len(x)]
            cells = torch.addcmul(cells, gate[:, :width], new)
            hidden = gate[:, 2 * width :] * torch.tanh(cells)
            kept.append((hidden, cells, gate, new))
        saved = [torch.cat(parts) for parts in zip(*kept, strict=True)]
        ctx.counts = counts
        ctx.save_for_backward(weight, *saved)
        return saved[0]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        weight, hidden, cells, gates, new = ctx.saved_tensors
        counts, width = ctx.counts, weight.shape[1]
        kept, forgotten, shown = gates.split(width, dim=1)
        slope = gates * (1 - gates)
        bent = torch.tanh(cells)
        by_shown = bent * slope[:, 2 * width :]
        to_cells = shown * (1 - bent.square())
        by_cells = torch.cat(
            [
                new * slope[:, :width],
                _before(cells, counts) * slope[:, width : 2 * width],
            ],
            dim=1,
        )
        by_new = kept * (1 - new.square())
        of_total = hidden.new_empty(len(hidden), 4 * width)
        carried, carried_cells = hidden.new_zeros(0, width), hidden.new_zeros(0, width)
        for at in reversed(_slices(counts)):
            of_hidden = grads[0][at].clone()
            of_hidden[: len(carried)] += carried
            of_cells = of_hidden * to_cells[at]
            of_cells[: len(carried_cells)] += carried_cells
            of_total[at] = torch.cat(
                [
                    by_cells[at] * of_cells.repeat(1, 2),
                    of_hidden * by_shown[at],
                    of_cells * by_new[at],
                ],
                dim=1,
            )
            carried = product(of_total[at], weight)
            carried_cells = of_cells * forgotten[at]
        return of_total, product(of_total.T, _before(hidden, counts)), of_total.sum(0), None


class Recurrent(MemoryModule):
    """Hidden layers, the last with a memory: see `recurrent.RecurrentNetwork`."""

    cell: ClassVar[type[torch.autograd.Function]]

    def __init__(self, network: RecurrentNetwork) -> None:
        super().__init__()
        self.state_size, self.width, self.gates = network.memory_size, network.width, network.gates
        *of_encoder, inputs, memory, outputs = [
            Linear(n_in, n_out) for (n_in, n_out), _ in network.shapes()
        ]
        encoder: list[nn.Module] = []
        for layer in of_encoder:
            encoder += [layer, ACTIVATIONS[network.activation]()]
        self.encoder = nn.Sequential(*encoder)
        self.inputs, self.memory, self.outputs = inputs, memory, outputs

    def begin(self, output_gain: float, generator: torch.Generator) -> None:
        """Draw the initial weights: see `recurrent.RecurrentNetwork.module`."""
        for layer in self.modules():
            if isinstance(layer, Linear):
                nn.init.zeros_(layer.bias)
        for layer in self.encoder:
            if isinstance(layer, Linear):
                nn.init.orthogonal_(layer.weight, 2**0.5, generator=generator)
        for gate in range(self.gates):
            rows = slice(gate * self.width, (gate + 1) * self.width)
            for layer in (self.inputs, self.memory):
                with torch.no_grad():
                    nn.init.orthogonal_(layer.weight[rows], 1.0, generator=generator)
        nn.init.orthogonal_(self.outputs.weight, output_gain, generator=generator)
        lasts = torch.empty(self.width).uniform_(
            math.log(1.5), math.log(LONGEST), generator=generator
        )
        with torch.no_grad():
            self.remember(self.inputs.bias, (lasts.exp() - 1).log())

    def remember(self, bias: Tensor, logits: Tensor) -> None:
        """Set the biases [G * H] so that each number keeps sigmoid(logits) of itself in a step."""
        raise NotImplementedError

    def forward(self, packed: Packed) -> Tensor:
        inputs = self.inputs(self.encoder(packed.rows))
        hidden = self.cell.apply(inputs, self.memory.weight, self.memory.bias, packed.counts)
        outputs: Tensor = self.outputs(hidden)
        return outputs


class GRUModule(Recurrent):
    cell = _GRUCell

    def remember(self, bias: Tensor, logits: Tensor) -> None:
        bias[self.width : 2 * self.width] = logits

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        in_reset, in_update, in_new = self.inputs(self.encoder(x)).chunk(3, dim=1)
        reset, update, new = self.memory(state).chunk(3, dim=1)
        update = torch.sigmoid(in_update + update)
        new = torch.tanh(in_new + torch.sigmoid(in_reset + reset) * new)
        state = new + update * (state - new)
        return self.outputs(state), state


class LSTMModule(Recurrent):
    cell = _LSTMCell

    def remember(self, bias: Tensor, logits: Tensor) -> None:
        bias[: self.width] = -logits
        bias[self.width : 2 * self.width] = logits

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        hidden, cells = state.split(self.width, dim=1)
        total = self.inputs(self.encoder(x)) + self.memory(hidden)
        kept, forgotten, shown, new = total.chunk(4, dim=1)
        cells = torch.sigmoid(forgotten) * cells + torch.sigmoid(kept) * torch.tanh(new)
        hidden = torch.sigmoid(shown) * torch.tanh(cells)
        return self.outputs(hidden), torch.cat([hidden, cells], dim=1)
