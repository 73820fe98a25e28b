"""A private second copy of csle-cyborg."""

from __future__ import annotations

import importlib
import random
import sys
from typing import Any, Protocol

from workflow_rl.cage.private_modules import take_modules
from workflow_rl.cage2.cyborg.pickles import dumps, loads

PACKAGE = "csle_cyborg"
GLOBAL_GENERATOR = random.choice.__self__  # type: ignore[attr-defined]


class Drawer(Protocol):
    """One that draws from the copy's generator. random_state: the generator's at its last turn."""

    random_state: tuple[Any, ...]


class PrivateCyborg:
    """A second import of csle-cyborg, with its own modules and its own random generator.

    Changes of the copy do not reach csle-cyborg as published. `random` replaces Python's global
    generator in all modules of the copy. It is a Mersenne Twister with the same methods, so that
    the same seed gives the same draws, and the global state is neither read nor written. The
    simulators of a process use the generator in turns, in one thread.
    """

    def __init__(self) -> None:
        self.random = random.Random()
        self._playing: Drawer | None = None
        published = take_modules(PACKAGE)
        try:
            for name in ("agents", "shared.action_space", "shared.actions", "simulator.state"):
                importlib.import_module(f"{PACKAGE}.{name}")
        finally:
            self.modules = take_modules(PACKAGE)
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
        """Pickle objects of the copy's classes."""
        return dumps(value, self.modules, self.random)

    def loads(self, pickled: bytes) -> Any:
        """Return the value that `dumps` was given, in any process."""
        return loads(pickled, self.modules, self.random)

    def let_play(self, player: Drawer) -> None:
        """Continue this player's draws. This costs nothing while the player plays alone."""
        if self._playing is player:
            return
        if self._playing is not None:
            self._playing.random_state = self.random.getstate()
        self.random.setstate(player.random_state)
        self._playing = player

    def take_turn_again(self, player: Drawer) -> None:
        """Continue this player's draws after its state has been replaced."""
        if self._playing is player:
            self.random.setstate(player.random_state)
