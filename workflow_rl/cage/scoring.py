"""Score agents by a challenge's protocol: settings, statistics of total rewards, and a check.

The challenge's CybORG plays episodes again. The check requires equal total rewards."""

import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from workflow_rl.agents.settings import Settings
from workflow_rl.collection.messages import TooManyFailuresError
from workflow_rl.evaluation.intervals import mean_of

Check = Annotated[int, Field(ge=0, le=10_000)]
"""The number of episodes that CybORG plays again."""


def as_tuple(value: Any) -> Any:
    """Return a list or tuple as given, and any other value as a tuple of one."""
    return value if isinstance(value, list | tuple) else (value,)


class ResultSettings(Settings):
    """Settings of an evaluation: the simulator, and result files in the challenge's format."""

    simulator: str
    check: Check
    output_dir: Path | None = Field(
        default=None, description="Folder in which to write result files in the challenge's format."
    )
    author: str = Field(default="anonymous", description="Author named in these files.")
    team: str = Field(default="none", description="Team named in these files.")


class ReturnStatistics:
    """The statistics of `returns`, the total rewards of episodes."""

    @property
    def returns(self) -> Sequence[float]:
        raise NotImplementedError

    @property
    def mean(self) -> float:
        return statistics.mean(self.returns)

    @property
    def std(self) -> float:
        """Sample standard deviation of the total rewards; NaN for a single episode."""
        return statistics.stdev(self.returns) if len(self.returns) > 1 else math.nan

    @property
    def interval_95(self) -> float:
        """Half the width of the mean's 95% confidence interval; NaN for a single episode."""
        return mean_of([self.returns]).interval_95

    def statistics(self) -> dict[str, Any]:
        """Return the statistics by name, for JSON: None in place of NaN."""
        values = {name: getattr(self, name) for name in ("mean", "std", "interval_95")}
        return {name: None if math.isnan(value) else value for name, value in values.items()}


class PlayedTwice(NamedTuple):
    """The total rewards of an episode in both simulators. name: the episode's name, for errors."""

    name: str
    compiled: float
    cyborg: float


class SimulatorsDifferError(TooManyFailuresError):
    """An episode has different total rewards on CybORG and in compiled code."""


def checked(episodes: Sequence[PlayedTwice], simulator: str) -> str:
    """Require equal totals, and return a line that says so for all episodes.

    simulator: name and version of CybORG. Raises SimulatorsDifferError for the first difference."""
    for episode in episodes:
        if episode.compiled != episode.cyborg:
            raise SimulatorsDifferError(
                f"episode {episode.name} has the total {episode.compiled} in compiled code, and "
                f"{episode.cyborg} on {simulator}"
            )
    n = len(episodes)
    return f"{n} of {n} episodes have the same total on {simulator}."
