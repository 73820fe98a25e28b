"""A network on any number of entities, such as hosts, with shared weights. Imports no torch."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.distributions import FloatArray
from workflow_rl.agents.policies.entity_layout import EntityLayout, layout_of
from workflow_rl.agents.policies.network import ACTIVATIONS, Layers, Network, Shape

if TYPE_CHECKING:
    import torch

    from workflow_rl.agents.policies.torch_entities import EntityModule
    from workflow_rl.agents.spaces import Spaces

LEAST = np.finfo(np.float32).min
"""A replacement of minus infinity that gives no NaN if all entities of a set are absent."""
MOST_ROUNDS = 16


@dataclass(frozen=True)
class Entities(Network):
    """Hidden layers see one entity and the whole; the last layer has `H` numbers. Each entity then
    attends to all entities (Vaswani et al. 2017, equation 1, with `heads` heads), and a layer joins
    both results. A linear layer scores the verbs on each entity. The mean over entities goes
    through a hidden layer to the outputs of no entity, which are actions or the value.

    The layers are the hidden layers, the attention's queries, keys and values [H, 3 H], the joining
    layer [2 H, H], the scores [H, V] if there are verbs, and, if there are other outputs, the
    hidden layer of the mean [H, H] and the outputs.

    Without heads there is no attention: each entity gets the mean and the maximum over the entities
    (Zaheer et al. 2017, "Deep Sets"). The outputs of no entity get them too. The joining layer is
    then [3 H, H], and the hidden layer before the outputs of no entity is [2 H, H].

    needs_edges: whether the layout must have edges.

    rounds: how often the entities exchange information. Each round has its own layers. layout: the
    environment's `EntityLayout` as plain values, or None until the environment is known.
    """

    heads: int = 4
    layout: Mapping[str, Any] | None = None
    rounds: int = 1
    kind = "entities"
    needs_edges: ClassVar[bool] = False
    declared = "entities"
    shares_trunk = False

    def __post_init__(self) -> None:
        if not self.hidden_sizes:
            raise ValueError(f"{self.kind} needs at least one hidden layer")
        if type(self.heads) is not int or self.heads < 0 or self.width % (self.heads or 1):
            raise ValueError(
                f"heads={self.heads!r:.50} does not divide the last hidden layer, {self.width}, "
                "and is not 0"
            )
        if type(self.rounds) is not int or not 1 <= self.rounds <= MOST_ROUNDS:
            raise ValueError(f"rounds={self.rounds!r:.50} is not from 1 to {MOST_ROUNDS}")

    @classmethod
    def of_layers(cls, layers: Layers, activation: str, **args: Any) -> Self:
        entities = layout_of(args["layout"])
        attends = args.get("heads", cls.heads) != 0
        n_rounds = args.get("rounds", cls.rounds)
        n_after = n_rounds * (1 + attends) + (entities.n_verbs > 0) + 2 * (entities.n_plain > 0)
        hidden = tuple(len(bias) for bias in layers.biases[:-n_after])
        return cls(entities.n_inputs, hidden, entities.n_outputs, activation, **args)

    @classmethod
    def critics_args(cls, args: Mapping[str, Any], n_further: int) -> Mapping[str, Any]:
        layout = args["layout"]
        of_critic = {"n_inputs": layout["n_inputs"] + n_further, "actions": []}
        return {**args, "layout": {**layout, **of_critic}}

    @classmethod
    def lacking(cls, spaces: Spaces) -> str | None:
        of_team = spaces.team.entities if spaces.team else ()
        declared = [bool(tables.get("edges")) for tables in of_team]
        if spaces.entities is not None:
            declared.append(bool(spaces.entities.edges))
        if not declared:
            return (
                f"{cls.kind} needs an environment that declares its entities: this environment has "
                "no attribute `entities`"
            )
        if cls.needs_edges and not all(declared):
            return (
                f"{cls.kind} needs entities with edges: the attribute `entities` of this "
                "environment has no table `edges`; entities can be trained"
            )
        return None

    @classmethod
    def known_of(cls, layout: EntityLayout) -> EntityLayout:
        return layout if cls.needs_edges else layout.without_fixed_edges()

    layout_of = staticmethod(layout_of)

    @functools.cached_property
    def entities(self) -> EntityLayout:
        return layout_of(self.layout)

    @property
    def width(self) -> int:
        """The number `H` of the class docstring."""
        return self.hidden_sizes[-1]

    @property
    def n_relations(self) -> int:
        """`R`, the number of relations that the network uses."""
        return len(self.entities.edges) if self.needs_edges else 0

    @property
    def head_size(self) -> int:
        """The size of a query, a key or a value of one head, or 0 without heads."""
        n_heads = self.heads * (1 + self.n_relations)
        return max(self.width // n_heads, 1) if n_heads else 0

    @property
    def alike(self) -> NDArray[np.int64]:
        return self.entities.alike

    def shapes(self) -> list[tuple[Shape, Shape]]:
        entities, width = self.entities, self.width
        columns = entities.traits.shape[1] + entities.features.shape[1] + len(entities.whole)
        attended = self.heads * (1 + self.n_relations) * self.head_size
        joining = [(width, 3 * attended), (width + attended, width)]
        if not self.heads:
            joining = [((3 + self.n_relations) * width, width)]
        pairs = [*itertools.pairwise([columns, *self.hidden_sizes]), *self.rounds * joining]
        if entities.n_verbs:
            pairs.append((width, entities.n_verbs))
        if entities.n_plain:
            pairs += [(width if self.heads else 2 * width, width), (width, entities.n_plain)]
        return [((n_in, n_out), (n_out,)) for n_in, n_out in pairs]

    def names(self) -> list[tuple[str, str]]:
        places = [f"encoder.{2 * n}" for n in range(len(self.hidden_sizes))]
        joining = ["attention", "joined"] if self.heads else ["joined"]
        n_further = (self.rounds - 1) * len(joining)
        places += [*joining, *(f"further.{n}" for n in range(n_further))]
        if self.entities.n_verbs:
            places.append("scores")
        if self.entities.n_plain:
            places += ["mean", "plain"]
        return [(f"{place}.weight", f"{place}.bias") for place in places]

    def forward(self, layers: Layers, obs: FloatArray) -> FloatArray:
        entities, activate = self.entities, ACTIVATIONS[self.activation]
        (*seen, present, along), pairs = self._seen(obs), zip(*layers, strict=True)

        # As for an MLP, each observation has its own product of matrices.
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
        for _ in range(self.rounds):
            if self.heads:
                around = [self._attended(linear(x), present, along)]
            else:
                around = [*self._told(x, along), self._pooled(x, present)]
            x = activate(linear(x, *around))
        parts = []
        if entities.n_verbs:
            scores = np.where(present[:, :, None], linear(x), np.float32(-np.inf))
            parts.append(scores.reshape(len(obs), -1))
        if entities.n_plain:
            parts.append(linear(activate(linear(self._pooled(x, present))))[:, 0])
        return np.concatenate(parts, axis=1)[:, entities.places]

    def _seen(
        self, obs: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, NDArray[np.bool_], NDArray[np.bool_]]:
        """Return the inputs of the first layer from observations: traits [N, C], features [M, N, F]
        and the whole [M, 1, G]. Also return which entities exist, [M, N], and the edges [M, R, N,
        N] by which an entity hears of an existing entity."""
        entities, m = self.entities, len(obs)
        padded = np.concatenate([obs, np.ones((m, 1), obs.dtype), np.zeros((m, 1), obs.dtype)], 1)
        present = np.ones((m, entities.n_entities), np.bool_)
        if len(entities.present):
            present = obs.take(entities.present, axis=1) > 0
        features = padded.take(entities.features, axis=1)
        # `obs[:, index]` would have another order in memory. For several rows, NumPy would multiply
        # such an array by another routine, which rounds differently.
        whole = obs.take(entities.whole, axis=1)[:, None]
        along = np.zeros((m, 0, 1, 1), np.bool_)
        if self.n_relations:
            telling = padded if len(entities.telling) else padded[:1]
            along = telling.take(entities.neighbours, axis=1) > 0
            along = along & present[:, None, None, :]
        return entities.traits, features, whole, present, along

    def _pooled(self, x: FloatArray, present: NDArray[np.bool_]) -> FloatArray:
        """Return the mean over existing entities, and without heads also the maximum, [M, 1, H or
        2 H]. Both are 0 if no entity exists."""
        share = present / np.maximum(present.sum(axis=1, keepdims=True), 1)
        mean: FloatArray = share.astype(np.float32)[:, None, :] @ x
        if self.heads:
            return mean
        most = np.where(present[:, :, None], x, LEAST).max(axis=1, keepdims=True)
        most[~present.any(axis=1)] = 0
        return np.concatenate([mean, most], axis=2)

    @staticmethod
    def _told(x: FloatArray, along: NDArray[np.bool_]) -> list[FloatArray]:
        """Return R arrays [M, N, H], one for each relation: for each entity, the mean over entities
        that it hears of."""
        share = along / np.maximum(along.sum(axis=3, keepdims=True), 1)
        return [share[:, r].astype(np.float32) @ x for r in range(share.shape[1])]

    def _attended(
        self, asked: FloatArray, present: NDArray[np.bool_], along: NDArray[np.bool_]
    ) -> FloatArray:
        """Return the attention's results [M, N, A] from queries, keys and values: from neighbours
        by each relation, and from all entities."""
        m, n = present.shape
        size = self.head_size
        shaped = asked.reshape(m, n, 3, -1, size).transpose(2, 0, 3, 1, 4)
        query, key, value = np.ascontiguousarray(shaped)
        logits = query @ key.transpose(0, 1, 3, 2) / np.float32(size**0.5)
        heard = present[:, None, None, :]
        if along.shape[1]:
            everybody = np.broadcast_to(heard, (m, 1, n, n))
            heard = np.concatenate([along, everybody], axis=1).repeat(self.heads, axis=1)
        logits = np.where(heard, logits, LEAST)
        weights = np.exp(logits - logits.max(axis=3, keepdims=True)) * heard
        weights /= np.maximum(weights.sum(axis=3, keepdims=True), 1)
        attended: FloatArray = weights @ value
        return attended.transpose(0, 2, 1, 3).reshape(m, n, -1)

    def module(self, output_gain: float, generator: torch.Generator | None) -> EntityModule:
        from workflow_rl.agents.policies.torch_entities import EntityModule

        return EntityModule(self, output_gain, generator)


@dataclass(frozen=True)
class Graph(Entities):
    """Entities with edges. For each of the R relations of the layout's edges, there are `heads`
    more heads. With these heads, an entity attends only to entities that it hears of by the
    relation (masks as in Velickovic et al. 2018, relations as in Schlichtkrull et al. 2018). An
    entity without neighbours gets zeros.

    The heads share the `H` numbers of the attention. Without heads, each entity also gets the mean
    over its neighbours by each relation. The joining layer is then [(3 + R) H, H].
    """

    heads: int = 1
    kind = "graph"
    needs_edges = True
