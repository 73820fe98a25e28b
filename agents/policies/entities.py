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
from workflow_rl.agents.policies.network import ACTIVATIONS, Layers, Network, Shape

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

    Without heads there is no attention: each entity gets the mean and the maximum over the entities
    (Zaheer et al. 2017, "Deep Sets"), and so do the outputs that belong to no entity. The joining
    layer is then [3 H, H], and the hidden layer before these outputs [2 H, H].

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
        if type(self.heads) is not int or self.heads < 0 or self.width % (self.heads or 1):
            raise ValueError(
                f"heads={self.heads!r:.50} does not divide the last hidden layer, {self.width}, "
                "and is not 0"
            )

    @classmethod
    def of_layers(cls, layers: Layers, activation: str, **args: Any) -> Self:
        entities = layout_of(args["layout"])
        attends = args.get("heads", cls.heads) != 0
        n_after = 1 + attends + (entities.n_verbs > 0) + 2 * (entities.n_plain > 0)
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
            *([(width, 3 * width), (2 * width, width)] if self.heads else [(3 * width, width)]),
        ]
        if entities.n_verbs:
            pairs.append((width, entities.n_verbs))
        if entities.n_plain:
            pairs += [(width if self.heads else 2 * width, width), (width, entities.n_plain)]
        return [((n_in, n_out), (n_out,)) for n_in, n_out in pairs]

    def names(self) -> list[tuple[str, str]]:
        places = [f"encoder.{2 * n}" for n in range(len(self.hidden_sizes))]
        places += ["attention", "joined"] if self.heads else ["joined"]
        if self.entities.n_verbs:
            places.append("scores")
        if self.entities.n_plain:
            places += ["mean", "plain"]
        return [(f"{place}.weight", f"{place}.bias") for place in places]

    def forward(self, layers: Layers, obs: FloatArray) -> FloatArray:
        entities, activate = self.entities, ACTIVATIONS[self.activation]
        (*seen, present), pairs = self._seen(obs), zip(*layers, strict=True)

        # As for an MLP, each observation is a product of matrices of its own.
        def linear(*parts: FloatArray) -> FloatArray:
            weight, product = next(pairs)
            if self.heads and len(parts) > 1:
                whole = [np.broadcast_to(x, (*present.shape, x.shape[-1])) for x in parts]
                return np.concatenate(whole, axis=2) @ weight + product
            first = 0
            for x in parts:
                product = product + x @ weight[first : first + x.shape[-1]]
                first += x.shape[-1]
            return product

        x = activate(linear(*seen))
        for _ in self.hidden_sizes[1:]:
            x = activate(linear(x))
        around = self._attended(linear(x), present) if self.heads else self._pooled(x, present)
        x = activate(linear(x, around))
        parts = []
        if entities.n_verbs:
            scores = np.where(present[:, :, None], linear(x), np.float32(-np.inf))
            parts.append(scores.reshape(len(obs), -1))
        if entities.n_plain:
            parts.append(linear(activate(linear(self._pooled(x, present))))[:, 0])
        return np.concatenate(parts, axis=1)[:, entities.places]

    def _seen(
        self, obs: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, NDArray[np.bool_]]:
        """Return what the first layer sees of observations: traits [N, C], features [M, N, F] and
        the whole [M, 1, G]; and which entities exist, [M, N]."""
        entities, m = self.entities, len(obs)
        padded = np.concatenate([obs, np.zeros((m, 1), np.float32)], axis=1)
        present = np.ones((m, entities.n_entities), np.bool_)
        if len(entities.present):
            present = obs.take(entities.present, axis=1) > 0
        features = padded.take(entities.features, axis=1)
        # A selection by index has another order in memory, which NumPy multiplies by another
        # routine if there is more than one row. This routine rounds otherwise.
        whole = obs.take(entities.whole, axis=1)[:, None]
        return entities.traits, features, whole, present

    def _pooled(self, x: FloatArray, present: NDArray[np.bool_]) -> FloatArray:
        """Return the mean over the entities that exist, and without heads the maximum after it,
        [M, 1, H or 2 H]. Both are 0 if none exists."""
        share = present / np.maximum(present.sum(axis=1, keepdims=True), 1)
        mean: FloatArray = share.astype(np.float32)[:, None, :] @ x
        if self.heads:
            return mean
        most = np.where(present[:, :, None], x, LEAST).max(axis=1, keepdims=True)
        most[~present.any(axis=1)] = 0
        return np.concatenate([mean, most], axis=2)

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
