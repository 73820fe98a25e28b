"""The networks on entities and on images as torch modules, for the learner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from workflow_rl.agents.policies.torch_layers import ACTIVATIONS, Linear, draw_weights

if TYPE_CHECKING:
    from workflow_rl.agents.policies.convolutional import CNN
    from workflow_rl.agents.policies.entities import Entities


class EntityModule(nn.Module):
    """See `entities.Entities` and `entities.Graph`.

    generator: see `torch_layers.draw_weights`. output_gain: the scale of the last weights.
    """

    features: Tensor
    whole: Tensor
    present: Tensor
    places: Tensor
    traits: Tensor
    neighbours: Tensor

    def __init__(
        self, network: Entities, output_gain: float, generator: torch.Generator | None
    ) -> None:
        super().__init__()
        layout = network.entities
        self.heads, self.n_entities = network.heads, layout.n_entities
        self.n_relations, self.moves = network.n_relations, len(layout.telling) > 0
        self.head_size = network.head_size
        for name in ("features", "whole", "present", "places", "traits", "neighbours"):
            table = torch.from_numpy(getattr(layout, name))
            if name in ("features", "neighbours"):
                table = table % (layout.n_inputs + 2)  # torch takes no negative indices here.
            self.register_buffer(name, table, persistent=False)  # The state has the layout.
        gains = {"attention": 1.0, "scores": output_gain, "plain": output_gain}
        if self.heads:
            gains |= {f"further.{2 * n}": 1.0 for n in range(network.rounds - 1)}
        made: dict[str, Linear] = {}
        for (name, _), ((n_in, n_out), _) in zip(network.names(), network.shapes(), strict=True):
            layer = made[name.removesuffix(".weight")] = Linear(n_in, n_out)
            draw_weights(layer, gains.get(name.removesuffix(".weight"), 2**0.5), generator)
        self.activate = ACTIVATIONS[network.activation]()
        encoder = [made[f"encoder.{2 * n}"] for n in range(len(network.hidden_sizes))]
        self.encoder = nn.Sequential(
            *(part for layer in encoder for part in (layer, self.activate))
        )
        self.attention, self.joined = made.get("attention"), made["joined"]
        self.further = nn.ModuleList(
            layer for name, layer in made.items() if name.startswith("further.")
        )
        self.scores, self.mean, self.plain = map(made.get, ("scores", "mean", "plain"))

    def forward(self, obs: Tensor) -> Tensor:
        *seen, present, along = self._seen(obs)
        hidden: list[Any] = list(self.encoder)[::2]
        x = self.activate(self._linear(hidden[0], present, *seen))
        for layer in hidden[1:]:
            x = self.activate(layer(x))
        first = [self.joined] if self.attention is None else [self.attention, self.joined]
        joining: Any = iter([*first, *self.further])
        for layer in joining:
            x = x.view(*present.shape, -1)
            if self.attention is None:
                around = [*self._told(x, along), self._pooled(x, present)]
            else:
                around = [self._attended(layer, x, present, along)]
                layer = next(joining)
            x = self.activate(self._linear(layer, present, x, *around))
        parts = []
        if self.scores is not None:
            scores = self.scores(x).view(*present.shape, -1)
            parts.append(scores.masked_fill(~present[:, :, None], -float("inf")).flatten(1))
        if self.plain is not None and self.mean is not None:
            pooled = self._pooled(x.view(*present.shape, -1), present)[:, 0]
            parts.append(self.plain(self.activate(self.mean(pooled))))
        return torch.cat(parts, dim=1)[:, self.places]

    def _seen(self, obs: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None]:
        """Return the inputs of the first layer: traits [1, N, C], features [B, N, F] and the whole
        [B, 1, G]. Also return which entities exist, bool [B, N], and the edges by which an entity
        hears of an existing entity, bool [B, R, N, N], or None without relations."""
        m, n = obs.shape[0], self.n_entities  # `len` would be a constant in exported networks.
        padded = torch.cat([obs, obs.new_ones(m, 1), obs.new_zeros(m, 1)], dim=1)
        features = padded.index_select(1, self.features.flatten())
        features = features.view(m, n, self.features.shape[1])
        present = (obs[:, self.present] if len(self.present) else obs.new_ones(m, n)) > 0
        along = None
        if self.n_relations:
            telling = padded if self.moves else padded[:1]
            edges = telling.index_select(1, self.neighbours.flatten()) > 0
            along = edges.view(-1, self.n_relations, n, n) & present[:, None, None, :]
        return self.traits[None], features, obs[:, None, self.whole], present, along

    def _linear(self, layer: Linear, present: Tensor, *parts: Tensor) -> Tensor:
        """Return a layer's outputs [B * N, out] from parts of its inputs: see `Linear.of_parts`."""
        if self.attention is None:
            return layer.of_parts(*parts).flatten(0, 1)
        rows = torch.cat([part.expand(*present.shape, -1) for part in parts], dim=2)
        return layer(rows.flatten(0, 1))

    def _pooled(self, x: Tensor, present: Tensor) -> Tensor:
        """Return the mean over existing entities, and without attention also the maximum, [B, 1, H
        or 2 H]."""
        share = present / present.sum(dim=1, keepdim=True).clamp(min=1)
        mean = (share[:, :, None] * x).sum(dim=1, keepdim=True)
        if self.attention is not None:
            return mean
        exists = present[:, :, None]
        most = x.masked_fill(~exists, torch.finfo(x.dtype).min).amax(dim=1, keepdim=True)
        most = most.masked_fill(~exists.any(dim=1, keepdim=True), 0)
        return torch.cat([mean, most], dim=2)

    def _told(self, x: Tensor, along: Tensor | None) -> tuple[Tensor, ...]:
        """Return for each relation the means over an entity's neighbours, [B, N, H]."""
        if along is None:
            return ()
        share = along / along.sum(dim=3, keepdim=True).clamp(min=1)
        return (share @ x[:, None]).unbind(1)

    def _attended(
        self, layer: nn.Module, x: Tensor, present: Tensor, along: Tensor | None
    ) -> Tensor:
        """Return the attention's results from neighbours and from all entities, [B, N, A]."""
        asked = layer(x.flatten(0, 1)).view(*present.shape, 3, -1, self.head_size)
        query, key, value = asked.permute(2, 0, 3, 1, 4)
        logits = query @ key.transpose(2, 3) / query.shape[3] ** 0.5
        silent = ~present[:, None, None, :]
        if along is not None:
            everybody = silent.expand(-1, 1, self.n_entities, -1)
            silent = torch.cat([~along, everybody], dim=1).repeat_interleave(self.heads, dim=1)
        weights = torch.softmax(logits.masked_fill(silent, torch.finfo(x.dtype).min), dim=3)
        if along is not None:  # An entity without neighbours gets zeros.
            weights = weights.masked_fill(silent, 0)
        return (weights @ value).transpose(1, 2).flatten(2)


