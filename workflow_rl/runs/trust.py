"""Which environments that a file names may be made: a file from a stranger is data.

The whole promise is in docs/explanations/security.md. The environments, algorithms and networks
that the user named are remembered in a folder outside of all runs, one small file each. A
stranger's file can name them too. It then gets what the user trained with: the same module from the
same place, called with the same arguments.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from workflow_rl.agents.user_modules import place_of
from workflow_rl.collection.cluster_address import is_address
from workflow_rl.environments.environment import ENV, Environment, InvalidEnvironmentError
from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment
from workflow_rl.environments.source import guests
from workflow_rl.output_files import private_folder, write_text
from workflow_rl.runs.config import ConfigError, TrainConfig
from workflow_rl.runs.saved_config import (
    TRUST_IT,
    WORD,
    UnknownSettings,
    accept,
    classes_in,
    import_named,
    is_plain,
    named_by_file,
    not_plain,
    only_the_file_names,
    texts_in,
)


def trusted(
    environment: Environment, trust: bool = False, python: str | None = None
) -> Environment:
    """The environment, which may be made.

    That is the case if the package brings it, if an installed package has registered it with
    Gymnasium, if the user has named it before, or if the user says so. A guest's environment whose
    arguments name something else is returned as it is: agents are scored without making it, and
    `require_trusted` refuses it where it is made.

    Args:
        environment: imports and calls nothing yet.
        trust: whether the user says so. It is remembered.
        python: the interpreter that the user names, which plays the environment instead of the
            file's; "" is this one, and None leaves the file's.

    Raises:
        InvalidEnvironmentError: only a file names the environment, or it takes no interpreter.
    """
    if not _is_named_by_file(environment):
        return environment
    is_guests = not isinstance(environment, GymnasiumEnvironment)
    if python and is_guests:
        raise InvalidEnvironmentError("env_python", f"{environment.env_id} takes none")
    makable: Any = dataclasses.replace(environment, named_by_file=False)  # type: ignore[type-var]
    # An interpreter may have moved since the user named the environment.
    is_kept = not is_guests and _is_kept(functools.partial(_named, makable))
    if python is not None and not is_guests:
        makable = dataclasses.replace(makable, python=python)
    if trust:
        remember(makable)
        return makable
    if is_guests:
        return environment if _not_kept(environment) else makable
    if is_kept or _is_kept(functools.partial(_named, makable)):
        return makable
    if makable.python and python is None:
        raise InvalidEnvironmentError(
            "env_python",
            f"only the file names the interpreter {makable.python}, which would run: {TRUST_IT}",
        )
    if makable.imports_a_module:
        # An environment of the package's own may make the one that an argument names.
        names = (makable.env_id, *texts_in(makable.args))
        of_others = (name for name in names if ":" in name and not name.startswith("workflow_rl."))
        raise InvalidEnvironmentError(ENV, _how_to_go_on(next(of_others, makable.env_id)))
    for name, value in makable.args.items():
        if not is_plain(value):
            raise InvalidEnvironmentError(
                ENV,
                f"only the file gives the environment {makable.env_id} its argument "
                f"{name}={value!r:.100}, which may name a file or a module: {TRUST_IT}",
            )
    return makable


def require_trusted(environment: Environment) -> None:
    """Raise InvalidEnvironmentError for a guest's environment whose arguments name what only a file
    names, and nobody trusts."""
    if _is_named_by_file(environment) and (name := next(iter(_not_kept(environment)), None)):
        raise InvalidEnvironmentError(ENV, _how_to_go_on(name, "argument"))


def _is_named_by_file(environment: Environment) -> bool:
    return getattr(environment, "named_by_file", False)


def _foreign(environment: Environment) -> Sequence[str]:
    guest = guests.get(environment.env_id)
    return () if guest is None else guest.foreign(environment)


def _not_kept(environment: Environment) -> list[str]:
    """Return what a guest's environment names that the user has not named before."""
    names = _foreign(environment)
    return [name for name in names if not _is_kept(functools.partial(_argument_named, name))]


def _argument_named(name: str) -> str:
    """What an argument names, and where it is found, as JSON. Raises ValueError."""
    found = {"place": _place_of_module(name)} if ":" in name else _folder_of(name)
    return json.dumps({"argument": name, **found}, sort_keys=True)


def trusted_environment(
    saved: Mapping[str, Any],
    environment: Environment,
    trust: bool = False,
    names_cluster: bool = False,
    names_env: bool = False,
    python: str | None = None,
) -> Environment:
    """The environment of a saved config, which may be made, and whose cluster may be joined.

    Args:
        saved: from `TrainConfig.to_dict`, in a file. Its algorithm and network are imported if they
            may be.
        environment: that of the config, as only the file names it.
        trust: whether what the file names may be imported and called, but for the cluster.
        names_cluster: whether the user names the cluster, which may then be joined.
        names_env: whether the user names the environment and its arguments, as they are in the
            file. The environment may then be made, and nothing else that the file names.
        python: see `trusted`.

    Raises:
        ConfigError: only the file names the environment, the algorithm, or the address of a
            cluster.
    """
    if by_file := named_by_file(saved):
        if not may_import(saved, trust):
            raise ConfigError(min(by_file), only_the_file_names(saved))
        import_named(saved)
    try:
        environment = trusted(environment, trust or names_env, python)
        require_trusted(environment)
    except InvalidEnvironmentError as error:
        raise ConfigError(error.argument, str(error)) from None
    if not names_cluster and is_address(saved["cluster"]):
        raise ConfigError(
            "cluster",
            f"only the file names the cluster {saved['cluster']}: give --cluster "
            f"{saved['cluster']} to join it, or --cluster none",
        )
    return environment


