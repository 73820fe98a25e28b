"""Run a command of the package, and write what it imports and calls: see `count_house.Watched`.

python scripts/watched_command.py FILE COMMAND [OPTIONS]
"""

from __future__ import annotations

import atexit
import importlib
import inspect
import json
import os
import runpy
import sys
from collections import Counter
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parents[1]
OTHERS = ("workflow_rl.portable", "click", "gymnasium", "matplotlib.pyplot", "pydantic", "torch")
"""Imported before the watch begins: it would make their many calls slow."""
LOOP = ("workflow_rl/runs/loop.py", "train_together")


def main() -> None:
    calls: Counter[tuple[str, str]] = Counter()
    entered: set[str] = set()

    def place(file: str) -> str:
        return os.path.relpath(os.path.realpath(file), ROOT)

    def watch(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_flags & inspect.CO_OPTIMIZED:  # Bodies of modules are not.
            calls[code.co_filename, code.co_qualname] += 1
            if code.co_name == LOOP[1] and place(code.co_filename) == LOOP[0]:
                # Comprehensions of module bodies are not functions that were entered.
                entered.update(file for file, name in calls if not name.startswith("<"))

    def write(target: Path) -> None:
        sys.setprofile(None)
        modules = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
        seen = {
            "imported": sorted({place(file) for file in modules if file}),
            "calls": {f"{place(file)} {name}": n for (file, name), n in calls.items()},
            "entered": sorted(map(place, entered)),
        }
        target.write_text(json.dumps(seen))

    atexit.register(write, Path(sys.argv.pop(1)).resolve())
    sys.path[0] = str(ROOT)
    for package in OTHERS:
        importlib.import_module(package)
    sys.setprofile(watch)
    runpy.run_module("workflow_rl", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