class _Conv2d(nn.Conv2d):
    def reset_parameters(self) -> None:
        """Do not draw parameters: nn.Conv2d would use torch's global generator."""


class ConvolutionalModule(nn.Module):
    """See `convolutional.CNN`. Observations may be bytes.

    generator: see `torch_layers.draw_weights`. output_gain: the scale of the last weights.
    """

    numbers: Tensor

    def __init__(self, network: CNN, output_gain: float, generator: torch.Generator | None) -> None:
        super().__init__()
        self.layout = network.images
        # The agent's state has the layout.
        self.register_buffer("numbers", torch.from_numpy(self.layout.numbers), persistent=False)
        self.images = nn.ModuleList()
        for image in self.layout.images:
            layers: list[nn.Module] = []
            channels = image.channels
            for filters, size, stride in network.convolutions_of(image):
                convolution = _Conv2d(channels, filters, size, stride)
                draw_weights(convolution, 2**0.5, generator)
                layers += [convolution, nn.ReLU()]
                channels = filters
            self.images.append(nn.Sequential(*layers))
        self.mlp = network.mlp.module(output_gain, generator)

    def forward(self, obs: Tensor) -> Tensor:
        parts = []
        for image, convolutions in zip(self.layout.images, self.images, strict=True):
            pixels = obs[:, image.columns].reshape(obs.shape[0], *image.shape).float()
            # The permuted array keeps its channels last in memory, which has faster kernels.
            pixels = pixels if image.channels_first else pixels.permute(0, 3, 1, 2)
            parts.append(convolutions(pixels / image.divisor).flatten(1))
        if len(self.layout.numbers):
            parts.append(obs[:, self.numbers].float())
        outputs: Tensor = self.mlp(torch.cat(parts, dim=1))
        return outputs
