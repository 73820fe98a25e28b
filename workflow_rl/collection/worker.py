"""What a worker process is asked, what it answers, and its loop. Imports no torch."""

from __future__ import annotations

import gc
import itertools
import os
import signal
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from enum import Enum
from multiprocessing import connection, parent_process
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import cloudpickle
import numpy as np

from agents.policies.numpy_policy import Actor
from workflow_rl.collection.env_positions import EnvPosition, brought_back
from workflow_rl.collection.player import play_episodes
from workflow_rl.collection.trace import (
    Activity,
    Pipe,
    TracedActor,
    TracedEnvs,
    TracedPipe,
    WorkerMarks,
)
from workflow_rl.environments.env_batch import (
    DelayedEnvs,
    EnvBatch,
    EnvBatchFactory,
    EpisodeError,
    ObservationError,
    Transitions,
)
from workflow_rl.environments.episode import EpisodeSpec

LIFE_SECONDS = 0.2


class Command(Enum):
    """What the main process can ask of a worker. Every answer is a Reply or a Failure."""

    START = "start"  # not sent: a worker answers it once its envs are made
    LOAD_ACTOR = "load actor"  # payload: pickled Actor. No answer
    PLAY = "play episodes"  # payload: list[EpisodeSpec]. Replies: list[Trajectory], as they end
    UNROLL = "unroll"  # payload: Unroll. Replies: list[Trajectory]; empty ones on the way there
    RESET = "reset"  # payload: (envs, specs). Reply: Transitions, with nothing but obs in them
    STEP = "step"  # payload: (envs, actions). Reply: Transitions
    FREE_RUN = "free run"  # payload: FreeRun. Reply: FreeRunCount
    CLOSE = "close"  # no answer


class Request(NamedTuple):
    """Main process to worker."""

    command: Command
    payload: Any = None


class Reply(NamedTuple):
    """Worker to main process. busy_seconds: wall time it spent stepping or acting for this."""

    result: Any
    busy_seconds: float = 0.0


class Failure(NamedTuple):
    """Worker to main process: an exception ended it. spec: the episode that raised it, if one did
    and it is known which. final: why there is no use in trying it again, if there is none."""

    command: Command
    traceback: str
    spec: EpisodeSpec | None = None
    final: str | None = None


class Unroll(NamedTuple):
    """Step every env `n_steps` times from where the last unroll left it.

    slots: where they are, one for each env, if the worker does not know: it is new, or its envs
    have been used for something else.
    """

    n_steps: int
    slots: Sequence[EnvPosition] | None


class FreeRun(NamedTuple):
    """Play episodes for so long and send nothing back but their count: a collector's ceiling."""

    specs: Sequence[EpisodeSpec]
    seconds: float


class FreeRunCount(NamedTuple):
    """Episodes and env steps played, and the wall time they took."""

    episodes: int
    env_steps: int
    seconds: float


def worker_main(
    connection_to_main: Connection,
    pickled_make_envs: bytes,
    n_envs: int,
    step_delay: float,
    traced: bool,
) -> None:
    """The life of a worker: make `n_envs` envs, answer requests until told to close.

    step_delay: seconds that a step of them takes longer. traced: record what it does, and send that
    with every answer.

    Ends at once when the main process is gone, however that came about.
    """
    _die_with_main_process()
    # Objects that came with the fork stay shared with the other workers if the garbage collector
    # never visits them; the simulator's own garbage is young.
    gc.freeze()
    command = Command.START
    pipe: Pipe = connection_to_main
    marks = None
    if traced:
        marks = WorkerMarks()
        marks.add(Activity.STARTING)
        pipe = TracedPipe(connection_to_main, marks)
    try:
        worker = Worker(pickled_make_envs, n_envs, step_delay, marks)
        pipe.send(Reply(None))
        while command is not Command.CLOSE:
            command, payload = pipe.recv()
            for reply in worker.answers(command, payload):
                pipe.send(reply)
        if isinstance(pipe, TracedPipe):
            pipe.send_last()
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass  # The main process has closed its end.
    except BaseException as error:
        pipe.send(failure_of(command, error))
        raise SystemExit(1) from None


