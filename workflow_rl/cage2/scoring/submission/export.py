"""Fill a folder to submit: the policy, copies of the modules that it needs, and an evaluation."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from workflow_rl.agents.policies.numpy_policy import PolicyParameters
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.environments.challenge import Exported
from workflow_rl.environments.environment import Environment
from workflow_rl.errors import ConfigError
from workflow_rl.runs.export import needs_of, write_handed_in

ACTING = (
    "workflow_rl.cage2.scenario.actions",
    "workflow_rl.cage2.scenario1b",
    "workflow_rl.cage2.scenario2",
    "workflow_rl.cage2.scenario.scenario",
    "workflow_rl.cage2.b_line_plan",
    "workflow_rl.errors",
    "workflow_rl.cage2.agent.views",
    "workflow_rl.cage2.agent.history_counts",
    "workflow_rl.cage2.agent.network_facts",
    "workflow_rl.cage2.attack_graph",
    "workflow_rl.cage2.compiled.blue_belief",
    "workflow_rl.cage2.compiled.red_hypothesis",
    "workflow_rl.cage2.compiled.observe",
    "workflow_rl.cage2.compiled.generator",
    "workflow_rl.cage2.compiled.red_agents",
    "workflow_rl.cage2.compiled.state",
    "workflow_rl.cage2.compiled.tables",
    "workflow_rl.cage2.compiled.description",
)
"""The modules that are copied into the folder. The folder has its own `jit`, which compiles
nothing, so the folder does not need numba."""

_FILES = Path(__file__).parent / "files"


def write_submission(
    exported: Exported,
    environment: Environment,
    folder: Path,
    more: Sequence[str] = (),
    actor: Path = _FILES / "actor.py",
) -> None:
    """Fill the folder. Raises ConfigError for an agent that cannot play the challenge.

    more: modules that the agent needs besides ACTING. actor: the file that defines `actor_of`.
    """
    if not isinstance(exported, PolicyParameters):
        raise ConfigError("env", f"{exported} is no trained agent")
    assert isinstance(environment, Cage2)
    policy = exported
    if environment.args["observation"] == "true-state":
        raise ConfigError("observation", "it sees the true state, which Blue does not")
    network = environment.network
    if environment.family is not None:
        network = Scenario.scenario2()  # The challenge plays no families.
        try:
            policy = environment.policy_for(network, policy.player()).parameters
        except ValueError as error:
            raise ConfigError("scenario", str(error)) from None
    else:
        spaces = environment.spaces()
        n_inputs = policy.described().n_inputs
        fits = (n_inputs, policy.distribution, policy.masked)
        if fits != (spaces.obs_dim, spaces.distribution, spaces.masked):
            raise ConfigError(
                "observation", f"the policy sees {n_inputs} numbers instead of {spaces.obs_dim}"
            )
    about = {
        "env": environment.env_id,
        "env_args": {**environment.args, "scenario": network.text},
        "knows_networks": environment.knows_networks,
    }
    files: dict[str, Path | str] = {
        "acting_actor.py": actor,
        "acting_jit.py": _FILES / "jit.py",
        "agent.py": _FILES / "agent.py",
        "evaluation.py": _FILES / "evaluation.py",
        "description.md": _FILES / "description.md",
        "scenario.json": json.dumps({"name": network.name, "content": network.content}),
        "requirements.txt": "# The agent needs all but csle-cyborg, which is for evaluation.py, "
        f"unless CybORG is installed.\nnumpy=={np.__version__}\n{needs_of(policy)}"
        "csle-cyborg==0.0.3\n",
    }
    write_handed_in(folder, policy, about, "policy.npz", (*ACTING, *more), files)
