"""A network on a set of entities, such as hosts: the same weights for any number. No torch."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.distributions import FloatArray
from workflow_rl.agents.policies.entity_layout import EntityLayout, layout_of
from workflow_rl.agents.policies.network import ACTIVATIONS, Layers, Network, Shape, hidden_layers

if TYPE_CHECKING:
    import torch

    from workflow_rl.agents.policies.torch_entities import EntityModule

LEAST = np.finfo(np.float32).min
"""What stands for minus infinity where all entities of a set may be absent."""


@dataclass(frozen=True)
class Entities(Network):
    """Hidden layers that see one entity and the whole, of which the last has `H` numbers; attention
    of each entity to all (Vaswani et al. 2017, equation 1, with `heads` heads); a layer that joins
    both. A linear layer scores the verbs on each entity. The mean over the entities goes through
    one more hidden layer to the outputs that belong to no entity: actions, or the value.

    The layers are the hidden ones, the attention's queries, keys and values [H, 3 H], the joining
    layer [2 H, H], the scores [H, V] if there are verbs, and, if there are other outputs, the
    hidden layer of the mean [H, H] and the outputs.

    layout: an `EntityLayout` as plain values, of the environment. None until it is known.
    """

    heads: int = 4
    layout: Mapping[str, Any] | None = None
    kind = "entities"
    needs_entities = True
    shares_trunk = False

    def __post_init__(self) -> None:
        if not self.hidden_sizes:
            raise ValueError(f"{self.kind} needs at least one hidden layer")
        if type(self.heads) is not int or self.heads < 1 or self.width % self.heads:
            raise ValueError(
                f"heads={self.heads!r:.50} does not divide the last hidden layer, {self.width}"
            )

    @classmethod
    def of_layers(cls, layers: Layers, activation: str, **args: Any) -> Self:
        entities = layout_of(args["layout"])
        n_after = 2 + (entities.n_verbs > 0) + 2 * (entities.n_plain > 0)
        hidden = tuple(len(bias) for bias in layers.biases[:-n_after])
        return cls(entities.n_inputs, hidden, entities.n_outputs, activation, **args)

    @classmethod
    def critics_args(cls, args: Mapping[str, Any], n_further: int) -> Mapping[str, Any]:
        layout = args["layout"]
        of_critic = {"n_inputs": layout["n_inputs"] + n_further, "actions": []}
        return {**args, "layout": {**layout, **of_critic}}

    @functools.cached_property
    def entities(self) -> EntityLayout:
        """The layout, checked."""
        return layout_of(self.layout)

    @property
    def width(self) -> int:
        """`H`."""
        return self.hidden_sizes[-1]

    @property
    def alike(self) -> NDArray[np.int64]:
        return self.entities.alike

    def shapes(self) -> list[tuple[Shape, Shape]]:
        entities, width = self.entities, self.width
        columns = entities.traits.shape[1] + entities.features.shape[1] + len(entities.whole)
        pairs = [
            *itertools.pairwise([columns, *self.hidden_sizes]),
            (width, 3 * width),
            (2 * width, width),
        ]
        if entities.n_verbs:
            pairs.append((width, entities.n_verbs))
        if entities.n_plain:
            pairs += [(width, width), (width, entities.n_plain)]
        return [((n_in, n_out), (n_out,)) for n_in, n_out in pairs]

    def names(self) -> list[tuple[str, str]]:
        places = [f"encoder.{2 * n}" for n in range(len(self.hidden_sizes))]
        places += ["attention", "joined"]
        if self.entities.n_verbs:
            places.append("scores")
        if self.entities.n_plain:
            places += ["mean", "plain"]
        return [(f"{place}.weight", f"{place}.bias") for place in places]

    def forward(self, layers: Layers, obs: FloatArray) -> FloatArray:
        entities, n_hidden = self.entities, len(self.hidden_sizes)
        activate = ACTIVATIONS[self.activation]
        pairs = zip(layers.weights[n_hidden:], layers.biases[n_hidden:], strict=True)

        def linear(x: FloatArray) -> FloatArray:
            weight, bias = next(pairs)
            outputs: FloatArray = x @ weight + bias
            return outputs

        # As for an MLP, each observation is a product of matrices of its own.
        seen, present = self.seen(obs)
        x = hidden_layers(
            layers.weights[:n_hidden], layers.biases[:n_hidden], self.activation, seen
        )
        x = activate(linear(np.concatenate([x, self._attended(linear(x), present)], axis=2)))
        parts = []
        if entities.n_verbs:
            scores = np.where(present[:, :, None], linear(x), np.float32(-np.inf))
            parts.append(scores.reshape(len(obs), -1))
        if entities.n_plain:
            share = present / np.maximum(present.sum(axis=1, keepdims=True), 1)
            mean = share.astype(np.float32)[:, None, :] @ x
            parts.append(linear(activate(linear(mean)))[:, 0])
        return np.concatenate(parts, axis=1)[:, entities.places]

    def seen(self, obs: FloatArray) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Return what the first layer sees of observations, [M, N, in], and which entities exist,
        [M, N]."""
        entities, m, n = self.entities, len(obs), self.entities.n_entities
        padded = np.concatenate([obs, np.zeros((m, 1), np.float32)], axis=1)
        whole = np.broadcast_to(obs[:, None, entities.whole], (m, n, len(entities.whole)))
        traits = np.broadcast_to(entities.traits, (m, *entities.traits.shape))
        present = np.ones((m, n), np.bool_)
        if len(entities.present):
            present = obs[:, entities.present] > 0
        return np.concatenate([traits, padded[:, entities.features], whole], axis=2), present

    def _attended(self, asked: FloatArray, present: NDArray[np.bool_]) -> FloatArray:
        """Return what each entity gets from all, [M, N, H], for queries, keys and values."""
        m, n = present.shape
        size = self.width // self.heads
        shaped = asked.reshape(m, n, 3, self.heads, size).transpose(2, 0, 3, 1, 4)
        query, key, value = np.ascontiguousarray(shaped)
        logits = query @ key.transpose(0, 1, 3, 2) / np.float32(size**0.5)
        logits = np.where(present[:, None, None, :], logits, LEAST)
        weights = np.exp(logits - logits.max(axis=3, keepdims=True))
        weights /= weights.sum(axis=3, keepdims=True)
        attended: FloatArray = weights @ value
        return attended.transpose(0, 2, 1, 3).reshape(m, n, self.width)

    def module(self, output_gain: float, generator: torch.Generator | None) -> EntityModule:
        from workflow_rl.agents.policies.torch_entities import EntityModule

        return EntityModule(self, output_gain, generator)
