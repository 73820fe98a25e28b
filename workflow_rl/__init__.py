"""Train agents synchronously or asynchronously, on CAGE challenges or any Gymnasium environment.

Importing the package registers the environments of its guests with Gymnasium. A command of the
package does so once its options are accepted, for the import of Gymnasium takes time. `train`,
`load_agent`, `evaluate` and what else `api` offers are imported when they are asked for: workers
must not import torch.
"""

from typing import Any

from workflow_rl import complete as _complete

if _complete.is_command():
    _complete.demand()

# Before anything loads NumPy.
from workflow_rl import portable as portable
from workflow_rl.version import __version__ as __version__

if not _complete.is_command():
    from workflow_rl.environments.gymnasium_ids import register_envs as _register_envs

    _register_envs()

_INTERFACE = ("PPOConfig", "TrainConfig", "evaluate", "learning_curves", "load_agent", "train")


def __getattr__(name: str) -> Any:
    if name in _INTERFACE:
        from workflow_rl import api as interface

        return getattr(interface, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return all names, so that editors and notebooks complete them."""
    return [*globals(), *_INTERFACE]
