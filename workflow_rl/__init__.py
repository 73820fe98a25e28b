"""Train agents synchronously or asynchronously, on CAGE challenges or any Gymnasium environment.

Importing the package registers the environments of its guests with Gymnasium. A command of the
package does so once its options are accepted, for the import of Gymnasium takes time. `train`,
`load_agent`, `evaluate` and what else `api` offers are imported when they are asked for. In a child
process the import waits for the call: a worker imports the user's script, and must not load torch.
"""

from importlib import import_module as _import
from multiprocessing import parent_process as _parent_process
from typing import Any

from workflow_rl import check_install as _check_install

if _check_install.is_command():
    _check_install.demand()

# Before anything loads NumPy.
from workflow_rl import portable as portable

__version__ = "0.1.0"

if not _check_install.is_command():
    from workflow_rl.environments.source import register_envs as _register_envs

    _register_envs()

_CONFIGS = {
    "PPOConfig": "agents.ppo.config",
    "TrainConfig": "runs.config",
    "Update": "runs.on_update",
}
_INTERFACE = (*_CONFIGS, "evaluate", "learning_curves", "load_agent", "record", "train")


def __getattr__(name: str) -> Any:
    if name not in _INTERFACE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name not in _CONFIGS and _parent_process() is not None:

        def called(*arguments: Any, **options: Any) -> Any:
            return getattr(_import("workflow_rl.api"), name)(*arguments, **options)

        return called
    return getattr(_import(f"workflow_rl.{_CONFIGS.get(name, 'api')}"), name)


def __dir__() -> list[str]:
    """Return all names, so that editors and notebooks complete them."""
    return [*globals(), *_INTERFACE]
