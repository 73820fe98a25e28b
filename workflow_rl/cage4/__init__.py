"""CAGE Challenge 4: its environment, simulators, scores and baselines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workflow_rl.cage4.env.parallel_env import Cage4ParallelEnv


def parallel_env(
    simulator: str = "compiled",
    max_steps: int = 500,
    red_agent: str = "FiniteStateRedAgent",
    render_mode: None = None,
    observation: str = "flat",
    **scenario: Any,
) -> Cage4ParallelEnv:
    """Return CAGE Challenge 4 for a team of five, with PettingZoo's ParallelEnv interface.

    The arguments are those of `Cage4ParallelEnv`.
    """
    # Simulators import parts of this package, and need no Gymnasium.
    from workflow_rl.cage4.env.parallel_env import Cage4ParallelEnv

    return Cage4ParallelEnv(simulator, max_steps, red_agent, render_mode, observation, **scenario)
