"""Trained agents as players of the standard CAGE-2 environment: 52 bits, 145 actions."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from agents.policies.numpy_policy import Actor, NumpyPolicy
from workflow_rl.cage2.env.arguments import OBS_SIZE
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.environments.environment import Environment, InvalidEnvironmentError


def load_actor(path: str | os.PathLike[str], greedy: bool = True) -> Actor:
    """Return the actor of a run folder, checkpoint or policy file, for the 52 bits.

    Raises CheckpointError, also if the agent is not for CAGE-2.
    """
    return on_the_bits(*load_trained(path, greedy), path)


def load_trained(
    path: str | os.PathLike[str], greedy: bool = True, which: str | None = None
) -> tuple[NumpyPolicy, Environment]:
    """Return the policy of a run folder, checkpoint or policy file, and its training environment.

    Raises CheckpointError, also if the agent is not for CAGE-2.
    """
    from workflow_rl.runs.saved_agent import load_saved

    policy, environment = load_saved(Path(path), which, greedy)
    require_fitting(policy, environment, path)
    return policy, environment


def require_fitting(
    policy: NumpyPolicy, environment: Environment, path: str | os.PathLike[str]
) -> None:
    """Raise CheckpointError, naming `path`, unless the policy fits CAGE-2.

    environment: what the policy was trained on.
    """
    from workflow_rl.runs.checkpoint import CheckpointError

    spaces = (environment if isinstance(environment, Cage2) else Cage2()).spaces()
    if (policy.obs_dim, policy.distribution) == (spaces.obs_dim, spaces.distribution):
        return
    if not isinstance(environment, Cage2):
        raise CheckpointError(f"{path} was trained on {environment.env_id}, not on CAGE-2")
    raise CheckpointError(
        f"{path} has a network of another shape: from {policy.obs_dim} numbers to "
        f"{policy.network.n_outputs}, but {spaces.obs_dim} observed bits and "
        f"{spaces.distribution.n_outputs} actions are needed"
    )


def on_the_bits(policy: Actor, environment: Environment, path: str | os.PathLike[str]) -> Actor:
    """Return an actor on the 52 bits that plays with a policy of `environment`.

    Raises CheckpointError, naming `path`, if the policy sees what an evaluation does not show.
    """
    from workflow_rl.runs.checkpoint import CheckpointError

    try:
        actor = environment.bare_actor(policy)
    except InvalidEnvironmentError as error:
        raise CheckpointError(f"{path}: {error}, which no evaluation shows") from None
    if isinstance(environment, Cage2) and environment.observation == "belief":
        _compile_beliefs(actor)
    return actor


def _compile_beliefs(actor: Actor) -> None:
    # Each worker would compile the functions otherwise, without a word about the wait.
    from workflow_rl.cage2.compiled.blue_belief import BELIEF, begin_beliefs
    from workflow_rl.cage2.compiled.jit import announce_compiling

    announce_compiling("what Blue concludes", "a minute", (begin_beliefs,), BELIEF)
    for _ in range(2):
        actor.act(np.zeros((1, OBS_SIZE), np.uint8))
    actor.reset(0)
