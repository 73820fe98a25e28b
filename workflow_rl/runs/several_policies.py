"""A run of several policies: their first settings, how they learn from each other, their folder.

Each policy has a run's folder. One file beside these folders describes the policies. Settings and
names of a population follow Sample Factory (Petrenko et al. 2020). Does not import torch.
"""

import dataclasses
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from workflow_rl.agents.settings import Count, NotNegative, Settings, Share
from workflow_rl.errors import ConfigError, UserError
from workflow_rl.output_files import (
    MOST_OF_AGENT,
    MOST_OF_LONG_RECORD,
    begin_folder,
    copy_file,
    read_json,
    reading,
    remove_own,
    require_no_links,
    write_json,
)
from workflow_rl.runs.config import POPULATION_FILE, TrainConfig
from workflow_rl.terminal import shortened

Values = dict[str, float]
"""Settings of PPO, by name."""

SHARES = ("discount", "gae_lambda")
"""Settings whose distance from 1 is drawn and perturbed."""
VARIABLE = (
    "learning_rate",
    "entropy_coef",
    "clip_range",
    "value_coef",
    "max_grad_norm",
    "reward_scale",
    *SHARES,
)


class Copy(NamedTuple):
    """A copy at a meeting: the policy `of` took over the policy `source`."""

    of: int
    source: int


class ExchangeConfig(Settings):
    """How members of a population learn from each other. The constructor raises ConfigError.

    At a meeting, one of the worst members takes over the agent and the settings of one of the best
    members, if the best member is better by more than both gaps.
    """

    ranges: dict[str, Annotated[tuple[float, float], Field(strict=False)]] = Field(
        description="The smallest and the largest value of each setting that members differ in. "
        "Each member begins with a value drawn log-uniformly."
    )
    period: Count = Field(
        description="Number of episodes of each member between meetings; with total_steps, number "
        "of env steps. A rollout may be longer."
    )
    start: Count = Field(  # type: ignore[assignment]
        None, description="Episodes or env steps before the first meeting. By default one period."
    )
    replace_fraction: Share = Field(
        0.3,
        description="Share of the members that count as the best, and share that counts as the "
        "worst. Each is rounded up, and is at most half.",
    )
    replace_gap: NotNegative = Field(
        0.1,
        description="A best member replaces a worst member only if its lead is greater than this "
        "share of the worse score.",
    )
    replace_gap_absolute: NotNegative = Field(
        1e-6,
        description="The lead in score must also be greater than this number.",
    )
    mutation_rate: Share = Field(
        0.15,
        description="Probability that a setting changes, in a member that is not among the best.",
    )
    perturb_min: Annotated[float, Field(ge=1)] = Field(
        1.1, description="Smallest factor by which a setting is multiplied or divided."
    )
    perturb_max: Annotated[float, Field(ge=1)] = Field(
        1.5, description="Largest factor by which a setting is multiplied or divided."
    )
    rank_by: Literal["training", "evaluation"] = Field(
        "training",
        description="training: by the mean return of the last 100 training episodes. evaluation: "
        "by the mean return of eval_episodes greedy episodes, which are equal for all members.",
    )

    def __init__(self, **values: Any) -> None:
        if values.get("start") is None:
            values = {**values, "start": values.get("period")}
        super().__init__(**values)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.perturb_max < self.perturb_min:
            raise ConfigError(
                "perturb_max",
                f"{self.perturb_max:g} is too small: it must be ",
                "perturb_min",
                f", {self.perturb_min:g}, or greater",
            )
        for name, (low, high) in self.ranges.items():
            if name not in VARIABLE:
                raise ConfigError("ranges", f"{name!r} is not one of {', '.join(VARIABLE)}")
            require_range(name, low, high)
        return self


def require_range(name: str, low: float, high: float) -> None:
    """Raise ConfigError for ends between which no log-uniform value can be drawn."""
    below_one = name not in SHARES or high < 1
    if not (0 < low <= high < math.inf and below_one):
        raise ConfigError(
            "ranges",
            f"{name}={low:g}:{high:g} is no range: give the smallest and the largest value, "
            f"greater than 0{' and less than 1' * (name in SHARES)}",
        )


def member_configs(config: TrainConfig, n_policies: int) -> list[TrainConfig]:
    """Return the configs of several policies, each with its own seed. Raises ConfigError."""
    require_shareable(config)
    others = range(config.seed + 1, config.seed + n_policies)
    return [config, *(config.changed(seed=seed) for seed in others)]


def require_same_end(config: TrainConfig) -> None:
    """Raise ConfigError if a member could end before the other members."""
    for name in ("stop_at_return", "patience"):
        if (value := getattr(config, name)) is not None:
            raise ConfigError(
                name, f"{value} does not go with a population, whose policies end together"
            )


