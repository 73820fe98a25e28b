"""Read saved configs, and find the classes that they name."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pydantic import ConfigDict

from workflow_rl.agents import algorithm
from workflow_rl.agents.policies.networks import NETWORKS
from workflow_rl.agents.settings import Settings
from workflow_rl.environments.named_by_file import TRUST_IT, is_plain, not_found
from workflow_rl.errors import ConfigError, UserError
from workflow_rl.runs.signature import made_here

POPULATION_FILE = "population.json"
"""The file with the configs of several policies. It marks a folder of several policies."""


def require_same_fields(found: Collection[str], expected: Collection[str]) -> None:
    """Raise UserError if a file's fields differ from the fields that this version writes."""
    for name in sorted({*found} ^ {*expected}):
        what = "has" if name in found else "lacks"
        raise UserError(f"it was made by another version of the package: it {what} {name!r:.50}")


class UnknownSettings(Settings):
    """The settings in a file whose algorithm only the file names. They are unchecked data."""

    model_config = ConfigDict(extra="allow")


def flattened(saved: Mapping[str, Any]) -> dict[str, Any]:
    """Return a saved config with the settings of the algorithm beside the other fields."""
    return {**{n: value for n, value in saved.items() if n != "settings"}, **saved["settings"]}


def classes_in(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the "module:Name" of each class that a saved config names, by "algorithm" and
    "network"."""
    names = {"algorithm": config.get("algorithm"), "network": _settings(config).get("network")}
    return {what: name for what, name in names.items() if isinstance(name, str) and ":" in name}


def unnamed_classes(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the classes of `classes_in` that must not be called: they are not imported, or a
    stranger's file gives them settings that can name a file."""
    classes = classes_in(config)
    if not classes or (not_plain(config) and not made_here(config)):
        return classes
    known = {"algorithm": algorithm.names(), "network": NETWORKS}
    return {what: name for what, name in classes.items() if name not in known[what]}


def not_plain(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a saved config, without its classes, that can name a file."""
    classes = classes_in(config)
    others = {name: value for name, value in _settings(config).items() if name not in classes}
    return {name: value for name, value in others.items() if not is_plain(value)}


def _settings(config: Mapping[str, Any]) -> Mapping[str, Any]:
    settings = config.get("settings")
    return settings if isinstance(settings, Mapping) else {}


def import_classes(config: Mapping[str, Any]) -> None:
    """Import a config's classes, if this user's commands wrote the config. Raises ConfigError."""
    if not unnamed_classes(config) or not made_here(config):
        return
    classes = classes_in(config)
    if "algorithm" in classes:
        algorithm.load(classes["algorithm"])
    if "network" in classes:
        from workflow_rl.agents.policies.own_network import load_network

        try:
            load_network(classes["network"])
        except ValueError as error:
            raise ConfigError("network", str(error)) from None


def only_the_file_names(config: Mapping[str, Any]) -> str:
    """Return why the classes of `unnamed_classes`, or their settings, are refused, and advice."""
    classes = unnamed_classes(config)
    for what, name in classes.items():
        if name.startswith("__main__:") or "<" in name:
            return (
                f"its {what} is {name}, a class of a script: put the class in a module, and train "
                "with that one"
            )
        if (advice := not_found(what, name)) is not None:
            return advice
    named = " and ".join(f"the {what} {name}" for what, name in classes.items())
    settings = [f"{name}={value!r:.100}" for name, value in not_plain(config).items()]
    may_name = f" with {', '.join(settings)}, which may name a file" if settings else ""
    return f"only the file names {named}{may_name}: {TRUST_IT}"