def trusted_config(
    config: TrainConfig, trust: bool = False, names_cluster: bool = False
) -> TrainConfig:
    """A config from a file, whose environment may be made: see `trusted_environment`.

    The config of a user's own is returned as it is. Raises ConfigError.
    """
    if not config.named_by_file:
        return config
    trusted_environment(config.to_dict(), config.environment, trust, names_cluster)
    of_file = isinstance(config.settings, UnknownSettings)
    settings = {"settings": config.settings.to_dict()} if of_file else {}
    return config.changed(named_by_file=False, **settings)


def remember(environment: Environment) -> None:
    """Remember an environment that the user has named or trusts: from now on, a file that names
    the same environment asks nothing."""
    if _is_named_by_file(environment):
        return
    if not isinstance(environment, GymnasiumEnvironment):
        for name in _foreign(environment):
            _keep(functools.partial(_argument_named, name))
        return
    factory, environment = environment.factory, dataclasses.replace(environment, factory=None)
    if factory is not None and factory is not _function_of(environment.env_id):
        return  # The name would not find the function again.
    is_ours = not environment.imports_a_module and not environment.python
    if is_ours and all(map(is_plain, environment.args.values())):
        return
    _keep(functools.partial(_named, environment))


def may_import(config: Mapping[str, Any], trust: bool = False) -> bool:
    """Whether to import the algorithm and the network that a saved config names, and to call them
    with its settings.

    That is the case if the user says so, which is remembered, or if the user has named them before
    with all settings that can name a file.
    """
    if trust:
        remember_classes(config)
        return True
    return all(
        _is_kept(functools.partial(_class_named, what, name, config))
        for what, name in named_by_file(config).items()
    )


def remember_classes(config: Mapping[str, Any]) -> None:
    """Remember the algorithm and the network of a config that the user has made or trusts: from now
    on, a file with the same ones, called with the same arguments, asks nothing."""
    accept(config)
    for what, name in classes_in(config).items():
        _keep(functools.partial(_class_named, what, name, config))


def _class_named(what: str, name: str, config: Mapping[str, Any]) -> str:
    """The class, where it is found, and its settings that can name a file, as JSON. Raises
    ValueError."""
    named: dict[str, Any] = {what: name, "place": _place_of_module(name)}
    if settings := not_plain(config):
        named |= {"settings": settings, **_folder_of(settings)}
    return json.dumps(named, sort_keys=True)


def _folder_of(values: Any) -> dict[str, str]:
    """The current folder, if a value may name a file in it."""
    texts = [text for text in texts_in(values) if not WORD.fullmatch(text)]
    return {} if all(map(os.path.isabs, texts)) else {"folder": os.getcwd()}


def _place_of_module(name: str) -> str:
    """Where the module of "module:name" is found. Raises ValueError."""
    module = name.partition(":")[0]
    # The current folder comes first, as in `gymnasium_env`.
    if (place := place_of(module, [os.getcwd(), *sys.path])) is None:
        raise ValueError(f"there is no module {module}")
    return place


def _how_to_go_on(env_id: str, what: str = "environment") -> str:
    """With a file that names an environment of a module, which the user has not named here, or an
    argument of one."""
    module, colon, _ = env_id.partition(":")
    if not colon:
        return f"only the file names {env_id}, a file or folder of a trained agent: {TRUST_IT}"
    if module == "__main__":
        return f"it was trained on a function of a script, {env_id}: give the function as env"
    place = place_of(module, [os.getcwd(), *sys.path])
    if place is None:
        return (
            f"its {what} is {env_id}, and no module {module} is found from here: go to the "
            "folder of the module, or ask whoever made the file for it"
        )
    return f"only the file names the {what} {env_id}, which would run {place}: {TRUST_IT}"


def _keep(text: Callable[[], str]) -> None:
    with suppress(OSError, ValueError, TypeError, RuntimeError):  # The user is asked again.
        named = text()
        for file in _files_of(named, make=True):
            with suppress(OSError):  # Home may be missing, or not to be written.
                if not file.exists():
                    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                    write_text(file, named + "\n")
                return


def _is_kept(text: Callable[[], str]) -> bool:
    try:
        return any(file.is_file() for file in _files_of(text(), make=False))
    except (OSError, ValueError, TypeError, RuntimeError):
        return False


def _function_of(env_id: str) -> object:
    """Return what "module:function" names in a module that has been imported, or None.

    A module's own `__getattr__` is not called: it may import what the name says.
    """
    module, _, name = env_id.partition(":")
    return getattr(sys.modules.get(module), "__dict__", {}).get(name)


def _files_of(named: str, make: bool) -> Iterator[Path]:
    """Yield where this is kept: in the first of these places that can be written."""
    name = f"{hashlib.sha256(named.encode()).hexdigest()}.json"
    state = Path(os.environ.get("XDG_STATE_HOME", ""))
    if not state.is_absolute():  # It would be another folder wherever the user is.
        state = Path(os.path.expanduser("~"), ".local", "state")
    if state.is_absolute():
        yield state / "workflow_rl" / "trusted" / name
    yield private_folder(make) / "trusted" / name


def _named(environment: GymnasiumEnvironment) -> str:
    """The id, the arguments, and where what they name is found, as JSON. Raises ValueError."""
    named: dict[str, Any] = {"env": environment.env_id, "env_args": dict(environment.args)}
    if environment.python:
        named |= {"python": environment.python, "folder": os.getcwd()}
    elif environment.imports_a_module:
        named["place"] = _place_of_module(environment.env_id)
    return json.dumps(named | _folder_of(named["env_args"]), sort_keys=True)
