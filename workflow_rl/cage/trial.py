"""Before a run begins, a worker tries the user's own red agents."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.user_modules import in_one_line
from workflow_rl.cage.attackers import AttackerError
from workflow_rl.collection import try_in_worker
from workflow_rl.environments.environment import Tell
from workflow_rl.environments.episode import EpisodeSpec
from workflow_rl.errors import ConfigError
from workflow_rl.life import alive

if TYPE_CHECKING:
    from workflow_rl.cage.environment import AgainstReds
    from workflow_rl.environments.env_batch import EnvBatch

DIFFERENT = "two episodes of {} with one seed differ: does it draw from more than Python's random?"
Idle = NDArray[np.int64]


def found_by_trying(environment: AgainstReds, idle: Idle, most_steps: int) -> str | None:
    """Play an episode twice against each of the user's red agents. Return None if both are equal.
    Return DIFFERENT with the name of the first red agent whose episodes differ.

    idle: Blue's actions `[1, ...]` in every step. most_steps: the largest number of steps of an
    episode. Raises ConfigError for a red agent that cannot play."""
    _ = environment.opponents  # Raises ConfigError for a red agent that does not exist.
    steps = min(most_steps, environment.episode_steps)
    tried = ", ".join(environment.foreign)
    try:
        for answer in try_in_worker.ask(
            functools.partial(_tell_of, environment, idle, steps), tried
        ):
            if isinstance(answer, ConfigError):
                raise answer
            return str(answer)  # The worker sends at most one answer.
    except ConfigError as error:
        raise ConfigError("red_agent", error.message) from None
    return None


def _tell_of(environment: AgainstReds, idle: Idle, steps: int, tell: Tell) -> None:
    for attacker in environment.reds.foreign:
        try:
            envs = environment.make_envs(1)
            first = _episode(envs, attacker.name, steps, idle)
            if _episode(envs, attacker.name, steps, idle) != first:
                tell(DIFFERENT.format(attacker.name))
                return
        except BaseException as error:  # A user's red agent may also raise SystemExit.
            problem = error if error.__cause__ is None else error.__cause__
            message = str(problem)
            if not isinstance(problem, AttackerError):
                message = f"{attacker.name} cannot play: {in_one_line(problem)}"
            tell(ConfigError("red_agent", message))
            return


def _episode(envs: EnvBatch, red_agent: str, steps: int, idle: Idle) -> list[Any]:
    """Return the observations and rewards of an episode with seed 0."""
    rows = [envs.reset([0], [EpisodeSpec(0, red_agent, 0, 0)]).tolist()]
    for _ in range(steps):
        alive()
        answers = envs.step([0], idle)
        rows.append((answers.obs.tolist(), answers.reward.tolist()))
    return rows
