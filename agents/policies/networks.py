"""The kinds of networks by their names. Imports no torch."""

from __future__ import annotations

from collections import UserDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workflow_rl.agents.policies.network import Network


class _Networks(UserDict[str, "type[Network] | None"]):
    """Networks by their kinds. A lookup imports the MLP first, because most runs need no other
    kind. If the name is another kind, the lookup imports all kinds."""

    def __getitem__(self, kind: str) -> type[Network]:
        if self.data[kind] is None:
            from workflow_rl.agents.policies.network import MLP

            self.data[MLP.kind] = MLP
        if self.data[kind] is None:
            from workflow_rl.agents.policies.convolutional import CNN
            from workflow_rl.agents.policies.entities import Entities, Graph
            from workflow_rl.agents.policies.recurrent import GRU, LSTM, FrameStack

            others = (GRU, LSTM, FrameStack, CNN, Entities, Graph)
            self.data |= {network.kind: network for network in others}
        network = self.data[kind]
        assert network is not None
        return network


NETWORKS = _Networks(
    dict.fromkeys(("mlp", "gru", "lstm", "frame-stack", "cnn", "entities", "graph"))
)
