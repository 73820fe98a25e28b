"""Types of option values."""

from __future__ import annotations

import json
import math
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from workflow_rl.environments.gymnasium_ids import register_envs

if TYPE_CHECKING:
    from workflow_rl.agents.algorithm import Algorithm

MOST_POLICIES = 1000


class LayerSizes(click.ParamType):
    """Comma-separated positive integers, as a tuple."""

    name = "n,n,..."

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        try:
            sizes = tuple(int(part) for part in value.split(","))
        except ValueError:
            sizes = ()
        if not sizes or min(sizes) < 1:
            self.fail(f"{value!r} is not a list of positive layer sizes like 64,64", param, ctx)
        return sizes


class FiniteRange(click.FloatRange):
    """A FloatRange that takes neither nan nor inf."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number", param, ctx)
        return number

    def _describe_range(self) -> str:
        return "" if self.min is None and self.max is None else super()._describe_range()


class UsablePath(click.Path):
    """A path of a file or folder, which need not exist, and that the system can look up.

    Pipes and devices are refused: reading them could wait forever.
    """

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = Path(str(super().convert(value, param, ctx)))
        try:
            mode = path.stat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            return path
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            self.fail(f"{path!s:.200} cannot be used: {reason}", param, ctx)
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            self.fail(f"{path} is neither a file nor a folder", param, ctx)
        return path


class OutputFile(UsablePath):
    """A file to write, whose name ends in one of `endings`, like ".json", or in none."""

    def __init__(self, *endings: str) -> None:
        super().__init__()
        self._endings = endings

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = super().convert(value, param, ctx)
        if path.suffix.lower() not in ("", *self._endings):
            self.fail(f"{path}: give a name that ends in {' or '.join(self._endings)}", param, ctx)
        return path


class EnvArg(click.ParamType):
    """key=value, as a pair. The value is read as JSON if it is JSON, and else is the text."""

    name = "key=value"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, Any]:
        if isinstance(value, tuple):
            return value
        key, equals, text = value.partition("=")
        if not equals or not key.isidentifier():
            self.fail(f"{value!r} is not of the form key=value", param, ctx)
        if text in ("True", "False"):
            return key, text == "True"
        try:
            return key, json.loads(text)
        except (ValueError, RecursionError):
            return key, text


class Range(click.ParamType):
    """NAME=SMALLEST:LARGEST, as a setting's name and a pair of numbers."""

    name = "NAME=SMALLEST:LARGEST"

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, tuple[float, float]]:
        if isinstance(value, tuple):
            return value
        name, _, ends = value.partition("=")
        if name.replace("-", "_") not in self._names:
            self.fail(f"{name!r} is not one of {spelled(self._names)}", param, ctx)
        try:
            low, high = map(float, ends.split(":"))
        except ValueError:
            self.fail(f"{value!r} is not of the form {name}=1e-4:1e-2", param, ctx)
        return name.replace("-", "_"), (low, high)


def typed_algorithm(name: str) -> Algorithm:
    """Return the algorithm of a name that the user has typed. Imports that of module:Name.

    Raises ConfigError.
    """
    from workflow_rl.agents.algorithm import load

    _prepare_for(name)
    return load(name)


class AlgorithmName(click.ParamType):
    """The name of a known algorithm, or module:Name, which is imported: the user has typed it."""

    name = "ppo|sac|mbpo|module:Name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from workflow_rl.agents.algorithm import names
        from workflow_rl.agents.settings import ConfigError

        try:
            if value not in names():
                typed_algorithm(value)
        except ConfigError as error:
            self.fail(error.message, param, ctx)
        return str(value)


class NetworkName(click.ParamType):
    """The name of a known network, or module:Name, which is imported: the user has typed it."""

    name = "mlp|gru|lstm|frame-stack|module:Name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from workflow_rl.agents.policies.networks import NETWORKS

        if value in NETWORKS:
            return str(value)
        from workflow_rl.agents.policies.own_network import load_network

        _prepare_for(value)
        try:
            return load_network(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _prepare_for(value: str) -> None:
    """Register the package's environments, which the user's module may make, if it is imported."""
    if ":" in value:
        register_envs()


def spelled(names: Sequence[str]) -> str:
    """Return the names of settings as the command line spells them."""
    return ", ".join(name.replace("_", "-") for name in names)


POSITIVE = FiniteRange(min=0, min_open=True)
NOT_NEGATIVE = FiniteRange(min=0)
SHARE = FiniteRange(0, 1)
SEED = click.IntRange(0, 2**63 - 1)
COUNT = click.IntRange(min=1)
EPISODES = click.IntRange(1, 1_000_000)
POLICIES = click.IntRange(1, MOST_POLICIES)
PROCESSES = click.IntRange(1, 4096)
SECONDS = FiniteRange(0, 1_000_000, min_open=True)
PATH = UsablePath()
