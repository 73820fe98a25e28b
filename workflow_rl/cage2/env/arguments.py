"""What `Cage2Env` and `CompiledVectorEnv` take, checked alike. The functions raise ValueError,
naming the argument, but where they say otherwise."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from workflow_rl.cage2.scenario2 import HOSTS, RED_AGENTS

if TYPE_CHECKING:
    import gymnasium
    from gymnasium.envs.registration import EnvSpec

MIXTURES = {
    "mixed": RED_AGENTS,
    "attackers": ("B_lineAgent",) * 8 + ("RedMeanderAgent",) * 11 + ("SleepAgent",),
}
"""What every episode draws its red agent from. Little is to be learned from one that sleeps."""

RED_AGENT_CHOICES = (*RED_AGENTS, *MIXTURES)
OBS_SIZE = 4 * len(HOSTS)
OBS_DTYPES = ("float32", "uint8")
DEFAULT_STEPS = 100
MOST = 1_000_000
"""Steps of an episode, or envs."""
SEED_LIMIT = 2**63
"""The compiled simulator's seeds lie below it."""


def check_red_agent(name: Any) -> None:
    """One of RED_AGENT_CHOICES."""
    if not isinstance(name, str) or name not in RED_AGENT_CHOICES:
        raise ValueError(f"red_agent={name!r}: choose one of {', '.join(RED_AGENT_CHOICES)}")


def red_agent_of(choice: str, episode_seed: int) -> str:
    """The red agent of an episode: of a mixture, the seed draws one."""
    if choice not in MIXTURES:
        return choice
    # Another stream than that of the env's further seeds.
    (word,) = np.random.SeedSequence(episode_seed, spawn_key=(1,)).generate_state(1)
    names = MIXTURES[choice]
    return names[int(word) % len(names)]


def checked_whole(name: str, value: Any) -> int:
    """A whole number, of Python's or NumPy's."""
    try:
        if isinstance(value, bool | np.bool_) or getattr(value, "dtype", None) == np.bool_:
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise ValueError(f"{name}={value!r}: a whole number is needed") from None


def checked_count(name: str, value: Any) -> int:
    """A whole number from 1 on, of at most MOST."""
    number = checked_whole(name, value)
    if not 1 <= number <= MOST:
        raise ValueError(f"{name}={number}: it is not from 1 to {MOST:,}")
    return number


def checked_seed(seed: Any) -> int:
    """A whole number from 0 to SEED_LIMIT - 1."""
    number = checked_whole("seed", seed)
    if not 0 <= number < SEED_LIMIT:
        raise ValueError(f"seed={number}: it is not from 0 to 2**63 - 1")
    return number


def check_options(options: Mapping[str, Any] | None, known: Collection[str]) -> None:
    """Those of `reset`."""
    if options is not None and not isinstance(options, Mapping):
        raise ValueError(f"options={options!r}: a dict is needed")
    for name in options or ():
        if name not in known:
            raise ValueError(f"options={{{name!r}: ...}}: reset knows {', '.join(known)}")


def observation_space(obs_dtype: str) -> gymnasium.spaces.Box:
    """52 zeros and ones, of one of OBS_DTYPES."""
    if obs_dtype not in OBS_DTYPES:
        raise ValueError(f"obs_dtype={obs_dtype!r}: choose one of {', '.join(OBS_DTYPES)}")
    from gymnasium.spaces import Box  # Gymnasium takes 0.1 s to import.

    return Box(0, 1, (OBS_SIZE,), np.dtype(obs_dtype).type)


NO_PICTURES = (
    "the environment draws no pictures: describe() tells the last step in words, and "
    "`workflow-rl replay` writes an episode as a page to watch"
)


def check_render_mode(render_mode: Any) -> None:
    """None: there are no pictures. Raises TypeError, as an env that knows of none does."""
    if render_mode is not None:
        raise TypeError(f"render_mode={render_mode!r}: {NO_PICTURES}")


class TellsItsLength:
    """An env whose `spec` holds the length of an episode: Gymnasium's wrappers read it there."""

    max_steps: int
    _spec: EnvSpec | None = None

    @property
    def spec(self) -> EnvSpec | None:
        """What Gymnasium made the env from."""
        if self._spec is None:
            return None
        return dataclasses.replace(self._spec, max_episode_steps=self.max_steps)

    @spec.setter
    def spec(self, spec: EnvSpec | None) -> None:
        self._spec = spec
