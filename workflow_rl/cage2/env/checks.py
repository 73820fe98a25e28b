"""Check the arguments of `Cage2Env` and `CompiledVectorEnv`. Workers import this module without
pydantic. The functions raise a ValueError that names the argument."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from workflow_rl.cage.checks import checked_whole
from workflow_rl.cage2.scenario.simulator_protocol import MAX_STEPS, SEED_LIMIT
from workflow_rl.cage2.scenario2 import OBS_SIZE

if TYPE_CHECKING:
    import gymnasium
    from gymnasium.envs.registration import EnvSpec

OBS_DTYPES = ("float32", "uint8")
DEFAULT_STEPS = 100


def checked_count(name: str, value: Any) -> int:
    """Return a whole number from 1 to MAX_STEPS as an int."""
    number = checked_whole(name, value)
    if not 1 <= number <= MAX_STEPS:
        raise ValueError(f"{name}={number}: it is not from 1 to {MAX_STEPS:,}")
    return number


def checked_steps(max_steps: Any) -> int:
    """Return a length of episodes as an int, or DEFAULT_STEPS for None."""
    return DEFAULT_STEPS if max_steps is None else checked_count("max_steps", max_steps)


def checked_index(action: Any, n: int) -> int:
    """Return an index below n as an int."""
    index = checked_whole("action", action)
    if not 0 <= index < n:
        raise ValueError(f"action={action}: choose an index from 0 to {n - 1}")
    return index


def checked_seed(seed: Any) -> int:
    """Return a whole number from 0 to SEED_LIMIT - 1 as an int."""
    number = checked_whole("seed", seed)
    if not 0 <= number < SEED_LIMIT:
        raise ValueError(f"seed={number}: it is not from 0 to 2**63 - 1")
    return number


def checked_seeds(first: Any, n: int) -> list[int]:
    """Return n seeds for n envs: first, first + 1, and so on."""
    seed = checked_seed(first)
    checked_seed(seed + n - 1)
    return list(range(seed, seed + n))


def check_options(options: Mapping[str, Any] | None, known: Collection[str]) -> None:
    """Require None, or a mapping whose names are all in `known`."""
    if options is not None and not isinstance(options, Mapping):
        raise ValueError(f"options={options!r}: a dict is needed")
    for name in options or ():
        if name not in known:
            raise ValueError(
                f"options={{{name!r}: ...}}: reset knows {', '.join(known) or 'no options'}"
            )


def observation_space(obs_dtype: str, size: int = OBS_SIZE) -> gymnasium.spaces.Box:
    """Return a space of `size` numbers from 0 to 1. obs_dtype: one of OBS_DTYPES."""
    if obs_dtype not in OBS_DTYPES:
        raise ValueError(f"obs_dtype={obs_dtype!r}: choose one of {', '.join(OBS_DTYPES)}")
    from gymnasium import spaces

    return spaces.Box(0, 1, (size,), np.dtype(obs_dtype).type)


NO_PICTURES = (
    "the environment draws no pictures: describe() tells the last step in words, and "
    "`workflow-rl replay` writes an episode as a page to watch"
)


def check_render_mode(render_mode: Any) -> None:
    """Require None. Raise TypeError for any other value, as an env without this argument would."""
    if render_mode is not None:
        raise TypeError(f"render_mode={render_mode!r}: {NO_PICTURES}")


class TellsItsLength:
    """An env whose `spec` holds the env's `max_steps`. Gymnasium's wrappers read them there."""

    max_steps: int
    _spec: EnvSpec | None = None

    @property
    def spec(self) -> EnvSpec | None:
        if self._spec is None:
            return None
        return dataclasses.replace(self._spec, max_episode_steps=self.max_steps)

    @spec.setter
    def spec(self, spec: EnvSpec | None) -> None:
        self._spec = spec
