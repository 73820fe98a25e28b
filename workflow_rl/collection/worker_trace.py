"""What a traced worker records: marks, which it sends along with answers."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from workflow_rl.agents.policies.numpy_policy import burn_in_of
from workflow_rl.collection.trace import ACTIVITY_BITS, Activity

if TYPE_CHECKING:
    from workflow_rl.agents.policies.distributions import Actions, Choice
    from workflow_rl.agents.policies.numpy_policy import Actor
    from workflow_rl.environments.env_batch import EnvBatch, Obs, StepAnswers
    from workflow_rl.environments.episode import EpisodeSpec

# Nanoseconds between messages with marks. At every step of a barrier they would cost several
# percent of the speed.
SENT_EVERY = 50_000_000

# To look up a member of an enumeration takes as long as to read the clock.
_STEPPING, _SENDING = int(Activity.STEPPING), int(Activity.SENDING)


class WorkerMarks:
    """The marks of a worker that are not sent yet.

    If the worker acts by itself, only its first step after a reset or a message is recorded as
    stepping and acting, and the rest as playing: reading the clock twice a step would cost a
    percent of CybORG's speed. If the main process acts, every step is a message.

    due: marks are sent with the first message whose mark is not below this.
    """

    def __init__(self) -> None:
        self.envs: TracedEnvs | None = None
        self.actor: TracedActor | None = None
        self.due = 0
        self._marks: list[int] = []

    def add(self, activity: int) -> int:
        """Mark that this activity begins now. Return the mark."""
        marked = time.perf_counter_ns() << ACTIVITY_BITS | activity
        self._marks.append(marked)
        return marked

    def turn_to(self, activity: int) -> int:
        """Mark that this activity begins now, and watch the step after it. Return the mark."""
        if self.actor is not None and self.envs is not None:
            self.actor.watch()
            self.envs.watch()
        return self.add(activity)

    def take(self) -> bytes:
        """Return all marks so far, int64, and forget them."""
        self.due = self._marks[-1] + (SENT_EVERY << ACTIVITY_BITS)
        marks = array("q", self._marks).tobytes()
        self._marks.clear()
        return marks

    def along(self, answer: Any) -> Any:
        """Return the message for an answer that is sent now, with the marks if they are due.

        `Trace.take_marks` reads the message.
        """
        return (answer, self.take()) if self.turn_to(_SENDING) >= self.due else answer

    def last(self) -> tuple[None, bytes]:
        """Return the last message: all marks that are left, and no answer."""
        self.add(Activity.IDLE)
        return None, self.take()


class TracedEnvs:
    """Envs that mark resetting and, while watched, stepping."""

    step: Callable[..., StepAnswers]

    def __init__(self, envs: EnvBatch, marks: WorkerMarks) -> None:
        self.n_envs = envs.n_envs
        self.close = envs.close
        self._envs = envs
        self._marks = marks
        marks.envs = self
        self.watch()

    def watch(self) -> None:
        """Mark the next step."""
        self.step = self._first_step

    def reset(self, envs: Sequence[int], specs: Sequence[EpisodeSpec]) -> Obs:
        self._marks.turn_to(Activity.RESETTING)
        return self._envs.reset(envs, specs)

    def _first_step(self, envs: Sequence[int], actions: Actions) -> StepAnswers:
        self._marks.add(_STEPPING)
        if self._marks.actor is not None:
            self.step = self._envs.step
        return self._envs.step(envs, actions)


class TracedActor:
    """An actor that, while watched, marks acting and then, from its next action on, playing."""

    act: Callable[..., Choice]

    def __init__(self, actor: Actor, marks: WorkerMarks) -> None:
        self.policy_version = actor.policy_version
        self.burn_in = burn_in_of(actor)
        self.reset = actor.reset
        self._actor = actor
        self._marks = marks
        marks.actor = self
        self.watch()

    def watch(self) -> None:
        """Mark the next action."""
        self.act = self._first_act

    def _first_act(self, *observed: Any) -> Choice:
        self._marks.add(Activity.ACTING)
        self.act = self._second_act
        return self._actor.act(*observed)

    def _second_act(self, *observed: Any) -> Choice:
        self._marks.add(Activity.PLAYING)
        self.act = self._actor.act
        return self._actor.act(*observed)
