"""Registers the environment: with Gymnasium, whose plugins are modules that do so when imported,
and as the guest that this package's trainers train on unless told otherwise.

After `import workflow_rl`, `gymnasium.make("workflow_rl/CAGE2-v0")` makes a `Cage2Env`, and
`gymnasium.make_vec` a `CompiledVectorEnv`. Without it, and in every process that has not imported
it, `"workflow_rl:workflow_rl/CAGE2-v0"` names both the module and the environment. No simulator is
imported before an environment is made.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import gymnasium

from workflow_rl.cage2.env.environment import Cage2, make_cage2
from workflow_rl.cage2.env.options import chosen_args, evaluation_arguments
from workflow_rl.environments.environment import DEFAULT_ENV, Guest, register

ENV_ID = DEFAULT_ENV


def register_envs() -> None:
    """Register ENV_ID, unless it is."""
    if ENV_ID not in gymnasium.registry:
        gymnasium.register(
            ENV_ID,
            entry_point="workflow_rl.cage2.env.cage2_env:Cage2Env",
            vector_entry_point="workflow_rl.cage2.env.vector_env:CompiledVectorEnv",
        )
    register(
        Guest(
            env_id=ENV_ID,
            make=make_cage2,
            argument_names=tuple(field.name for field in dataclasses.fields(Cage2)),
            option_names=(
                *("red_agent", "max_steps", "simulator", "stock_simulator"),
                *("observation", "actions", "opening"),
            ),
            options="workflow_rl.cage2.env.options:training_options",
            chosen_args=chosen_args,
            evaluate="workflow_rl.cage2.scoring.evaluation:evaluate",
            evaluation_arguments=evaluation_arguments,
            measured={"stock": {"simulator": "cyborg-stock"}, "cyborg": {"simulator": "cyborg"}},
            fastest={"simulator": "compiled"},
            target_return=-60.0,
            choose_best="workflow_rl.cage2.scoring.selection:choose_best",
            known_returns="workflow_rl.cage2.scoring.leaderboard:known_returns",
            hint="workflow_rl.cage2.env.options:hint",
            exports={"cage2": "workflow_rl.cage2.scoring.submission.export:write_submission"},
            released={"champion": Path(__file__).parent / "agent" / "released" / "champion.npz"},
            report="workflow_rl.cage2.scoring.report:sections",
        )
    )


register_envs()
