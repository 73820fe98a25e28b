"""Imports of CybORG 4 from the user's checkout, each with its own modules.

One process can hold the published CybORG and the sped-up copy. After an import, the name `CybORG`
is free again, so that the process can import another CybORG.
"""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np

from workflow_rl.cage.private_modules import take_modules
from workflow_rl.cage4.cyborg.checkout import cyborg_checkout

PACKAGE = "CybORG"
MODULES = ("env", "Agents", "Agents.Wrappers", "Simulator.Scenarios")
"""The import of these modules imports all modules that play an episode."""


class Cyborg:
    """One import of the package.

    `cyborg["Simulator.State"]` is the module `CybORG.Simulator.State`.
    """

    def __init__(self) -> None:
        self._modules: dict[str, ModuleType] = {}
        with self._importable(), stand_ins():
            for name in MODULES:
                importlib.import_module(f"{PACKAGE}.{name}")

    def user_class(self, name: str) -> Any:
        """Return the user's class "module:Class". Its module's imports of CybORG find this CybORG.

        The module is imported only for this CybORG. Raises what the import raises.
        """
        module, _, class_name = name.partition(":")
        package = module.partition(".")[0]
        with self._importable():
            others = take_modules(package)
            try:
                return getattr(importlib.import_module(module), class_name)
            finally:
                take_modules(package)
                sys.modules.update(others)

    @contextmanager
    def _importable(self) -> Iterator[None]:
        """Let imports find this CybORG, and no other CybORG."""
        folder = str(cyborg_checkout())
        others = take_modules(PACKAGE)
        sys.modules.update(self._modules)
        sys.path.insert(0, folder)
        try:
            yield
        finally:
            sys.path.remove(folder)
            self._modules = take_modules(PACKAGE)
            sys.modules.update(others)

    def __getitem__(self, name: str) -> Any:
        return self._modules[f"{PACKAGE}.{name}"]


@cache
def published_cyborg() -> Cyborg:
    return Cyborg()


@contextmanager
def stand_ins() -> Iterator[None]:
    """Replace packages that CybORG imports, but does not need in an episode, by small modules.

    The packages are Gym, Matplotlib, PrettyTable, pygame, Ray and PyYAML. An episode calls only
    Gym's `np_random`. Afterwards, imports find the installed packages again.
    """
    modules = _stand_in_modules()
    tops = {name.partition(".")[0] for name in modules}
    real = {name: sys.modules[name] for name in sys.modules if name.partition(".")[0] in tops}
    for name in real:
        del sys.modules[name]
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name in modules:
            sys.modules.pop(name, None)
        sys.modules.update(real)


def np_random(seed: int | None = None) -> tuple[np.random.Generator, Any]:
    """Return a generator and the seed's entropy, as `gym.utils.seeding.np_random` does."""
    sequence = np.random.SeedSequence(seed)
    return np.random.Generator(np.random.PCG64(sequence)), sequence.entropy


def _stand_in_modules() -> dict[str, ModuleType]:
    spaces = gymnasium.spaces
    contents: dict[str, dict[str, Any]] = {
        "gym": {"Env": gymnasium.Env, "Space": gymnasium.Space, "spaces": spaces},
        "gym.utils": {},
        "gym.utils.seeding": {
            "np_random": np_random,
            "RandomNumberGenerator": np.random.Generator,
        },
        "gym.vector": {},
        "gym.vector.utils": {"spaces": spaces},
        "matplotlib": {},
        "matplotlib.pyplot": {},
        "matplotlib.widgets": dict.fromkeys(("Button", "Slider", "TextBox", "CheckButtons")),
        "prettytable": {"PrettyTable": None},
        "pygame": {},
        "ray": {},
        "ray.rllib": {},
        "ray.rllib.env": {},
        "ray.rllib.env.multi_agent_env": {"MultiAgentEnv": type("MultiAgentEnv", (), {})},
        "yaml": {},
    }
    modules = {}
    for name, values in contents.items():
        module = modules[name] = ModuleType(name)
        vars(module).update(values, __path__=[])
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(modules[parent], last, module)
    modules["gym.spaces"] = spaces
    return modules
