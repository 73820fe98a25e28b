"""Read saved configs, and what classes they name."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any

from pydantic import ConfigDict

from workflow_rl.agents import algorithm
from workflow_rl.agents.policies.networks import NETWORKS
from workflow_rl.agents.settings import ConfigError, Settings
from workflow_rl.agents.user_modules import place_of
from workflow_rl.errors import UserError
from workflow_rl.runs.presets import preset_named

TRUST_IT = "give --trust (in Python trust=True) if you trust whoever made the file"
WORD = re.compile(r"[\w-]*")
_accepted: set[str] = set()
"""Classes with their settings, which `accept` has let in."""


class OtherVersionError(UserError):
    """A file that another version of the package has made."""


def require_same_fields(found: Collection[str], expected: Collection[str]) -> None:
    """Raise OtherVersionError if a file's fields are not those that this version writes."""
    for name in sorted({*found} ^ {*expected}):
        what = "has" if name in found else "lacks"
        raise OtherVersionError(
            f"it was made by another version of the package: it {what} {name!r:.50}"
        )


class UnknownSettings(Settings):
    """The settings in a file whose algorithm only the file names: data, which nothing checks."""

    model_config = ConfigDict(extra="allow")


def flattened(saved: Mapping[str, Any]) -> dict[str, Any]:
    """Return a saved config with the settings of the algorithm beside the other fields."""
    return {**{n: value for n, value in saved.items() if n != "settings"}, **saved["settings"]}


def classes_in(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the classes of modules that a saved config names: "algorithm" and "network", each with
    its "module:Name"."""
    names = {"algorithm": config.get("algorithm"), "network": _settings(config).get("network")}
    return {what: name for what, name in names.items() if isinstance(name, str) and ":" in name}


def named_by_file(config: Mapping[str, Any]) -> dict[str, str]:
    """Return those of `classes_in` that nobody has imported, or that only the file gives settings
    which can name a file."""
    classes = classes_in(config)
    if not classes or (not_plain(config) and not _is_accepted(config)):
        return classes
    known = {"algorithm": algorithm.names(), "network": NETWORKS}
    return {what: name for what, name in classes.items() if name not in known[what]}


def not_plain(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a saved config, without its classes, that can name a file."""
    classes = classes_in(config)
    others = {name: value for name, value in _settings(config).items() if name not in classes}
    return {name: value for name, value in others.items() if not is_plain(value)}


def accept(config: Mapping[str, Any]) -> None:
    """Let the classes of a config be called with its settings, in this process."""
    _accepted.add(_text(config))


def _is_accepted(config: Mapping[str, Any]) -> bool:
    with suppress(RecursionError):
        return _text(config) in _accepted
    return False


def _text(config: Mapping[str, Any]) -> str:
    return json.dumps([classes_in(config), not_plain(config)], sort_keys=True, default=str)


def _settings(config: Mapping[str, Any]) -> Mapping[str, Any]:
    settings = config.get("settings")
    return settings if isinstance(settings, Mapping) else {}


def import_named(config: Mapping[str, Any]) -> None:
    """Import the classes of a config: the user trusts whoever made the file. Raises
    ConfigError."""
    from workflow_rl.agents.policies import own_network

    accept(config)
    loads = {"algorithm": algorithm.load, "network": own_network.load_network}
    for what, name in classes_in(config).items():
        try:
            loads[what](name)
        except ConfigError:
            raise
        except ValueError as error:
            raise ConfigError(what, str(error)) from None


def only_the_file_names(config: Mapping[str, Any]) -> str:
    """Return what is wrong with the classes of `named_by_file`, or with their settings, and what to
    do about it."""
    for what, name in named_by_file(config).items():
        module = name.partition(":")[0]
        if module == "__main__" or "<" in name:
            return (
                f"its {what} is {name}, a class of a script: put the class in a module, and train "
                "with that one"
            )
        if place_of(module, [os.getcwd(), *sys.path]) is None:
            return (
                f"its {what} is {name}, and no module {module} is found from here: go to the "
                "folder of the module, or ask whoever made the file for it"
            )
    names = [f"the {what} {name}" for what, name in named_by_file(config).items()]
    named = f"only the file names {' and '.join(names)}"
    settings = [f"{name}={value!r:.100}" for name, value in not_plain(config).items()]
    named = f"{named} with {', '.join(settings)}, which may name a file" if settings else named
    return f"{named}: {TRUST_IT}"


def with_network(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a TrainConfig's fields with `network` among the settings of the algorithm."""
    values = dict(given)
    if (network := values.pop("network", None)) is not None:
        settings = values.get("settings")
        if isinstance(settings, Settings):
            values["settings"] = settings.changed(network=network)
        else:
            values["settings"] = {**(settings or {}), "network": network}
    return values


def require_fields(given: Mapping[str, Any], fields: Collection[str]) -> None:
    """Raise ConfigError for a setting of the algorithm that is given as a field of TrainConfig.

    fields: the names of those that TrainConfig has.
    """
    unknown = [field for field in given if field not in fields]
    name = given.get("algorithm", preset_named(given.get("preset")).get("algorithm", "ppo"))
    if not unknown or not isinstance(name, str) or name not in algorithm.names():
        return
    for field in unknown:
        if field in algorithm.find(name).settings.model_fields:
            raise ConfigError(
                field,
                f"it is a setting of {name}: give settings={{{field!r}: {given[field]!r:.50}}}",
            )


def is_plain(value: Any) -> bool:
    """Whether a value can name neither a file, nor a module, nor an address."""
    with suppress(RecursionError):  # No user wrote such a value.
        return all(map(WORD.fullmatch, texts_in(value)))
    return False


def texts_in(value: Any) -> Iterator[str]:
    """All texts of a value, which is made of JSON's kinds of values."""
    if isinstance(value, list | tuple):
        for entry in value:
            yield from texts_in(entry)
    elif isinstance(value, dict):
        yield from texts_in([*value, *value.values()])
    elif isinstance(value, str):
        yield value
