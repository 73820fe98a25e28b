"""Read saved configs of this and earlier versions, and the earlier spelling in scripts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ConfigDict

from agents import algorithm
from agents.policies import own_network
from agents.policies.networks import NETWORKS
from agents.settings import ConfigError, Settings
from workflow_rl.environments.environment import default_env, guests
from workflow_rl.runs.presets import preset_named

_ALIASES = ("ppo", "sac", "mbpo")


class UnknownSettings(Settings):
    """The settings in a file whose algorithm only the file names: data, which nothing checks."""

    model_config = ConfigDict(extra="allow")


def settings_in(config: Mapping[str, Any]) -> Settings:
    """Return the settings of a saved config. Imports nothing that the config names.

    Raises KeyError, TypeError or ValueError.
    """
    name, values = config["algorithm"], config["settings"]
    try:
        return algorithm.find(name).settings(**values)
    except ConfigError as error:
        if error.field_name in named_by_file(config):
            return UnknownSettings(**values)
        raise


def named_by_file(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the classes that a saved config names and that nobody has imported: "algorithm" and
    "network", each with its "module:Name"."""
    settings = config.get("settings")
    network = settings.get("network") if isinstance(settings, Mapping) else None
    names = {"algorithm": config.get("algorithm"), "network": network}
    known = {"algorithm": algorithm.names(), "network": NETWORKS}
    return {
        what: name
        for what, name in names.items()
        if isinstance(name, str) and ":" in name and name not in known[what]
    }


def import_named(config: Mapping[str, Any]) -> None:
    """Import the classes of `named_by_file`: the user trusts whoever made the file. Raises
    ConfigError."""
    loads = {"algorithm": algorithm.load, "network": own_network.load}
    for what, name in named_by_file(config).items():
        try:
            loads[what](name)
        except ConfigError:
            raise
        except ValueError as error:
            raise ConfigError(what, str(error)) from None


def only_the_file_names(config: Mapping[str, Any]) -> str:
    """Return the classes of `named_by_file` in words."""
    names = [f"the {what} {name}" for what, name in named_by_file(config).items()]
    return f"only the file names {' and '.join(names)}"


def as_today(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the dict of a saved config as this version writes it.

    Until version 0.x a config had its hyperparameters under "ppo", and for sac and mbpo those that
    PPO does not have under "mbpo". Raises KeyError, TypeError or ValueError for what never was one.
    """
    # Earlier versions took no masks, and guests offered none.
    values = {"action_mask": config.get("env", default_env()) in guests, **config}
    if "ppo" not in values:
        return values
    of_ppo, of_mbpo = dict(values.pop("ppo")), values.pop("mbpo", None)
    name = values.setdefault("algorithm", "ppo")
    # Configs of sac had the settings of a model too, without effect.
    known = algorithm.find(name).settings.model_fields
    settings = of_ppo if of_mbpo is None else {**of_ppo, **of_mbpo}
    if of_mbpo is not None:
        settings = {one: value for one, value in settings.items() if one in known}
    if values.get("episodes_per_update") is None and values.get("num_steps_per_env") is None:
        # Then a rollout had at least one episode for each env.
        values["min_episodes_per_update"] = values.get("n_envs", 8)
    return {**values, "settings": settings}


def settings_of_aliases(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a TrainConfig's fields with `settings` instead of `network`, `ppo`, `sac` or `mbpo`.

    For sac and mbpo, `ppo` gives the settings that they have in common with PPO, and for sac,
    `mbpo` gives the others. Raises ConfigError.
    """
    values = {name: value for name, value in given.items() if name not in _ALIASES}
    if (network := values.pop("network", None)) is not None:
        values["settings"] = _with_network(values.get("settings"), network)
    aliases = {name: given[name] for name in _ALIASES if given.get(name) is not None}
    if not aliases:
        return values
    if values.get("settings") is not None:
        raise ConfigError(min(aliases), "it is another name of settings: give one of the two")
    preset = preset_named(given.get("preset"))
    name = values.get("algorithm", preset.get("algorithm", "ppo"))
    if aliases.keys() == {name}:
        return {**values, "settings": aliases[name]}
    known = algorithm.find(name).settings.model_fields
    settings: dict[str, Any] = {}
    for alias, own in aliases.items():
        if name == "ppo" or not isinstance(own, Settings | Mapping):
            raise ConfigError(alias, f"its settings do not go with {name}")
        is_whole = alias == "ppo" or isinstance(own, Settings)
        settings |= {n: v for n, v in dict(own).items() if n in known or not is_whole}
    return {**values, "settings": settings}


def _with_network(settings: Any, network: Any) -> Any:
    if isinstance(settings, Settings):
        return settings.changed(network=network)
    return {**(settings or {}), "network": network}
