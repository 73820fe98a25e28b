"""The networks of a submission that act by ONNX models: see `runs.export`.

In the submission's folder, a copy of this module replaces `agents.policies.networks`. So the folder
needs onnxruntime, but not torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from workflow_rl.agents.policies.distributions import FloatArray
from workflow_rl.agents.policies.network import Layers, MemoryNetwork, Network, Shape

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class OnnxNetwork(MemoryNetwork):
    """A network whose only weight is the bytes of an ONNX model, as numbers.

    The model's inputs are `obs`, with masks if it takes masks, and `state` if it has a state. It
    computes one row at a time, so other rows do not change a row's bits.
    """

    state_size: int = 0
    takes_mask: bool = False
    kind = "onnx"
    needs = "onnxruntime>=1.20,<2"
    shares_trunk = False

    @classmethod
    def of_layers(cls, layers: Layers, activation: str, **args: Any) -> Self:
        return cls(hidden_sizes=(), activation=activation, **args)

    @property
    def memory_size(self) -> int:
        return self.state_size

    @property
    def sees_mask(self) -> bool:
        return self.takes_mask

    def shapes(self) -> list[tuple[Shape, Shape]]:
        """See Network. An ONNX model has no pairs of arrays: see `fits`."""
        raise NotImplementedError

    def names(self) -> list[tuple[str, str]]:
        raise NotImplementedError

    def module(self, output_gain: float, generator: torch.Generator | None) -> torch.nn.Module:
        raise NotImplementedError

    def fits(self, layers: Layers) -> bool:
        return [array.ndim for array in layers.weights] == [1] == [len(layers.biases)]

    def step(
        self, layers: Layers, obs: FloatArray, state: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        session = self._session(layers)
        rows: list[list[FloatArray]] = []
        for row, before in zip(obs, state, strict=True):
            given = {"obs": row[None], "state": before[None]}
            told = session.run(None, given if self.state_size else {"obs": row[None]})
            rows.append([*told, before[None]][:2])
        outputs, states = (np.concatenate(column) for column in zip(*rows, strict=True))
        return outputs, states

    def _session(self, layers: Layers) -> Any:
        """Return the session that computes the model. It is made once for a policy's arrays."""
        import onnxruntime  # type: ignore[import-untyped]

        arrays, session = vars(self).get("_made", (None, None))
        if arrays is not layers.weights:
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = 1
            model = layers.weights[0].astype(np.uint8).tobytes()
            session = onnxruntime.InferenceSession(model, options)
            vars(self)["_made"] = (layers.weights, session)
        return session

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_made"}


NETWORKS: dict[str, type[Network]] = {OnnxNetwork.kind: OnnxNetwork}
