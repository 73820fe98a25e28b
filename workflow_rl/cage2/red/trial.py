"""A worker tries the red agents of the user's own before a run begins, as it tries environments."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from workflow_rl.agents.user_modules import in_one_line
from workflow_rl.cage.attackers import AttackerError
from workflow_rl.cage2.attackers import Asleep, OneByOne
from workflow_rl.cage2.compiled.batched_simulator import CompiledEnvs
from workflow_rl.cage2.compiled.description import tables_of
from workflow_rl.cage2.compiled.red_simulator import RedSimulator
from workflow_rl.cage2.red.user_reds import in_cyborg
from workflow_rl.cage2.scenario2 import RED_AGENTS
from workflow_rl.collection import try_in_worker
from workflow_rl.environments.environment import InvalidEnvironmentError
from workflow_rl.environments.episode import EpisodeSpec
from workflow_rl.environments.facts import Tell
from workflow_rl.life import alive

if TYPE_CHECKING:
    from workflow_rl.cage2.env.environment import Cage2
    from workflow_rl.environments.env_batch import EnvBatch

STEPS = 30
"""The most steps of an episode that tries a red agent."""
DIFFERENT = "two episodes of {} with one seed differ: does it draw from more than Python's random?"


def found_by_trying(environment: Cage2) -> str | None:
    """Return why episodes are not determined by their seeds, if they are not.

    Raises InvalidEnvironmentError for a red agent that cannot play.
    """
    try:
        reds = environment.opponents
        if len(in_cyborg(reds, environment.network)) < len(reds.foreign):
            # Compile, so that the workers find it on disk: a trial is soon given up.
            max_steps, tables = environment.max_steps, tables_of(environment.network)
            batch = RedSimulator(1, max_steps, {"": OneByOne(Asleep)}, tables=tables)
            envs = CompiledEnvs(batch, max_steps)
            for red_agent in ("", RED_AGENTS[2]):
                envs.reset([0], [EpisodeSpec(0, red_agent, 0, 0)])
                envs.step([0], np.zeros(1, np.int64))
        tried = ", ".join(environment.foreign)
        for answer in try_in_worker.ask(functools.partial(_tell_of, environment), tried):
            if isinstance(answer, InvalidEnvironmentError):
                raise answer
            return str(answer)
    except (AttackerError, InvalidEnvironmentError) as error:
        raise InvalidEnvironmentError("red_agent", str(error)) from None
    return None


def _tell_of(environment: Cage2, tell: Tell) -> None:
    for attacker in environment.reds.foreign:
        try:
            envs = environment.make_envs(1)
            first = _episode(envs, attacker.name, environment.episode_steps)
            if _episode(envs, attacker.name, environment.episode_steps) != first:
                tell(DIFFERENT.format(attacker.name))
                return
        except BaseException as error:  # SystemExit too.
            problem = error if error.__cause__ is None else error.__cause__
            is_ours = isinstance(problem, AttackerError)
            why = f"{attacker.name} cannot play: {in_one_line(problem)}"
            tell(InvalidEnvironmentError("red_agent", str(problem) if is_ours else why))
            return


def _episode(envs: EnvBatch, red_agent: str, most_steps: int) -> list[Any]:
    rows = [envs.reset([0], [EpisodeSpec(0, red_agent, 0, 0)]).tolist()]
    for _ in range(min(STEPS, most_steps)):
        alive()
        answers = envs.step([0], np.zeros(1, np.int64))
        rows.append((answers.obs.tolist(), answers.reward.tolist()))
    return rows
