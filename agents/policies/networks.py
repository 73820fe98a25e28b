"""The kinds of networks by their names. No torch."""

from __future__ import annotations

from collections import UserDict

from workflow_rl.agents.policies.mlp import MLP
from workflow_rl.agents.policies.network import Network


class _Networks(UserDict[str, type[Network] | None]):
    """Networks by their kinds. All but the first are imported when one of them is asked for."""

    def __getitem__(self, kind: str) -> type[Network]:
        network = self.data[kind]
        if network is None:
            from workflow_rl.agents.policies.entities import Entities
            from workflow_rl.agents.policies.recurrent import GRU, LSTM
            from workflow_rl.agents.policies.stacked_frames import FrameStack

            self.data |= {network.kind: network for network in (GRU, LSTM, FrameStack, Entities)}
            return self[kind]
        return network


NETWORKS = _Networks(
    {MLP.kind: MLP, "gru": None, "lstm": None, "frame-stack": None, "entities": None}
)
