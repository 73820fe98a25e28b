"""The kinds of networks by their names. No torch."""

from __future__ import annotations

from collections import UserDict

from workflow_rl.agents.policies.network import MLP, Network


class _Networks(UserDict[str, type[Network] | None]):
    """Networks by their kinds. All but MLP, which most runs have alone, are imported when one of
    them is asked for."""

    def __getitem__(self, kind: str) -> type[Network]:
        if self.data[kind] is None:
            from workflow_rl.agents.policies.convolutional import CNN
            from workflow_rl.agents.policies.entities import Entities, Graph
            from workflow_rl.agents.policies.recurrent import GRU, LSTM, FrameStack

            others = (GRU, LSTM, FrameStack, CNN, Entities, Graph)
            self.data |= {network.kind: network for network in others}
        network = self.data[kind]
        assert network is not None
        return network


NETWORKS = _Networks({MLP.kind: MLP})
NETWORKS.data |= dict.fromkeys(("gru", "lstm", "frame-stack", "cnn", "entities", "graph"))
