"""What environments are, where they are found by name, Gymnasium's, and simulators of one's own."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workflow_rl.environments.batched_env import BatchedEnv as BatchedEnv
    from workflow_rl.environments.joint_batch import BatchedTeamEnv as BatchedTeamEnv
    from workflow_rl.environments.joint_batch import TeamStep as TeamStep


def __getattr__(name: str) -> Any:
    # These modules import Gymnasium, which an error in the options does without.
    if name == "BatchedEnv":
        from workflow_rl.environments.batched_env import BatchedEnv

        return BatchedEnv
    if name in ("BatchedTeamEnv", "TeamStep"):
        from workflow_rl.environments import joint_batch

        return getattr(joint_batch, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
