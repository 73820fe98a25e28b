"""An env that goes wrong once, at a chosen moment, for fault injection."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium


def raise_error() -> None:
    raise ArithmeticError("the injected fault")


FAULTS: dict[str, Callable[[], None]] = {
    "exception": raise_error,
    "exit": lambda: os._exit(7),
    "killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "stopped": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "hang": lambda: time.sleep(3600),
}


class FaultyEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Lets the env be, but for `fault` at the `at`-th call of `method` ("create", "reset", "step").

    Each file that can be created among `tickets` allows it once, over all processes, and then says
    which one it was.
    """

    def __init__(
        self,
        make_env: Callable[[], gymnasium.Env[Any, Any]],
        fault: str,
        method: str,
        at: int,
        tickets: list[Path],
    ) -> None:
        super().__init__(make_env())
        self._fault, self._method, self._calls_left, self._tickets = fault, method, at, tickets
        self._maybe("create")

    def _maybe(self, method: str) -> None:
        if method != self._method:
            return
        self._calls_left -= 1
        if self._calls_left > 0:
            return
        for ticket in self._tickets:
            try:
                with ticket.open("x") as file:
                    file.write(str(os.getpid()))
            except FileExistsError:
                continue
            FAULTS[self._fault]()

    def reset(self, **options: Any) -> Any:
        self._maybe("reset")
        return self.env.reset(**options)

    def step(self, action: Any) -> Any:
        self._maybe("step")
        return self.env.step(action)
