"""What runs in a worker process: its loop, its envs and its actor. Imports no torch."""

from __future__ import annotations

import gc
import itertools
import os
import signal
import sysconfig
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from multiprocessing import connection, parent_process
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import cloudpickle

from agents.policies.numpy_policy import Actor
from workflow_rl.collection.env_positions import restoring_player
from workflow_rl.collection.messages import (
    Command,
    Failure,
    FreeRun,
    FreeRunCount,
    Reply,
    Unroll,
)
from workflow_rl.collection.player import at_reset, play_episodes
from workflow_rl.collection.trace import Activity
from workflow_rl.collection.worker_trace import (
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
)
from workflow_rl.environments.episode import EpisodeSpec

SECONDS_BETWEEN_SIGNS_OF_LIFE = 0.2
# The frames of neither are the user's code.

_ROOT = Path(__file__).resolve().parents[2]
_OWN_CODE = (str(_ROOT / "workflow_rl") + os.sep, str(_ROOT / "agents") + os.sep)
_LIBRARIES = tuple(sysconfig.get_path(name) + os.sep for name in ("stdlib", "purelib", "platlib"))


def worker_main(
    connection_to_main: Connection,
    pickled_make_envs: bytes,
    n_envs: int,
    step_delay: float,
    traced: bool,
) -> None:
    """Make `n_envs` envs, then answer requests until asked to close.

    step_delay: seconds that are added to every step. traced: record what the worker does, and send
    the record along with answers. The process ends at once when the main process is gone.
    """
    _die_with_main_process()
    # The garbage collector must not visit, and so copy, objects that the fork shares with others.
    gc.freeze()
    command = Command.START
    pipe: Pipe = connection_to_main
    marks = WorkerMarks() if traced else None
    if marks is not None:
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


class Worker:
    """A worker's envs and actor, and its answers to commands.

    step_delay: seconds that are added to every step. marks: the record of a traced worker.
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
        self.actor: Actor
        self.sign_of_life_at = 0.0

    def answers(self, command: Command, payload: Any) -> Iterator[Reply]:
        """Do what the command asks, and yield the replies."""
        start = time.perf_counter()
        match command:
            case Command.LOAD_ACTOR:
                self.actor = self._load(payload)
            case Command.PLAY:
                yield from self._play(payload)
            case Command.UNROLL:
                yield from self._unroll(payload)
            case Command.RESET:
                first = at_reset(self.envs.reset(*payload))
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
        start = time.perf_counter()
        for finished in play_episodes(self.envs, self.actor, specs):
            yield Reply(finished, time.perf_counter() - start)
            start = time.perf_counter()

    def _unroll(self, unroll: Unroll) -> Iterator[Reply]:
        start = time.perf_counter()
        if unroll.positions is not None:
            self.player, steps = restoring_player(self.envs, unroll.positions)
            for _ in steps:
                # Restoring long episodes must not look like a worker that hangs.
                now = time.perf_counter()
                if now - self.sign_of_life_at > SECONDS_BETWEEN_SIGNS_OF_LIFE:
                    self.sign_of_life_at = now
                    yield Reply([])
        trajectories = self.player.unroll(self.actor, unroll.n_steps)
        yield Reply(trajectories, time.perf_counter() - start)

    def _free_run(self, free_run: FreeRun) -> FreeRunCount:
        start = time.perf_counter()
        episodes = env_steps = 0
        for finished in play_episodes(self.envs, self.actor, itertools.cycle(free_run.specs)):
            episodes += len(finished)
            env_steps += sum(trajectory.length for trajectory in finished)
            if (seconds := time.perf_counter() - start) >= free_run.seconds:
                return FreeRunCount(episodes, env_steps, seconds)
        raise AssertionError("a cycle of episodes does not end")


def failure_of(command: Command, error: BaseException) -> Failure:
    """Return the message of a worker that this exception ends."""
    spec = final = None
    raised = error
    if isinstance(error, EpisodeError):
        spec, raised = error.spec, error.__cause__ or error
        if isinstance(raised, ObservationError):
            final = f"{error} {raised}"
    frames = traceback.extract_tb(raised.__traceback__)
    users = [frame for frame in frames if not frame.filename.startswith(_OWN_CODE + _LIBRARIES)]
    summary = f"{type(raised).__name__}: {raised}".splitlines()[0].rstrip(": ")
    if frames:
        place = (users or frames)[-1]
        summary += f" ({place.filename}, line {place.lineno})"
    shown = raised.__traceback__
    while users and shown is not None and shown.tb_frame.f_code.co_filename != users[0].filename:
        shown = shown.tb_next
    text = "".join(traceback.format_exception(type(raised), raised, shown))
    return Failure(command, summary, text, spec, final)


def _die_with_main_process() -> None:
    # Ctrl-C in a terminal reaches every process of the group: only the main process acts on it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, name="watch main process", daemon=True).start()
