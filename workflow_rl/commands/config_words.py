"""A run's config as the command line that asks for it, and as --dry-run shows it."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import click

from workflow_rl.commands.options import ALGORITHMS, spelling
from workflow_rl.commands.training_options import asked_of_run
from workflow_rl.environments.source import default_env, guests
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.resolve import OF_WORKERS, preset_named
from workflow_rl.terminal import printable

_KEPT = {
    *("mode", "env", "env_args", "preset", "algorithm", "n_envs", "action_mask"),
    *("ignore_unknown", "make_env", "env_python"),
}
"""The fields that stay when the others get their defaults."""
_ASKED = ("preset", "n_envs", "action_mask", "ignore_unknown")


def words_of(config: TrainConfig) -> list[str]:
    """Return the command that trains with this config: its name, and what is not the default. A
    file of which the content alone is known, such as a scenario, is FILE."""
    fields, preset = TrainConfig.model_fields, preset_named(config.preset)
    kept = {name: getattr(config, name) for name in _KEPT}
    usual = TrainConfig(**kept, known_environment=config.environment, known_plug_in=config.plug_in)
    mine, defaults = config.to_dict(), usual.to_dict()
    settings, of_preset = mine.pop("settings"), defaults.pop("settings")
    defaults |= {name: fields[name].default for name in _ASKED}
    defaults |= {"env_python": "", "env": default_env(), "algorithm": "ppo", "mode": config.mode}
    defaults |= {name: preset[name] for name in mine if name in preset}
    words, args = [f"train-{config.mode}"], mine.pop("env_args", {})
    if config.env in guests:
        defaults |= dict(guests[config.env].arguments()(**preset.get("env_args", {})))
    defaults = json.loads(json.dumps(defaults))  # Lists for tuples, as in files.
    for name, value in mine.items():
        if name not in OF_WORKERS[1:] and value != defaults.get(name):
            words += _words(name, value)
    words += pairs_of("env_args", args)
    changed = {name: value for name, value in settings.items() if value != of_preset[name]}
    words += pairs_of("network_args", changed.pop("network_args", {}))
    if config.algorithm not in ALGORITHMS:
        return [*words, *pairs_of("settings", changed)]
    return [*words, *(word for name, value in changed.items() for word in _words(name, value))]


def show_config(config: TrainConfig, options: dict[str, Any], drawn: Iterable[str] = ()) -> None:
    """Print each value of a config, and where it comes from. drawn: by a population."""
    usual, origins = "default", config.origins()
    if options.get("resume"):
        asked = asked_of_run(options)
        args = asked.pop("env_args")
        of_args = args if config.env in guests else ["env_args"] * bool(args)
        usual = "resumed run"
        origins = dict.fromkeys([*asked, *asked["settings"], *of_args], "option")
    origins |= {**dict.fromkeys(drawn, "drawn"), "mode": "option"}
    for name, value in config.flat().items():
        click.echo(f"{name}: {printable(value)}  # {origins.get(name, usual)}")


def pairs_of(name: str, values: Mapping[str, Any]) -> list[str]:
    """Return an option for each value. name: the field of a config that holds the values."""
    words = []
    for key, value in values.items():
        text = value if isinstance(value, str) else json.dumps(value)
        words += [spelling(name), f"{key}={text}"]
    return words


def _words(name: str, value: Any) -> list[str]:
    """Return an option with its value; nothing for a value that no option gives."""
    option = spelling(name)
    if value is None:
        return []
    if isinstance(value, Mapping):
        return pairs_of(name, value)
    if isinstance(value, bool):
        return [option if value else f"--no-{option[2:]}"]
    if isinstance(value, list | tuple):
        if all(isinstance(part, int) for part in value):
            return [option, ",".join(map(str, value))]
        return [word for part in value for word in (option, str(part))]
    return [option, "FILE" if isinstance(value, str) and "\n" in value else f"{value}"]
