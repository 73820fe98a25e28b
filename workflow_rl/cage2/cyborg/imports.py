"""Import CybORG without Stable-Baselines3.

CybORG imports Stable-Baselines3 for one agent, which is never used here. CybORG's requirements lack
Stable-Baselines3, and its import would load torch. This module lets the package and a user's code
import csle-cyborg without Stable-Baselines3. Every worker imports this module."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType

NEEDS_IT = "csle_cyborg.agents.simple_agents.blue_load_agent"


@contextmanager
def no_stable_baselines3() -> Iterator[None]:
    """Let an import of Stable-Baselines3 find an empty replacement.

    If Stable-Baselines3 is already imported, this changes nothing. An import after this context
    finds the real package."""
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


class _Loader(SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        with no_stable_baselines3():
            super().exec_module(module)


class _Finder:
    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        found = PathFinder.find_spec(name, path, target) if name == NEEDS_IT else None
        if found is not None and found.origin is not None:
            found.loader = _Loader(name, found.origin)
        return found


def let_csle_cyborg_load() -> None:
    """Replace Stable-Baselines3 by an empty module in all later imports of csle-cyborg."""
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)
