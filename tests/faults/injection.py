"""Faults of workers: drawn from a seed, and injected into a run while it trains."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from workflow_rl.agents.policies.distributions import Actions
from workflow_rl.collection.local_pool import LocalPool
from workflow_rl.environments.env_batch import EnvBatchFactory, Obs, StepAnswers
from workflow_rl.environments.episode import EpisodeSpec

SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}
RAISES = ("create", "reset", "step")
POLL_SECONDS = 0.002


@dataclass(frozen=True)
class Fault:
    """kind: a key of SIGNALS, or the method that raises. It strikes `delay` seconds after the run
    has begun update `update`."""

    update: int
    delay: float
    worker: int
    kind: str


@dataclass(frozen=True)
class FaultPlan:
    faults: tuple[Fault, ...]

    @classmethod
    def drawn(
        cls, seed: int, counts: dict[str, int], n_updates: int, n_workers: int, delay: float = 0.05
    ) -> FaultPlan:
        """So many faults of each kind, at moments over all updates but the last."""
        draw = random.Random(seed)
        kinds = [kind for kind, count in counts.items() for _ in range(count)]
        faults = (
            Fault(
                draw.randrange(n_updates - 1),
                draw.uniform(0, delay),
                draw.randrange(n_workers),
                kind,
            )
            for kind in kinds
        )
        return cls(tuple(sorted(faults, key=lambda fault: (fault.update, fault.delay))))


class ObedientEnvs:
    """Envs that raise in a method ("create", "reset", "step") once its name is a file in `orders`.

    The process that can remove the file does so. delay: of every step, in seconds.
    """

    def __init__(self, make_envs: EnvBatchFactory, orders: Path, delay: float, n_envs: int) -> None:
        self._orders = {method: str(orders / method) for method in RAISES}
        self._obey("create")
        self.n_envs = n_envs
        self._envs = make_envs(n_envs)
        self._delay = delay
        self.close = self._envs.close

    def _obey(self, method: str) -> None:
        try:
            os.unlink(self._orders[method])
        except FileNotFoundError:
            return
        # No two are the same, as those of an episode that cannot be played would be.
        raise ArithmeticError(f"injected into {method} at {time.monotonic_ns()}")

    def reset(self, envs: Sequence[int], specs: Sequence[EpisodeSpec]) -> Obs:
        self._obey("reset")
        return self._envs.reset(envs, specs)

    def step(self, envs: Sequence[int], actions: Actions) -> StepAnswers:
        self._obey("step")
        time.sleep(self._delay)
        return self._envs.step(envs, actions)


class Injector:
    """Carries a plan out, in a thread, while a run trains with a pool.

    updates_begun: how many the run has begun so far. orders: see ObedientEnvs. `struck` counts the
    faults that have struck, each another process.
    """

    def __init__(self, plan: FaultPlan, orders: Path, updates_begun: Callable[[], int]) -> None:
        self._plan = plan
        self._orders = orders
        self._updates_begun = updates_begun
        self._run_is_over = threading.Event()
        self._lives = threading.Event()
        self._pids_struck: set[int] = set()
        self.struck: Counter[str] = Counter()

    @contextmanager
    def into(self, pool: LocalPool) -> Iterator[None]:
        thread = threading.Thread(target=self._inject, args=[pool], name="fault injector")
        thread.start()
        try:
            yield
        finally:
            self._run_is_over.set()
            thread.join()

    def keep_up(self) -> None:
        self._lives.clear()
        self._lives.wait(60)

    def _inject(self, pool: LocalPool) -> None:
        for fault in self._plan.faults:
            if not self._wait_for(lambda: self._updates_begun() > fault.update):  # noqa: B023
                break
            due = time.monotonic() + fault.delay
            self._wait_for(lambda: time.monotonic() > due)  # noqa: B023
            self._strike(pool, fault)
        self._wait_for(lambda: False)

    def _wait_for(self, condition: Callable[[], bool]) -> bool:
        """False if the run is over before."""
        while not condition():
            self._lives.set()
            if self._run_is_over.wait(POLL_SECONDS):
                return False
        return True

    def _strike(self, pool: LocalPool, fault: Fault) -> None:
        """Waits for a process in the worker's place that has not been struck, or for the method
        to have raised."""
        if fault.kind in RAISES:
            order = self._orders / fault.kind
            order.touch()
            if fault.kind == "create":
                self._signal(pool, fault.worker, signal.SIGKILL)
            if self._wait_for(lambda: not order.exists()):
                self.struck[fault.kind] += 1
        elif self._signal(pool, fault.worker, SIGNALS[fault.kind]):
            self.struck[fault.kind] += 1

    def _signal(self, pool: LocalPool, worker: int, number: signal.Signals) -> bool:
        def strikes() -> bool:
            workers = pool._workers
            if len(workers) <= worker or (pid := workers[worker].process.pid) is None:
                return False
            if pid in self._pids_struck:
                return False
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                return False  # It has raised.
            self._pids_struck.add(pid)
            return True

        return self._wait_for(strikes)
