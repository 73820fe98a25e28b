"""Importing csle-cyborg without Stable-Baselines3, and a private second copy of it."""

from __future__ import annotations

import importlib
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Protocol

from workflow_rl.cage2.cyborg.pickles import dumps, loads

PACKAGE = "csle_cyborg"
GLOBAL_GENERATOR = random.choice.__self__  # type: ignore[attr-defined]


@contextmanager
def no_stable_baselines3() -> Iterator[None]:
    """Let CybORG's import of Stable-Baselines3 find an empty stand-in.

    CybORG needs it for one agent that is never used here, and it would load torch. A real one that
    is already imported stays, and a later import finds the real one.
    """
    if "stable_baselines3" in sys.modules:
        yield
        return
    stand_in = ModuleType("stable_baselines3")
    vars(stand_in)["PPO"] = None
    sys.modules["stable_baselines3"] = stand_in
    try:
        yield
    finally:
        del sys.modules["stable_baselines3"]


class Player(Protocol):
    """Whoever draws from the copy's generator, with the state it was in at the last turn."""

    random_state: tuple[Any, ...]


class PrivateCyborg:
    """A second import of csle-cyborg, with its own modules and its own random generator.

    What is changed in it does not reach csle-cyborg as published. `random` takes the place of
    Python's global generator in all its modules: the same Mersenne Twister with the same methods,
    so the same seed gives the same draws, while the global state is neither read nor written. The
    simulators of a process share it in turns, in one thread.
    """

    def __init__(self) -> None:
        self.random = random.Random()
        self._playing: Player | None = None
        published = _take_modules()
        try:
            with no_stable_baselines3():
                for name in ("agents", "shared.actions", "simulator.state"):
                    importlib.import_module(f"{PACKAGE}.{name}")
        finally:
            self.modules = _take_modules()
            sys.modules.update(published)
        for module in self.modules.values():
            for name, value in list(vars(module).items()):
                if value is random:
                    setattr(module, name, self.random)
                elif getattr(value, "__self__", None) is GLOBAL_GENERATOR:
                    setattr(module, name, getattr(self.random, value.__name__))

    def __getitem__(self, name: str) -> Any:
        return self.modules[f"{PACKAGE}.{name}"]

    def dumps(self, value: Any) -> bytes:
        """Pickle what is made of the copy's classes."""
        return dumps(value, self.modules, self.random)

    def loads(self, pickled: bytes) -> Any:
        """What `dumps` was given, in any process."""
        return loads(pickled, self.modules, self.random)

    def let_play(self, player: Player) -> None:
        """Go on where this player's draws stopped; costs nothing while it plays alone."""
        if self._playing is player:
            return
        if self._playing is not None:
            self._playing.random_state = self.random.getstate()
        self.random.setstate(player.random_state)
        self._playing = player

    def take_turn_again(self, player: Player) -> None:
        """After its state has been replaced from outside."""
        if self._playing is player:
            self.random.setstate(player.random_state)


def _take_modules() -> dict[str, ModuleType]:
    names = [name for name in sys.modules if name == PACKAGE or name.startswith(f"{PACKAGE}.")]
    return {name: sys.modules.pop(name) for name in names}
