"""The base of every config: typed, frozen, checked where it is made, with one error for all. And
the settings that all algorithms of this package share."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    ValidationError,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, ErrorDetails, core_schema

from workflow_rl.agents.policies.networks import NETWORKS
from workflow_rl.errors import ConfigError

LARGEST_COUNT = 2**63 - 1
LARGEST_LAYER, MOST_LAYERS = 16_384, 32
MOST_LISTED = 20
"""Names that an error lists. Of more names it gives those that are like the wrong one."""


@dataclass(frozen=True, eq=False)
class OneOf:
    """Restrict a text field to names. The names are read at each check: a registry may grow."""

    names: Collection[str]

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._checked, handler(source))

    def _checked(self, value: str) -> str:
        if value in self.names:
            return value
        if len(self.names) <= MOST_LISTED:
            raise ValueError(f"{value!r} is not one of {', '.join(self.names)}")
        from difflib import get_close_matches  # Only an error needs it.

        close = get_close_matches(value, self.names)
        meant = f". Did you mean {' or '.join(close)}?" if close else ""
        raise ValueError(f"{value!r} is not one of {len(self.names)} known names{meant}")


@dataclass(frozen=True, eq=False)
class ContentOf:
    """Restrict a text field to what `read` makes of it: of a name, or of the path of a file, whose
    content is kept. `read` leaves its own results as they are, and raises ValueError.

    Of a content of several lines, the first tells what it is. names: what it keeps as it is, so
    that a file from a stranger may say it too.
    """

    read: Callable[[str], str]
    names: Collection[str] = ()

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self.read, handler(source))


class ForTeams:
    """Marks a setting that means nothing where one agent plays alone."""


class WithTeacher:
    """Marks a setting that means nothing without a teacher."""


def is_marked(field: FieldInfo, kind: type) -> bool:
    return any(isinstance(mark, kind) for mark in field.metadata)


def giver(settings: type[BaseModel], name: str) -> type:
    """Return the class that gives a setting its default: the most derived one that declares it."""
    return next(kind for kind in settings.__mro__ if name in inspect.get_annotations(kind))


Count = Annotated[int, Field(ge=1, le=LARGEST_COUNT)]
CountOrNone = Annotated[int, Field(ge=0, le=LARGEST_COUNT)]
Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]
LayerSizes = Annotated[
    tuple[Annotated[int, Field(ge=1, le=LARGEST_LAYER)], ...],
    Field(max_length=MOST_LAYERS, strict=False),
]


class Settings(BaseModel):
    """A frozen config. Making one raises ConfigError.

    The fields' types, ranges and descriptions are all that the command line and the reference
    pages know of them.
    """

    # Building a validator takes milliseconds, which --help should not wait for.
    model_config = ConfigDict(
        # Before Pydantic 2.10 it warned of names such as model_every.
        protected_namespaces=(),
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        defer_build=True,
    )

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise config_error(error, type(self).model_fields) from None

    def changed(self, **values: Any) -> Self:
        return type(self)(**{**dict(self), **values})

    def to_dict(self) -> dict[str, Any]:
        return self.model_dump(mode="json")


def config_error(error: ValidationError, fields: Mapping[str, Any]) -> ConfigError:
    """The first problem of a validation in one line that names the field."""
    problem = error.errors(include_url=False)[0]
    cause = problem.get("ctx", {}).get("error")
    if isinstance(cause, ConfigError):
        return cause
    name = str(problem["loc"][0]) if problem["loc"] else ""
    if problem["type"] == "extra_forbidden":
        return ConfigError(name, f"there is no such setting: there is {', '.join(fields)}")
    return ConfigError(name, _message(problem))


def _message(problem: ErrorDetails) -> str:
    cause = problem.get("ctx", {}).get("error")
    if cause is not None:  # The `ValueError` of a validator.
        return str(cause)
    value = f"{problem['input']!r:.100}"
    what = problem["msg"].removeprefix("Input ").removeprefix("should be ")
    return f"{value} is not allowed: it must be {what}"


def _name_of(network: Any) -> Any:
    """Return the name of a user's own class, which becomes known by it."""
    if not isinstance(network, type):
        return network
    from workflow_rl.agents.policies.own_network import kind_of

    return kind_of(network)


class NetworkSettings(Settings):
    """The networks, the optimizer and the rewards of an actor-critic algorithm."""

    network: Annotated[str, OneOf(NETWORKS), BeforeValidator(_name_of)] = Field(
        default="mlp",
        description="Kind of network of the actor and the critic. In gru and lstm the last "
        "hidden layer remembers what the network saw in the episode. frame-stack sees the last "
        "observations at once. cnn sees images by convolutions. entities shares its weights "
        "between the hosts, or whatever else an environment declares as its entities. graph adds "
        "attention along the edges that the environment declares between them. module:Name imports "
        "a torch module of your own.",
    )
    network_args: dict[str, Any] = Field(
        default={},
        description="Further settings of this kind of network. gru, lstm: seen_again, the "
        "observations before an unroll that the network sees again, 64 by default. frame-stack: "
        "frames, the observations that the network sees at once, 4 by default. cnn: "
        "convolutions, rows of filters, size and stride, such as [[16,3,1],[32,3,1]]; by default "
        "those of Mnih et al. 2015, and small ones for small images. entities: heads, "
        "the heads of the attention, 4 by default; 0 gives each entity the mean and the maximum "
        "over the entities instead, in a fraction of the time; and rounds, how often the entities "
        "hear of one another, 1 by default. graph: the same, with heads for each relation of the "
        "edges, 1 by default.",
    )
    hidden_sizes: LayerSizes = Field(
        default=(64, 64), description="Hidden layers of the actor and, separately, of the critic."
    )
    activation: Annotated[str, OneOf(("tanh", "relu"))] = Field(
        default="tanh", description="Activation function of the hidden layers."
    )
    learning_rate: Positive = Field(default=3e-3, description="Adam's learning rate at the start.")
    discount: Share = Field(default=0.99, description="Discount factor, gamma.")
    reward_scale: Positive = Field(
        default=0.1, description="Factor on the rewards that the critic learns from."
    )

    @model_validator(mode="after")
    def _describes_a_network(self) -> Self:
        try:
            NETWORKS[self.network].of_sizes(
                1, self.hidden_sizes, 1, self.activation, self.network_args
            )
        except (ValueError, TypeError) as error:
            option = "network_args" if self.network_args else "network"
            raise ConfigError(option, str(error)) from None
        return self
