"""Let a process import a package several times, each time with new modules."""

import sys
from types import ModuleType


def take_modules(package: str) -> dict[str, ModuleType]:
    """Take a package's modules out of `sys.modules`, so that the next import makes new modules.

    Return the modules, by name."""
    names = [name for name in sys.modules if name == package or name.startswith(f"{package}.")]
    return {name: sys.modules.pop(name) for name in names}
