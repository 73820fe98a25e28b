"""Train agents synchronously or asynchronously, on CAGE Challenge 2 or any Gymnasium environment.

Importing the package registers its environment with Gymnasium: see `cage2.registration`. A command
of the package does so once its options are accepted, for the import of Gymnasium takes time. What
the package offers besides, `Cage2Env`, `Cage2RedEnv`, and `train`, `load_agent` and `evaluate` of
`api`, is imported when asked for: workers must not import torch.
"""

from typing import Any

from workflow_rl import complete as _complete

if _complete.is_command():
    _complete.demand()

# Before anything loads NumPy.
from workflow_rl import portable as portable
from workflow_rl.cage2 import registration as registration
from workflow_rl.cage4 import registration as cage4_registration  # noqa: F401
from workflow_rl.version import __version__ as __version__
from workflow_rl.workflows import registration as workflows_registration  # noqa: F401

if not _complete.is_command():
    registration.register_envs()

_INTERFACE = ("PPOConfig", "TrainConfig", "evaluate", "learning_curves", "load_agent", "train")


def __getattr__(name: str) -> Any:
    if name in _INTERFACE:
        from workflow_rl import api as interface

        return getattr(interface, name)
    if name == "Cage2Env":
        from workflow_rl.cage2.env.cage2_env import Cage2Env

        return Cage2Env
    if name == "Cage2RedEnv":
        from workflow_rl.cage2.env.red_env import Cage2RedEnv

        return Cage2RedEnv
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return all names, so that editors and notebooks complete them."""
    return [*globals(), *_INTERFACE, "Cage2Env", "Cage2RedEnv"]
