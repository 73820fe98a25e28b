"""Registers the environment with Gymnasium, whose plugins are modules that do so when imported.

After `import workflow_rl`, `gymnasium.make("workflow_rl/CAGE2-v0")` makes a `CyborgEnv`, and
`gymnasium.make_vec` a `CompiledVectorEnv`. Without it, and in every process that has not imported
it, `"workflow_rl:workflow_rl/CAGE2-v0"` names both the module and the environment. No simulator is
imported before an environment is made.
"""

from __future__ import annotations

import gymnasium

ENV_ID = "workflow_rl/CAGE2-v0"


def register_envs() -> None:
    """Register ENV_ID, unless it is."""
    if ENV_ID not in gymnasium.registry:
        gymnasium.register(
            ENV_ID,
            entry_point="workflow_rl.cyborg_env:CyborgEnv",
            vector_entry_point="workflow_rl.compiled.vector_env:CompiledVectorEnv",
        )


register_envs()
