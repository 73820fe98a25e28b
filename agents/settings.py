"""The base of every config, which is typed, frozen and checked, and raises only ConfigError. Also
the settings that all algorithms of this package share."""

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
from pydantic_core import CoreSchema, core_schema

from workflow_rl.agents.policies.networks import NETWORKS
from workflow_rl.errors import ConfigError

LARGEST_COUNT = 2**63 - 1
LARGEST_LAYER, MOST_LAYERS = 16_384, 32
MOST_LISTED = 20
"""The most names that an error lists. If there are more, it lists names like the wrong name."""


@dataclass(frozen=True, eq=False)
class OneOf:
    """Restrict a text field to names. Each check reads the names again: a registry may grow."""

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
    """Replace a text field, a name or a file's path, by the result of `read`, such as the file's
    content. `read` must return its own results unchanged, and may raise ValueError.

    The first line of a long content describes the content. names: values that `read` does not
    change, so that a stranger's file may have these values too.
    """

    read: Callable[[str], str]
    names: Collection[str] = ()

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self.read, handler(source))


class ForTeams:
    """A mark of settings that have no effect for a single agent."""


class WithTeacher:
    """A mark of settings that have no effect without a teacher."""


def is_marked(field: FieldInfo, kind: type) -> bool:
    return any(isinstance(mark, kind) for mark in field.metadata)


def giver(settings: type[BaseModel], name: str) -> type:
    """Return the class with a setting's default: the most derived class that declares it."""
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
    """A frozen config. The constructor raises ConfigError.

    The command line and the reference pages are made from the fields' types, ranges and
    descriptions.
    """

    # `defer_build`, because building a validator takes milliseconds, and --help needs none.
    model_config = ConfigDict(
        # Pydantic before 2.10 warned of names such as model_every.
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
    """Return the first problem of a validation, in one line with the field's name."""
    problem = error.errors(include_url=False)[0]
    cause = problem.get("ctx", {}).get("error")
    if isinstance(cause, ConfigError):
        return cause
    name = str(problem["loc"][0]) if problem["loc"] else ""
    if problem["type"] == "extra_forbidden":
        return ConfigError(name, f"there is no such setting: there is {', '.join(fields)}")
    if cause is not None:  # The `ValueError` of a validator.
        return ConfigError(name, str(cause))
    value = f"{problem['input']!r:.100}"
    what = problem["msg"].removeprefix("Input ").removeprefix("should be ")
    return ConfigError(name, f"{value} is not allowed: it must be {what}")


def _name_of(network: Any) -> Any:
    """Register a user's own class of networks, and return its name. Return names unchanged."""
    if not isinstance(network, type):
        return network
    from workflow_rl.agents.policies.own_network import kind_of

    return kind_of(network)


class NetworkSettings(Settings):
    """The networks, the optimizer and the rewards of an actor-critic algorithm."""

    network: Annotated[str, OneOf(NETWORKS), BeforeValidator(_name_of)] = Field(
        default="mlp",
        description="Kind of network of the actor and the critic. In gru and lstm, the last "
        "hidden layer has a memory of the episode. frame-stack sees the last observations at "
        "once. cnn sees images by convolutions. entities shares its weights between the entities "
        "that an environment declares, such as hosts. graph adds attention along the edges that "
        "the environment declares between entities. module:Name imports a torch module of your "
        "own.",
    )
    network_args: dict[str, Any] = Field(
        default={},
        description="Further settings of this kind of network. gru, lstm: seen_again, the number "
        "of observations before an unroll that the network sees again, 64 by default. frame-stack: "
        "frames, the number of observations that the network sees at once, 4 by default. cnn: "
        "convolutions, rows of filters, size and stride, such as [[16,3,1],[32,3,1]]. The default "
        "is Mnih et al. 2015, with smaller filters for small images. entities: heads, the heads of "
        "the attention, 4 by default. With 0, each entity gets the mean and the maximum over the "
        "entities, which is faster. rounds, how often the entities exchange information, 1 by "
        "default. graph: heads and rounds as in entities, with 1 head for each relation of the "
        "edges by default.",
    )
    hidden_sizes: LayerSizes = Field(
        default=(64, 64), description="Hidden layers, in the actor and in the critic each."
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
