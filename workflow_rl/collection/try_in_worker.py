"""A user's environment is first made and played in a worker, because it can end its process."""

import functools
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

import cloudpickle

from workflow_rl.agents.user_modules import in_one_line
from workflow_rl.collection.local_pool import LocalPool
from workflow_rl.collection.messages import Command, TooManyFailuresError, WorkerError
from workflow_rl.collection.worker_process import is_worker
from workflow_rl.environments.environment import ENV, Environment, Facts, Separate, Tell
from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment
from workflow_rl.errors import ConfigError

TIMEOUT = 60.0
START_SECONDS = 60.0
"""How long a starting worker may be silent. It does not run the environment's code yet."""
SLOW_SECONDS = 15.0
_steps_together: dict[str, bool] = {}
"""The answers of `steps_together`, by the environment's id."""

_log = logging.getLogger(__name__)


def learn_facts(
    environment: Environment, timeout: float = TIMEOUT, plays: bool = False
) -> str | None:
    """Learn the spaces of a user's environment from a worker, unless they are known.

    timeout: the time limit in seconds for each call of the environment. plays: whether the worker
    also plays the environment. Then this function returns what `Environment.check` returns.

    Raises ConfigError.
    """
    if not isinstance(environment, GymnasiumEnvironment) or (environment.is_known and not plays):
        return None
    difference: str | None = None
    for answer in list(ask(environment.teller(plays), environment.env_id, timeout)):
        if isinstance(answer, ConfigError):
            raise answer
        if isinstance(answer, Facts):
            environment.learn(answer)
        elif isinstance(answer, Separate):
            environment.separate()
            _log.warning(
                "%s draws from the random state of the whole process: each env has a state of its "
                "own here",
                environment.env_id,
            )
        else:
            difference = answer
    return difference


def check(environment: Environment, timeout: float = TIMEOUT) -> str | None:
    """Learn the spaces, and play the environment: see `Environment.check`. Raises ConfigError."""
    if isinstance(environment, GymnasiumEnvironment):
        return learn_facts(environment, timeout, plays=True)
    return environment.check()


def steps_together(environment: Environment, timeout: float = TIMEOUT) -> bool:
    """Return `Environment.steps_together`. A worker imports the user's module for this.

    Raises ConfigError if the import of the module does not end.
    """
    if not isinstance(environment, GymnasiumEnvironment) or not environment.imports_a_module:
        return environment.steps_together
    if environment.python:
        return False
    env_id = environment.env_id
    if env_id not in _steps_together:
        named = functools.partial(_tell_of_steps, GymnasiumEnvironment(env_id))
        for answer in ask(named, env_id, timeout):
            _steps_together[env_id] = answer
    return _steps_together.get(env_id, False)


def _tell_of_steps(environment: GymnasiumEnvironment, tell: Tell) -> None:
    with suppress(BaseException):  # `check` reports what is wrong with the module.
        tell(environment.steps_together)


def ask(function: Callable[[Tell], None], env_id: str, timeout: float = TIMEOUT) -> Iterator[Any]:
    """Call a function in a new worker, and yield the answers that it sends.

    Inside a worker, the function is called directly, because a second worker is not needed.

    Args:
        function: the worker calls it with a function that sends answers. cloudpickle sends both.
        env_id: errors name this environment.
        timeout: seconds for which the worker may be silent: see `Pool`.

    Raises ConfigError if the worker ends or is silent for too long.
    """
    if is_worker():
        told: list[Any] = []
        function(lambda *answers: told.extend(answers))
        yield from told
        return
    try:
        asked = cloudpickle.dumps(functools.partial(_without_envs, function))
    except Exception as error:
        raise ConfigError(
            ENV, f"{env_id} cannot be sent to a worker: {in_one_line(error)}"
        ) from error
    preload = GymnasiumEnvironment.preload
    try:
        with LocalPool(_no_envs, 1, timeout=START_SECONDS, max_failures=0, preload=preload) as pool:
            pool.allow(timeout)
            pool.send(0, Command.ASK, asked)
            begun = time.monotonic()
            while True:
                if pool.ready([0]):
                    if (answers := pool.receive(0).result) is None:
                        return
                    yield from answers
                elif not pool.is_slow and time.monotonic() > begun + SLOW_SECONDS:
                    pool.is_slow = True
                    _log.warning(
                        "%s is slow: trying it out has taken %g s so far. Each of its calls may "
                        "take %g s (--worker-timeout)",
                        *(env_id, SLOW_SECONDS, timeout),
                    )
    except (WorkerError, TooManyFailuresError) as error:
        raise ConfigError(ENV, f"{env_id} cannot be played: {error}") from error


def _no_envs(n_envs: int) -> Any:
    return ExitStack()  # An object with the method close.


def _without_envs(function: Callable[[Tell], None], envs: Any, tell: Tell) -> None:
    function(tell)
