"""Red's side of a challenge as the Environment of a run: what the challenges have in common."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from workflow_rl.environments.environment import InvalidEnvironmentError


@dataclass(frozen=True)
class AgainstBlue:
    """Red's side, against a Blue that does not learn. named_by_file: see `Guest.foreign`.

    The arguments are checked elsewhere, and methods import what they need: see `Cage2`. A pickled
    copy holds Blue itself: workers find no agents.
    """

    blue_agent: str = "champion"
    max_steps: int = 100
    named_by_file: bool = field(default=False, compare=False, repr=False)

    variants: ClassVar[tuple[str, ...]] = ()
    steps_together: ClassVar[bool] = True
    plays_together: ClassVar[bool] = True

    @property
    def args(self) -> Mapping[str, Any]:
        """All arguments."""
        args = dataclasses.asdict(self)
        del args["named_by_file"]
        return args

    @property
    def blue_name(self) -> str:
        """Blue's name, that of a run's folder if it is one."""
        return os.path.basename(os.path.normpath(self.blue_agent))

    @functools.cached_property
    def weights(self) -> Mapping[str, float]:
        """The blue agents, with weights. Raises InvalidEnvironmentError."""
        from workflow_rl.environments.one_side import weights_of

        return weights_of(self.blue_agent, "blue_agent")

    @property
    def foreign(self) -> list[str]:
        """The paths of blue agents that the challenge does not bring."""
        return [agent for agent in self.weights if agent not in self._brought()]

    @functools.cached_property
    def blue(self) -> Any:
        """Blue, as the envs ask it. Raises InvalidEnvironmentError if there is no such agent, or if
        only a file names it."""
        if self.named_by_file and self.foreign:
            told = f"{self.foreign[0]} is named by a file: it is not read"
            raise InvalidEnvironmentError("blue_agent", told)
        return self._made()

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) if self.named_by_file else {**vars(self), "blue": self.blue}

    def _brought(self) -> Collection[str]:
        """Return the names of the agents that the challenge brings."""
        raise NotImplementedError

    def _made(self) -> Any:
        """Return `blue`, which is there to be read. Raise InvalidEnvironmentError otherwise."""
        raise NotImplementedError
