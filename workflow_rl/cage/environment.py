"""The base classes of the CAGE challenges' environments. An environment is Blue's or Red's side."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from workflow_rl.cage.attackers import AttackerError, Attackers, Roster
from workflow_rl.environments.named_by_file import Gated, refused
from workflow_rl.errors import ConfigError

if TYPE_CHECKING:
    from workflow_rl.agents.spaces import Spaces


@dataclass(frozen=True)
class CageEnvironment(Gated):
    """One side learns, and its opponents do not learn. named_by_file: see `Gated`.

    Workers import this module, so it does not check arguments with pydantic. Methods import what
    they need, so that --help shows the defaults without NumPy. A worker's pickled copy holds the
    opponents themselves, so that the worker does not have to find them."""

    named_by_file: bool = field(default=False, compare=False, repr=False, kw_only=True)

    opponents_in: ClassVar[str]
    """The argument that names the opponents."""

    @property
    def args(self) -> Mapping[str, Any]:
        args = dataclasses.asdict(self)
        del args["named_by_file"]
        return args

    @property
    def foreign(self) -> list[str]:
        """The names of opponents that the challenge does not bring."""
        raise NotImplementedError

    @functools.cached_property
    def opponents(self) -> Any:
        """The opponents, in the form that envs play. Raises ConfigError if an opponent does not
        exist, or if the user did not name an opponent that a file names."""
        self.require_named()
        try:
            return self._found_opponents()
        except AttackerError as error:
            raise ConfigError(self.opponents_in, str(error)) from None

    def require_named(self) -> None:
        """Raise ConfigError if a file names opponents that the user did not name."""
        if self.named_by_file and self.foreign:
            problem = refused(self.foreign[0], self.opponents_in)
            raise ConfigError(self.opponents_in, problem)

    def check(self) -> str | None:
        """Raise ConfigError if a file names opponents that the user did not name."""
        self.require_named()
        return None

    def _found_opponents(self) -> Any:
        """Return `opponents`. The user named them, so their code may run. Raises AttackerError or
        ConfigError."""
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) if self.named_by_file else {**vars(self), "opponents": self.opponents}


class AgainstReds(CageEnvironment):
    """Blue learns. In each episode, Blue meets one of several red agents. roster: the names of red
    agents that the challenge knows."""

    red_agent: str

    opponents_in = "red_agent"
    roster: ClassVar[Roster]

    @property
    def episode_steps(self) -> int:
        """The number of steps of every episode."""
        raise NotImplementedError

    @functools.cached_property
    def reds(self) -> Attackers:
        """The red agents that `red_agent` names."""
        return self.roster.read(self.red_agent)

    @property
    def foreign(self) -> list[str]:
        return [attacker.name for attacker in self.reds.foreign if not attacker.place]


@dataclass(frozen=True)
class AgainstBlue(CageEnvironment):
    """Red learns. In each episode, Red meets one of several blue agents."""

    blue_agent: str = "champion"
    max_steps: int = 100

    opponents_in = "blue_agent"
    variants: ClassVar[tuple[str, ...]] = ()
    steps_together: ClassVar[bool] = True
    plays_together: ClassVar[bool] = True

    @property
    def blue_name(self) -> str:
        """Blue's name. If Blue is a run's folder, the last part of its path."""
        return os.path.basename(os.path.normpath(self.blue_agent))

    @functools.cached_property
    def weights(self) -> Mapping[str, float]:
        """The weight of each blue agent, by name. Raises ConfigError."""
        from workflow_rl.environments.environment import weights_of

        return weights_of(self.blue_agent, "blue_agent")

    @property
    def foreign(self) -> list[str]:
        return [agent for agent in self.weights if agent not in self._brought()]

    def _brought(self) -> Collection[str]:
        """Return the names of the agents that the challenge brings."""
        raise NotImplementedError

    def spaces(self) -> Spaces:
        raise NotImplementedError

    def check(self) -> None:
        """Raise ConfigError if the blue agent does not exist. The trial step also compiles Red's
        side, so that workers load the compiled code from disk."""
        import numpy as np

        from workflow_rl.environments.episode import EpisodeSpec

        team = self.spaces().team
        shape = (1,) if team is None else (1, len(team.agents))
        envs = self.make_envs(1)
        envs.reset([0], [EpisodeSpec(0, "", 0, 0)])
        envs.step([0], np.zeros(shape, np.int64))
