"""What an environment is, and how a user's name for an environment becomes an environment.

An id or `module:name` with arguments goes in. An `Environment` comes out: spaces, and batches of
envs whose observations are flat rows. Guests bring their own environments.

Begin with `environment.py` (what a run needs), `source.py` (who makes it) and `env_batch.py` (what
collection steps). `gymnasium_env.py`, `making.py` and `flat_env.py` adapt Gymnasium's environments.
`joint_env.py` adapts PettingZoo's environments, and `simulator.py` environments in another
interpreter. `challenge.py` lists what a guest can bring.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workflow_rl.environments.batched_env import BatchedEnv as BatchedEnv
    from workflow_rl.environments.joint_batch import BatchedTeamEnv as BatchedTeamEnv
    from workflow_rl.environments.joint_batch import TeamStep as TeamStep


def __getattr__(name: str) -> Any:
    if name in ("BatchedEnv", "BatchedTeamEnv", "TeamStep"):
        # The import of Gymnasium is slow, and not needed to report an error in the options.
        from workflow_rl.environments import joint_batch

        return getattr(joint_batch, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