def failure_of(command: Command, error: BaseException) -> Failure:
    """What a worker answers that is handling this error."""
    spec = error.spec if isinstance(error, EpisodeError) else None
    final = f"{error} {error.__cause__}" if isinstance(error.__cause__, ObservationError) else None
    return Failure(command, traceback.format_exc(), spec, final)


class Worker:
    """A worker's envs and actor, and what it answers to each command.

    step_delay: seconds that a step of its envs takes longer. marks: of what it does; None if it is
    not traced.
    """

    def __init__(
        self,
        pickled_make_envs: bytes,
        n_envs: int,
        step_delay: float = 0.0,
        marks: WorkerMarks | None = None,
    ) -> None:
        make_envs: EnvBatchFactory = cloudpickle.loads(pickled_make_envs)
        envs = make_envs(n_envs)
        envs = DelayedEnvs(envs, step_delay) if step_delay else envs
        self.envs: EnvBatch = envs if marks is None else TracedEnvs(envs, marks)
        self.marks = marks
        self.actor: Actor | None = None
        self.shown_life_at = 0.0

    def answers(self, command: Command, payload: Any) -> Iterator[Reply]:
        """Does what is asked, answer by answer."""
        start = time.perf_counter()
        match command:
            case Command.LOAD_ACTOR:
                self.actor = self._load(payload)
            case Command.PLAY:
                yield from self._play(payload)
            case Command.UNROLL:
                yield from self._unroll(payload)
            case Command.RESET:
                first = self._reset(*payload)
                yield Reply(first, time.perf_counter() - start)
            case Command.STEP:
                transitions = self.envs.step(*payload)
                yield Reply(transitions, time.perf_counter() - start)
            case Command.FREE_RUN:
                yield Reply(self._free_run(payload))
            case Command.CLOSE:
                self.envs.close()

    def _load(self, pickled_actor: bytes) -> Actor:
        if self.marks is not None:
            self.marks.add(Activity.LOADING)
        actor: Actor = cloudpickle.loads(pickled_actor)
        return actor if self.marks is None else TracedActor(actor, self.marks)

    def _play(self, specs: Sequence[EpisodeSpec]) -> Iterator[Reply]:
        assert self.actor is not None
        start = time.perf_counter()
        for finished in play_episodes(self.envs, self.actor, specs):
            yield Reply(finished, time.perf_counter() - start)
            start = time.perf_counter()

    def _unroll(self, unroll: Unroll) -> Iterator[Reply]:
        assert self.actor is not None
        start = time.perf_counter()
        if unroll.slots is not None:
            self.player, steps = brought_back(self.envs, unroll.slots)
            for _ in steps:
                # However long that takes, the worker is not taken to hang.
                if time.perf_counter() - self.shown_life_at > LIFE_SECONDS:
                    self.shown_life_at = time.perf_counter()
                    yield Reply([])
        trajectories = self.player.unroll(self.actor, unroll.n_steps)
        yield Reply(trajectories, time.perf_counter() - start)

    def _reset(self, envs: Sequence[int], specs: Sequence[EpisodeSpec]) -> Transitions:
        nothing = np.zeros(len(envs))
        is_over = nothing.astype(bool)
        return Transitions(self.envs.reset(envs, specs), nothing, is_over, is_over.copy())

    def _free_run(self, free_run: FreeRun) -> FreeRunCount:
        assert self.actor is not None
        start = time.perf_counter()
        episodes = env_steps = 0
        for finished in play_episodes(self.envs, self.actor, itertools.cycle(free_run.specs)):
            episodes += len(finished)
            env_steps += sum(trajectory.length for trajectory in finished)
            if (seconds := time.perf_counter() - start) >= free_run.seconds:
                return FreeRunCount(episodes, env_steps, seconds)
        raise AssertionError("there is always another episode")


def _die_with_main_process() -> None:
    # Ctrl-C in a terminal reaches every process of the group: only the main one acts on it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, name="watch main process", daemon=True).start()
