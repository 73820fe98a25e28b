"""The guest of CAGE Challenge 2: the compiled simulator, CybORG and its speed-ups, agents, scores.

The import of this package makes csle-cyborg importable without Stable-Baselines3."""

import importlib
from typing import Any

from workflow_rl.cage2.cyborg.imports import let_csle_cyborg_load

let_csle_cyborg_load()

_ENVS = {
    "Cage2Env": "cage2_env.Cage2Env",
    "Cage2RedEnv": "red_env.Cage2RedEnv",
    "duel_env": "duel_env.Cage2DuelEnv",
}
"""The module and class of each env for users. An env's module is imported only when a user asks for
the env, because simulators import this package without Gymnasium."""
__all__ = [*_ENVS]


def __getattr__(name: str) -> Any:
    if name not in _ENVS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, env = _ENVS[name].partition(".")
    return getattr(importlib.import_module(f"{__name__}.env.{module}"), env)
