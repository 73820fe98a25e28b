"""The kinds of networks by their names. No torch."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping

from workflow_rl.agents.policies.mlp import MLP as MLP
from workflow_rl.agents.policies.network import ACTIVATIONS as ACTIVATIONS
from workflow_rl.agents.policies.network import Layers as Layers
from workflow_rl.agents.policies.network import Network as Network
from workflow_rl.agents.policies.network import Shape as Shape
from workflow_rl.agents.policies.network import relu as relu


class _Networks(MutableMapping[str, type[Network]]):
    """Networks by their kinds. All but the first are imported when one of them is asked for."""

    def __init__(self) -> None:
        self._kinds: dict[str, type[Network] | None] = {
            MLP.kind: MLP,
            **dict.fromkeys(("gru", "lstm", "frame-stack", "entities")),
        }

    def __getitem__(self, kind: str) -> type[Network]:
        found = self._kinds[kind]
        if found is None:
            from workflow_rl.agents.policies.entities import Entities
            from workflow_rl.agents.policies.recurrent import GRU, LSTM
            from workflow_rl.agents.policies.stacked_frames import FrameStack

            self._kinds |= {network.kind: network for network in (GRU, LSTM, FrameStack, Entities)}
            return self[kind]
        return found

    def __contains__(self, kind: object) -> bool:
        return kind in self._kinds

    def __iter__(self) -> Iterator[str]:
        return iter(self._kinds)

    def __len__(self) -> int:
        return len(self._kinds)

    def __setitem__(self, kind: str, network: type[Network]) -> None:
        self._kinds[kind] = network

    def __delitem__(self, kind: str) -> None:
        del self._kinds[kind]


NETWORKS = _Networks()


def register(network: type[Network]) -> None:
    """Make a kind of network known by its name."""
    NETWORKS[network.kind] = network
