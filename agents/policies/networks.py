"""The kinds of networks by their names. No torch."""

from __future__ import annotations

from agents.policies.entities import Entities
from agents.policies.mlp import MLP as MLP
from agents.policies.network import ACTIVATIONS as ACTIVATIONS
from agents.policies.network import Layers as Layers
from agents.policies.network import Network as Network
from agents.policies.network import Shape as Shape
from agents.policies.network import relu as relu
from agents.policies.recurrent import GRU, LSTM
from agents.policies.stacked_frames import FrameStack

NETWORKS: dict[str, type[Network]] = {
    one.kind: one for one in (MLP, GRU, LSTM, FrameStack, Entities)
}
"""By their kinds."""


def register(network: type[Network]) -> None:
    """Make a kind of network known by its name."""
    NETWORKS[network.kind] = network
