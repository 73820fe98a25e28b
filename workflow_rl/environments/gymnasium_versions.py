"""Features of newer versions of Gymnasium for versions from 0.28, and spaces from plain values."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium import spaces

from workflow_rl.environments.simulator_process import decode

if TYPE_CHECKING or hasattr(gymnasium.vector, "AutoresetMode"):
    from gymnasium.vector import AutoresetMode as AutoresetMode
else:  # Before 1.1.

    class AutoresetMode(Enum):
        NEXT_STEP, SAME_STEP, DISABLED = "NextStep", "SameStep", "Disabled"


if TYPE_CHECKING or hasattr(spaces.MultiDiscrete([1]), "start"):
    MultiDiscrete = spaces.MultiDiscrete
else:  # Before 0.29.

    class MultiDiscrete(spaces.MultiDiscrete):
        def __init__(self, nvec: Any, dtype: Any = np.int64, seed: Any = None, start: Any = None):
            super().__init__(nvec, dtype, seed)
            self.start = np.array(np.zeros_like(nvec) if start is None else start, dtype)

        def sample(self, mask: Any = None) -> Any:
            return super().sample(mask) + self.start

        def contains(self, x: Any) -> bool:
            x = np.asarray(x)
            fits = x.shape == self.shape and x.dtype != object
            return fits and super().contains((x - self.start).astype(self.dtype))


def attribute_of(env: Any, name: str, default: Any = None) -> Any:
    """Return an attribute of an env, or of the first wrapped env that has this attribute."""
    # Wrappers before 1.0 have all attributes of the wrapped env, some with a warning.
    of_gymnasium = getattr(gymnasium.Wrapper, "__getattr__", None)
    while isinstance(env, gymnasium.Wrapper):
        has_own = getattr(type(env), "__getattr__", None) is not of_gymnasium
        if name in vars(env) or hasattr(type(env), name) or (has_own and hasattr(env, name)):
            break
        env = env.env
    return getattr(env, name, default)


class UnknownSpace(spaces.Space[Any]):
    """A space that is not supported. Only its text is known."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def __repr__(self) -> str:
        return self._text


def space_from(told: Sequence[Any]) -> spaces.Space[Any]:
    """Return a space from the result of `simulator_process.as_plain`."""
    kind, *parts = told
    match kind:
        case "Box":
            low, high = map(decode, parts[:2])
            return spaces.Box(low, high, dtype=parts[2])
        case "Discrete":
            return spaces.Discrete(parts[0], start=parts[1])
        case "MultiBinary":
            return spaces.MultiBinary(parts[0])
        case "MultiDiscrete":
            return MultiDiscrete(decode(parts[0]), dtype=parts[2], start=decode(parts[1]))
        case "Tuple":
            return spaces.Tuple([space_from(part) for part in parts[0]])
        case "Dict":
            return spaces.Dict(parts_from(parts[0]))
    return UnknownSpace(parts[0])


def parts_from(told: Sequence[Any]) -> list[tuple[Any, spaces.Space[Any]]]:
    return [(decode(name), space_from(part)) for name, part in told]