def require_shareable(config: TrainConfig) -> None:
    """Raise ConfigError if several policies with this config cannot share workers."""
    if config.batching != "exact-lag":
        raise ConfigError(
            "batching",
            f"{config.batching} does not go with several policies: they share workers batch by "
            "batch, with exact-lag",
        )
    if config.num_steps_per_env is not None:
        raise ConfigError(
            "num_steps_per_env",
            f"{config.num_steps_per_env} does not go with several policies: they share envs from "
            "one complete episode to the next",
        )


@dataclass(frozen=True)
class Meeting:
    """The exchange in a population at one point.

    at: the members' episodes (or env steps) so far. scores, settings: the score of each member, and
    its settings after the exchange.
    """

    at: int
    scores: list[float]
    copies: list[Copy]
    settings: list[Values]


@dataclass(frozen=True)
class PopulationRecord:
    """The content of POPULATION_FILE.

    configs: `TrainConfig.to_save` of each policy at its start. exchange: the settings by which the
    policies learn from each other; None if they do not. meetings: the meetings so far.
    """

    configs: list[dict[str, Any]]
    exchange: dict[str, Any] | None = None
    meetings: list[Meeting] = field(default_factory=list)

    def write(self, path: Path) -> None:
        write_json(path / POPULATION_FILE, dataclasses.asdict(self))

    def folders(self, path: Path) -> list[Path]:
        return [policy_folder(path, number) for number in range(len(self.configs))]


def policy_folder(path: Path, number: int) -> Path:
    return path / f"policy-{number}"


def begin_population(path: Path, record: PopulationRecord) -> None:
    """Make the folder, which must be new or empty. Raises UserError."""
    begin_folder(path, POPULATION_FILE, dataclasses.asdict(record))


def read_population(path: Path) -> PopulationRecord:
    """Return the record in a folder of several policies. Raises UserError."""
    with reading(path / POPULATION_FILE):
        values = read_json(path / POPULATION_FILE, MOST_OF_LONG_RECORD)
        configs = [TrainConfig.from_dict(config) for config in values["configs"]]
        if not configs:
            raise ValueError("it has no policies")
        exchange = values["exchange"]
        if exchange is not None:
            exchange = ExchangeConfig(**exchange).to_dict()
        names = () if exchange is None else exchange["ranges"].keys()
        meetings = [_meeting(meeting, configs, names) for meeting in values["meetings"]]
        record = PopulationRecord(values["configs"], exchange, meetings)
        require_no_links(*record.folders(path))
        return record


def _meeting(
    values: Mapping[str, Any], configs: Sequence[TrainConfig], names: Collection[str]
) -> Meeting:
    n_policies = len(configs)
    scores = [float(score) for score in values["scores"]]
    settings = [
        {str(name): float(value) for name, value in member.items()} for member in values["settings"]
    ]
    copies = [Copy(int(of), int(source)) for of, source in values["copies"]]
    numbers = {number for copy in copies for number in copy}
    if len(scores) != n_policies or len(settings) != n_policies:
        raise ValueError(f"a meeting is not of {n_policies} policies")
    if not numbers <= set(range(n_policies)):
        raise ValueError(f"there is no policy {max(numbers)}")
    for config, drawn in zip(configs, settings, strict=True):
        if drawn.keys() != set(names):
            raise ValueError(f"a meeting has other settings than {', '.join(names)}")
        config.settings.changed(**drawn)  # Raises ValueError.
    at = int(values["at"])
    if not 0 <= at < 2**63:
        raise ValueError(f"a meeting is at {at}")
    return Meeting(at, scores, copies, settings)


@contextmanager
def unfinished_population(path: Path) -> Iterator[None]:
    """Remove an earlier summary while the policies train. If an error ends the training, write a
    summary that says why. Raises UserError."""
    try:
        remove_own(path / "summary.json")
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}") from None
    try:
        yield
    except BaseException as error:
        content = {"finished": False, "reason": shortened(str(error)) or type(error).__name__}
        with suppress(OSError):
            write_json(path / "summary.json", content)
        raise


def finish_population(path: Path, summaries: Sequence[Mapping[str, Any]], best: int) -> None:
    """Copy the best policy's config.json and best.safetensors into the folder, and write a summary
    of all policies. Raises UserError."""
    try:
        for name in ("config.json", "best.safetensors"):
            copy_file(policy_folder(path, best) / name, path / name, MOST_OF_AGENT)
        content = {"finished": True, "best_policy": best, "policies": list(summaries)}
        write_json(path / "summary.json", content)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}") from None
    except ValueError as error:
        raise UserError(f"{policy_folder(path, best) / name} cannot be read: {error}") from None
