"""What an environment is, and how one is made of what a user names.

In: an id or `module:name`, with arguments. Out: an `Environment`: spaces, and batches of envs whose
observations are flat rows. Guests bring environments of their own.

Begin with `environment.py` (what a run needs), `source.py` (who makes it) and `env_batch.py` (what
collection steps). `gymnasium_env.py`, `making.py` and `flat_env.py` adapt Gymnasium's environments,
`joint_env.py` those of PettingZoo, `simulator.py` those in another interpreter. `challenge.py` says
what a guest can tell.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workflow_rl.environments.batched_env import BatchedEnv as BatchedEnv
    from workflow_rl.environments.joint_batch import BatchedTeamEnv as BatchedTeamEnv
    from workflow_rl.environments.joint_batch import TeamStep as TeamStep


def __getattr__(name: str) -> Any:
    if name in ("BatchedEnv", "BatchedTeamEnv", "TeamStep"):
        # It imports Gymnasium, which an error in the options does without.
        from workflow_rl.environments import joint_batch

        return getattr(joint_batch, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
