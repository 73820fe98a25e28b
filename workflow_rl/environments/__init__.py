"""What environments are, where they are found by name, Gymnasium's, and simulators of one's own."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workflow_rl.environments.batched_env import BatchedEnv as BatchedEnv


def __getattr__(name: str) -> Any:
    if name == "BatchedEnv":  # It imports Gymnasium, which an error in the options does without.
        from workflow_rl.environments.batched_env import BatchedEnv

        return BatchedEnv
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
