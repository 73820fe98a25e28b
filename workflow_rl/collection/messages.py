"""The messages between a pool and its workers: requests, replies and failures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from workflow_rl.environments.episode import EpisodeSpec

if TYPE_CHECKING:
    from workflow_rl.collection.assignments import EnvPosition
    from workflow_rl.environments.env_batch import EnvBatch


class Command(Enum):
    """What a pool asks of a worker. The worker answers with replies, or with a Failure."""

    START = "start"  # Not sent. Reply: None, once the envs are made.
    LOAD_ACTOR = "load actor"  # Payload: a pickled Actor. No reply.
    PLAY = "play episodes"  # Payload: list[EpisodeSpec]. Replies: list[Trajectory], as they end.
    UNROLL = "unroll"  # Payload: Unroll. Replies: list[Trajectory].
    RESET = "reset"  # Payload: (envs, specs). Reply: StepAnswers, whose rewards are 0.
    STEP = "step"  # Payload: (envs, actions). Reply: StepAnswers.
    ASK = "try out"  # Payload: a pickled Asked. Replies: what it tells, then None.
    CLOSE = "close"  # No reply.


class Request(NamedTuple):
    """A message from the pool to a worker."""

    command: Command
    payload: Any = None


class Reply(NamedTuple):
    """A message from a worker. busy_seconds: wall time that it spent stepping or acting for it."""

    result: Any
    busy_seconds: float = 0.0


class Failure(NamedTuple):
    """The last message of a worker that an exception ended.

    summary: the exception in one line, with the file and line of the user's code that raised it.
    traceback: of the exception, without the worker's own frames. spec: the episode that raised it,
    if the exception came from an episode. final: why no other worker can do better, if none can.
    """

    command: Command
    summary: str
    traceback: str
    spec: EpisodeSpec | None = None
    final: str | None = None


class Numbered(NamedTuple):
    """A message in a pipe. Only a message with the next number answers the request.

    request: the number of the request. nth: the number of the message among its worker's messages.
    """

    request: int
    nth: int
    message: Any


Asked: TypeAlias = "Callable[[EnvBatch, Callable[..., object]], None]"
"""Called in a worker with its envs, and with a function that sends what it is called with."""


class Unroll(NamedTuple):
    """Step every env of the worker `n_steps` times from where the last unroll left it.

    positions: where each env is. None: the worker knows, as it has played nothing else since.
    """

    n_steps: int
    positions: Sequence[EnvPosition] | None
