"""The kinds of networks by their names. No torch."""

from __future__ import annotations

from workflow_rl.agents.policies.entities import Entities
from workflow_rl.agents.policies.mlp import MLP as MLP
from workflow_rl.agents.policies.network import ACTIVATIONS as ACTIVATIONS
from workflow_rl.agents.policies.network import Layers as Layers
from workflow_rl.agents.policies.network import Network as Network
from workflow_rl.agents.policies.network import Shape as Shape
from workflow_rl.agents.policies.network import relu as relu
from workflow_rl.agents.policies.recurrent import GRU, LSTM
from workflow_rl.agents.policies.stacked_frames import FrameStack

NETWORKS: dict[str, type[Network]] = {
    one.kind: one for one in (MLP, GRU, LSTM, FrameStack, Entities)
}
"""By their kinds."""


def register(network: type[Network]) -> None:
    """Make a kind of network known by its name."""
    NETWORKS[network.kind] = network
