"""What a process learns of a user's environment from the worker that has made it: plain data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from workflow_rl.agents.spaces import Spaces
from workflow_rl.environments.environment import ENV
from workflow_rl.environments.gymnasium_versions import MultiDiscrete
from workflow_rl.errors import ConfigError

Tell = Callable[..., object]
"""Sends what it is called with, one answer after another."""


class Facts(NamedTuple):
    """What an environment declares. observation, action: its spaces, without classes of the user's.
    team: of a ParallelEnv, the spaces of observations by agent. masks_from: what masks of actions
    are read from, in words; "" without. left_out: entries of observations that are not shown, since
    their spaces are not supported."""

    spaces: Spaces
    observation: spaces.Space[Any]
    action: spaces.Space[Any]
    team: Mapping[str, spaces.Space[Any]] | None
    masks_from: str = ""
    left_out: tuple[str, ...] = ()


def plain_facts(space: spaces.Space[Any]) -> spaces.Space[Any]:
    """Return a space of Gymnasium's own class that equals one of a supported kind.

    Raises ConfigError for entries that are named by objects of the user's classes.
    """
    if isinstance(space, spaces.Box):
        kind: Any = np.dtype(space.dtype).type
        return spaces.Box(np.array(space.low), np.array(space.high), space.shape, kind)
    if isinstance(space, spaces.Discrete):
        return spaces.Discrete(int(space.n), start=int(space.start))
    if isinstance(space, spaces.MultiBinary):
        return spaces.MultiBinary(space.shape)
    if isinstance(space, spaces.MultiDiscrete):
        kind = np.dtype(space.dtype).type
        return MultiDiscrete(np.array(space.nvec), kind, start=getattr(space, "start", None))
    if isinstance(space, spaces.Tuple):
        return spaces.Tuple([plain_facts(part) for part in space.spaces])
    assert isinstance(space, spaces.Dict)
    for name in space.spaces:
        if type(name).__module__ not in ("builtins", "numpy"):
            raise ConfigError(
                ENV, f"its space has an entry named {name!r:.80}: name it by plain text"
            )
    return spaces.Dict([(name, plain_facts(part)) for name, part in space.spaces.items()])


class Separate(NamedTuple):
    """Each env needs a random state of its own: see `PrivateRandom`."""
