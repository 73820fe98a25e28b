"""The kinds of networks by their names. No torch."""

from __future__ import annotations

from collections import UserDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workflow_rl.agents.policies.network import Network


class _Networks(UserDict[str, "type[Network] | None"]):
    """Networks by their kinds, which are imported when one of them is asked for: the first, which
    most runs have alone, before the others."""

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
