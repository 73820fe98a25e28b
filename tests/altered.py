"""Environments whose answers are changed by a function."""

from collections.abc import Callable
from typing import Any

Change = Callable[[Any, Any], Any]
"""Takes an env and its answer, and returns another answer."""


def altered(base: type, step: Change | None = None, reset: Change | None = None) -> type[Any]:
    """Return a class like `base`, whose resets and steps give other answers.

    Its envs know the `seed` of their episode, and the class how many `calls` of step there were.
    """

    class Altered(base):  # type: ignore[misc]
        calls, seed = 0, None

        def reset(self, *arguments: Any, **options: Any) -> Any:
            self.seed = options.get("seed")
            answer = super().reset(*arguments, **options)
            return answer if reset is None else reset(self, answer)

        def step(self, *arguments: Any) -> Any:
            Altered.calls += 1
            answer = super().step(*arguments)
            return answer if step is None else step(self, answer)

    return Altered
