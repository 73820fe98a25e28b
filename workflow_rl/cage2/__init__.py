"""CAGE Challenge 2: CybORG and its speed-ups, the compiled simulator, agents, scores.

Once this package is imported, csle-cyborg can be imported without Stable-Baselines3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workflow_rl.cage2.cyborg.imports import let_csle_cyborg_load

if TYPE_CHECKING:
    from workflow_rl.cage2.env.duel_env import Cage2DuelEnv

let_csle_cyborg_load()

__all__ = ["Cage2Env", "Cage2RedEnv", "duel_env"]


def duel_env(
    max_steps: int | None = None, render_mode: None = None, scenario: Any = "scenario2"
) -> Cage2DuelEnv:
    """Return CAGE Challenge 2 for Blue and Red at once, with PettingZoo's ParallelEnv interface.

    The arguments are those of `Cage2DuelEnv`.
    """
    from workflow_rl.cage2.env.duel_env import Cage2DuelEnv

    return Cage2DuelEnv(max_steps, render_mode, scenario)


def __getattr__(name: str) -> Any:
    # Simulators import parts of this package, and need no Gymnasium.
    if name == "Cage2Env":
        from workflow_rl.cage2.env.cage2_env import Cage2Env

        return Cage2Env
    if name == "Cage2RedEnv":
        from workflow_rl.cage2.env.red_env import Cage2RedEnv

        return Cage2RedEnv
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
