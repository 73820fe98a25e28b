"""A network on a set of entities as a torch module, for the learner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from workflow_rl.agents.policies.torch_layers import ACTIVATIONS, Linear

if TYPE_CHECKING:
    from workflow_rl.agents.policies.entities import Entities


class EntityModule(nn.Module):
    """See `entities.Entities`.

    generator: draws orthogonal weights, with zero biases, as those of an MLP; None leaves them
    uninitialised. output_gain: the scale of the last weights.
    """

    features: Tensor
    whole: Tensor
    present: Tensor
    places: Tensor
    traits: Tensor

    def __init__(
        self, network: Entities, output_gain: float, generator: torch.Generator | None
    ) -> None:
        super().__init__()
        layout = network.entities
        self.heads, self.n_entities = network.heads, layout.n_entities
        for name in ("features", "whole", "present", "places", "traits"):
            table = torch.from_numpy(getattr(layout, name))
            self.register_buffer(name, table, persistent=False)  # The layout is kept elsewhere.
        gains = {"attention": 1.0, "scores": output_gain, "plain": output_gain}
        made: dict[str, Linear] = {}
        for (name, _), ((n_in, n_out), _) in zip(network.names(), network.shapes(), strict=True):
            layer = made[name.removesuffix(".weight")] = Linear(n_in, n_out)
            if generator is not None:
                gain = gains.get(name.removesuffix(".weight"), 2**0.5)
                nn.init.orthogonal_(layer.weight, gain, generator=generator)
                nn.init.zeros_(layer.bias)
        self.activate = ACTIVATIONS[network.activation]()
        encoder = [made[f"encoder.{2 * n}"] for n in range(len(network.hidden_sizes))]
        self.encoder = nn.Sequential(
            *(part for layer in encoder for part in (layer, self.activate))
        )
        self.attention, self.joined = made.get("attention"), made["joined"]
        self.scores, self.mean, self.plain = map(made.get, ("scores", "mean", "plain"))

    def forward(self, obs: Tensor) -> Tensor:
        """Return the outputs [B, n_outputs] of observations [B, n_inputs]."""
        *seen, present = self._seen(obs)
        hidden: list[Any] = list(self.encoder)[::2]
        x = self.activate(self._linear(hidden[0], present, *seen))
        for layer in hidden[1:]:
            x = self.activate(layer(x))
        x = x.view(*present.shape, -1)
        around = self._pooled(x, present) if self.attention is None else self._attended(x, present)
        x = self.activate(self._linear(self.joined, present, x, around))
        parts = []
        if self.scores is not None:
            scores = self.scores(x).view(*present.shape, -1)
            parts.append(scores.masked_fill(~present[:, :, None], -float("inf")).flatten(1))
        if self.plain is not None and self.mean is not None:
            pooled = self._pooled(x.view(*present.shape, -1), present)[:, 0]
            parts.append(self.plain(self.activate(self.mean(pooled))))
        return torch.cat(parts, dim=1)[:, self.places]

    def _seen(self, obs: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return what the first layer sees: traits [1, N, C], features [B, N, F] and the whole
        [B, 1, G]; and which entities exist, bool [B, N]."""
        m, n = obs.shape[0], self.n_entities  # `len` would be a constant in exported networks.
        padded = torch.cat([obs, obs.new_zeros(m, 1)], dim=1)
        features = padded.index_select(1, self.features.flatten())
        features = features.view(m, n, self.features.shape[1])
        present = obs[:, self.present] if len(self.present) else obs.new_ones(m, n)
        return self.traits[None], features, obs[:, None, self.whole], present > 0

    def _linear(self, layer: Linear, present: Tensor, *parts: Tensor) -> Tensor:
        """Return a layer's outputs [B * N, out] of parts of its inputs: see `Linear.of_parts`."""
        if self.attention is None:
            return layer.of_parts(*parts).flatten(0, 1)
        rows = torch.cat([part.expand(*present.shape, -1) for part in parts], dim=2)
        return layer(rows.flatten(0, 1))

    def _pooled(self, x: Tensor, present: Tensor) -> Tensor:
        """Return the mean over the entities that exist, and without attention the maximum after it,
        [B, 1, H or 2 H]."""
        share = present / present.sum(dim=1, keepdim=True).clamp(min=1)
        mean = (share[:, :, None] * x).sum(dim=1, keepdim=True)
        if self.attention is not None:
            return mean
        exists = present[:, :, None]
        most = x.masked_fill(~exists, torch.finfo(x.dtype).min).amax(dim=1, keepdim=True)
        most = most.masked_fill(~exists.any(dim=1, keepdim=True), 0)
        return torch.cat([mean, most], dim=2)

    def _attended(self, x: Tensor, present: Tensor) -> Tensor:
        """Return what each entity gets from all, [B, N, H]."""
        assert self.attention is not None
        asked = self.attention(x.flatten(0, 1)).view(*present.shape, 3, self.heads, -1)
        query, key, value = asked.permute(2, 0, 3, 1, 4)
        logits = query @ key.transpose(2, 3) / query.shape[3] ** 0.5
        absent = ~present[:, None, None, :]
        weights = torch.softmax(logits.masked_fill(absent, torch.finfo(x.dtype).min), dim=3)
        return (weights @ value).transpose(1, 2).flatten(2)
