"""A private second copy of csle-cyborg, which can be changed and pickled."""

import importlib
import io
import operator
import pickle
import random
import sys
from types import FunctionType, ModuleType
from typing import Any, Protocol

import cloudpickle

from workflow_rl.cage.private_modules import take_modules

PACKAGE = "csle_cyborg"
GLOBAL_GENERATOR = random.choice.__self__  # type: ignore[attr-defined]


class Drawer(Protocol):
    """A simulator that draws from the copy's generator. random_state: the generator's state when
    another simulator last took over."""

    random_state: tuple[Any, ...]


class PrivateCyborg:
    """A second import of csle-cyborg, with its own modules and its own random generator.

    Changes of the copy do not reach the published csle-cyborg. The attribute `random` replaces
    Python's global generator in all modules of the copy. Both generators are Mersenne Twisters, so
    a seed gives the same draws. The global generator's state does not change. All simulators of a
    process take turns with `random`, in one thread."""

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
        """Pickle a value that contains objects of the copy, or classes whose code uses the copy."""
        file = io.BytesIO()
        _Pickler(file, self).dump(value)
        return file.getvalue()

    def loads(self, pickled: bytes) -> Any:
        """Return the value that `dumps` pickled, in this or any other process."""
        return _Unpickler(io.BytesIO(pickled), self).load()

    def let_play(self, player: Drawer) -> None:
        """Let this player draw next, from where it stopped. If it also drew last, do nothing."""
        if self._playing is player:
            return
        if self._playing is not None:
            self._playing.random_state = self.random.getstate()
        self.random.setstate(player.random_state)
        self._playing = player

    def take_turn_again(self, player: Drawer) -> None:
        """Let this player draw from its `random_state`, which has been replaced."""
        if self._playing is player:
            self.random.setstate(player.random_state)


class _Pickler(cloudpickle.Pickler):
    """Pickles by name what csle-cyborg and the generator define, and all other values by value."""

    def __init__(self, file: io.BytesIO, cyborg: PrivateCyborg) -> None:
        super().__init__(file)
        self._cyborg = cyborg

    def persistent_id(self, value: Any) -> tuple[str, ...] | None:
        modules, generator = self._cyborg.modules, self._cyborg.random
        if isinstance(value, ModuleType):
            if value is random:
                return ("random", "")
            return ("module", value.__name__) if value.__name__ in modules else None
        if value is generator:
            return ("random", "")
        if isinstance(value, type | FunctionType) and value.__module__ in modules:
            return value.__module__, value.__qualname__
        if getattr(value, "__self__", None) in (GLOBAL_GENERATOR, generator):
            return ("random", value.__name__)
        return None


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, cyborg: PrivateCyborg) -> None:
        super().__init__(file)
        self._cyborg = cyborg

    def find_class(self, module: str, name: str) -> Any:
        """Return a function that makes new classes. cloudpickle's own function would return a class
        that this process has pickled before."""
        found = super().find_class(module, name)
        if name not in ("_make_skeleton_class", "_make_skeleton_enum"):
            return found

        def make(*facts: Any) -> Any:
            # The last argument but one is the key by which cloudpickle finds a pickled class.
            *known, _, extra = facts
            return found(*known, None, extra)

        return make

    def persistent_load(self, named: tuple[str, str]) -> Any:
        place, name = named
        if place == "random":
            return getattr(self._cyborg.random, name) if name else self._cyborg.random
        if place == "module":
            return self._cyborg.modules[name]
        return operator.attrgetter(name)(self._cyborg.modules[place])
