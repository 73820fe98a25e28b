"""The signature that marks the files of this user.

A file of a run names an environment, an algorithm and a network. A file that this user's commands
write has an HMAC of those names, and of the paths of the modules among them. The key is in a
private folder of the user, and is never copied into a run. A file with a valid signature was made
here. Every other file is a stranger's, and the classes that it names are not imported.
"""

import hmac
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from workflow_rl.agents import algorithm
from workflow_rl.agents.policies.networks import NETWORKS
from workflow_rl.environments.named_by_file import (
    TRUST_IT,
    WORD,
    found_at,
    is_plain,
    modules_in,
    not_found,
    texts_in,
)
from workflow_rl.environments.source import guests
from workflow_rl.errors import ConfigError
from workflow_rl.output_files import made_once, private_folder, read_private
from workflow_rl.plug_ins import is_ours, plug_ins

SIGNATURE = "signature"
"""The key of the signature among the names."""
CAME_FROM = "came_from"
"""The key of the origins of a config's values, for people to read. They are not signed."""
KEY_BYTES = 32
MOST_MODULES = 1000
"""The most modules that are looked up, because a stranger's file may name millions of modules."""
_MODULE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_accepted: set[bytes] = set()
"""Contents that this process accepts as the user's own, beside signed contents."""


def signed(names: Mapping[str, Any]) -> dict[str, Any]:
    """Return the names for a file of this user, with the signature.

    Without a place for a key, only this process recognises the names.
    """
    values = {name: value for name, value in names.items() if name != SIGNATURE}
    try:
        content = _content(values)
    except ValueError:  # There are too many modules among the names.
        return values
    for place in _key_places(make=True):
        with suppress(OSError):  # The folder may be missing, or not writable.
            key = made_once(place, os.urandom(KEY_BYTES))
            return {**values, SIGNATURE: hmac.digest(key, content, "sha256").hex()}
    _accepted.add(content)
    return values


def accept(names: Mapping[str, Any]) -> None:
    """Accept a file's names as the user's own, in this process."""
    _accepted.add(_content(names))


def made_here(names: Mapping[str, Any]) -> bool:
    """Return whether this user's commands have written these names, and the paths of the modules
    among them have not changed."""
    try:
        content = _content(names)
    except (TypeError, ValueError, RecursionError):  # No command wrote these names.
        return False
    if content in _accepted:
        return True
    given = str(names.get(SIGNATURE)).encode(errors="replace")
    for place in _key_places(make=False):
        with suppress(OSError):
            expected = hmac.digest(read_private(place, KEY_BYTES), content, "sha256").hex().encode()
            return hmac.compare_digest(expected, given)
    return False


def changed(names: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    """Return the names with changes by this user's command. The result is signed if `names` are."""
    values = {**names, **changes}
    return signed(values) if made_here(names) else values


def _content(names: Mapping[str, Any]) -> bytes:
    """Return the signed content. Raises TypeError, ValueError or RecursionError."""
    values = {name: names[name] for name in names.keys() - {SIGNATURE, CAME_FROM}}
    modules: set[str] = set()
    for text in texts_in(values):
        modules.update(modules_in(text))
        if len(modules) > MOST_MODULES:
            raise ValueError(f"more than {MOST_MODULES} modules are named")
    places = {module: found_at(module) for module in modules}
    folder = os.getcwd() if _depends_on_folder(values) else None
    return json.dumps([values, places, folder], sort_keys=True).encode()


def _depends_on_folder(values: Mapping[str, Any]) -> bool:
    """Return whether a value may name a file in the current folder for the user's code, or another
    interpreter would look for the environment's module there."""
    given: list[Any] = [] if values.get("env") in guests else [values.get("env_args")]
    settings = values.get("settings")
    if isinstance(settings, Mapping):
        given += [value for name, value in settings.items() if name != "network"]
    names_a_file = (
        not (WORD.fullmatch(text) or _MODULE.fullmatch(text) or os.path.isabs(text))
        for text in texts_in(given)
    )
    is_elsewhere = bool(values.get("env_python")) and ":" in str(values.get("env"))
    return is_elsewhere or any(names_a_file)


def _key_places(make: bool) -> Iterator[Path]:
    """Yield the possible paths of the key. make: whether to make the folder of the last path."""
    state = Path(os.environ.get("XDG_STATE_HOME", ""))
    if not state.is_absolute():  # A relative path would depend on the current folder.
        state = Path(os.path.expanduser("~"), ".local", "state")
    if state.is_absolute():
        yield state / "workflow_rl" / "key"
    with suppress(OSError):
        yield private_folder(make) / "key"


def classes_in(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the "module:Name" of each class that a saved config names, by "algorithm" and
    "network"."""
    names = {"algorithm": config.get("algorithm"), "network": _settings(config).get("network")}
    return {what: name for what, name in names.items() if isinstance(name, str) and ":" in name}


def unnamed_classes(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the classes of `classes_in` that must not be called: they are not imported, or a
    stranger's file gives them settings that can name a file. With such settings, an algorithm that
    another package registered must not be called either."""
    classes = classes_in(config)
    if not_plain(config) and not made_here(config):
        name = str(config.get("algorithm"))
        point = plug_ins("algorithms").get(name)
        is_others = name in algorithm.names() and (point is None or not is_ours(point))
        return {**({"algorithm": name} if is_others else {}), **classes}
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
        if ":" in name and (advice := not_found(what, name)) is not None:
            return advice
    named = " and ".join(f"the {what} {name}" for what, name in classes.items())
    settings = [f"{name}={value!r:.100}" for name, value in not_plain(config).items()]
    may_name = f" with {', '.join(settings)}, which may name a file" if settings else ""
    return f"only the file mentions {named}{may_name}: {TRUST_IT}"
