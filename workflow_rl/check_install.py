"""Check that this Python has the packages that commands need, before other modules are imported.

A user who forgot to activate the environment reads one line instead of a traceback.
"""

import importlib.util
import os
import sys

PACKAGES = (
    *("click", "cloudpickle", "csle_cyborg", "gymnasium", "matplotlib", "numba", "numpy"),
    *("plotly", "prettytable", "pydantic", "yaml", "safetensors", "tensorboard", "torch", "tqdm"),
)
"""The import names of the packages in pyproject.toml."""


def is_command() -> bool:
    """Return whether a command runs: `python -m workflow_rl`, `workflow-rl`, or a file here."""
    if "-c" in sys.orig_argv:  # Processes that a command starts copy the rest of its arguments.
        return False
    if sys.argv[0] == "-m":  # Python is still looking for the module.
        module = sys.orig_argv[sys.orig_argv.index("-m") + 1]
        return module.partition(".")[0] == "workflow_rl"
    folder, name = os.path.split(os.path.abspath(sys.argv[0]))
    return name == "workflow-rl" or folder == os.path.dirname(os.path.abspath(__file__))


def demand() -> None:
    """End a command that would fail, with exit code 2."""
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    problem = "lacks the packages " + ", ".join(missing)
    if not (3, 11) <= sys.version_info[:2] < (3, 14):
        problem = f"is Python {sys.version.split()[0]}, but Python 3.11, 3.12 or 3.13 is needed"
    elif not missing:
        return
    sys.stderr.write(
        f"Error: {sys.executable} {problem}. In the checkout, `source .venv/bin/activate` chooses "
        "the Python that `bash run_async_training.sh` has set up.\n"
    )
    sys.exit(2)
