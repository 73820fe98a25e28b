"""Recognise and refuse the names that the user did not give, but a file did.

A file from a stranger is data. An environment that such a file names is not made if that would
import a module, start an interpreter, or open a file: see docs/explanations/security.md.
"""

from __future__ import annotations

import dataclasses
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from workflow_rl.agents.user_modules import place_of
from workflow_rl.errors import ConfigError

if TYPE_CHECKING:
    from workflow_rl.environments.env_batch import EnvBatch, EnvBatchFactory
    from workflow_rl.environments.environment import Environment

TRUST_IT = "give --trust (in Python trust=True) if you trust whoever made the file"
WORD = re.compile(r"[\w-]*")
_BETWEEN_NAMES = re.compile(r"[^\w.:-]+")


class Gated:
    """An environment that refuses to make envs if this would import, start or read something that
    is named only in a stranger's file. `make_envs` raises before a worker gets anything.

    named_by_file: whether the arguments are named only in a stranger's file. A guest's environment
    for which `foreign_in` can return names is a dataclass with this field that inherits Gated.
    """

    named_by_file: bool

    def require_named(self) -> None:
        """Raise ConfigError if the environment must be refused."""
        raise NotImplementedError

    @property
    def make_envs(self) -> EnvBatchFactory:
        """The factory of envs, for a worker. Raises ConfigError."""
        self.require_named()
        return self._make_envs

    def _make_envs(self, n_envs: int) -> EnvBatch:
        """Return `n_envs` envs. The caller has called `require_named`."""
        raise NotImplementedError


def foreign_in(environment: Environment) -> Sequence[str]:
    """Return the environment's attribute `foreign`: the names in a guest's arguments that are in no
    package. A name is "module:Name" to import, or the path of a file or folder to read."""
    foreign: Sequence[str] = getattr(environment, "foreign", ())
    return foreign


def require_named(environment: Environment) -> None:
    """Raise ConfigError if making the environment would import, start or read something that is
    named only in a stranger's file."""
    if isinstance(environment, Gated):
        environment.require_named()


def needs_signature(environment: Environment) -> bool:
    """Return whether the user names the environment, and `require_named` would refuse the
    environment if it were named only in a stranger's file."""
    if not isinstance(environment, Gated) or environment.named_by_file:
        return False
    flagged: Any = environment
    with suppress(ConfigError):
        require_named(dataclasses.replace(flagged, named_by_file=True))
        return False
    return True


def is_plain(value: Any) -> bool:
    """Return whether a value cannot name a file, a module or an address."""
    with suppress(RecursionError):  # A value that is nested too deeply is not plain.
        return all(map(WORD.fullmatch, texts_in(value)))
    return False


def texts_in(value: Any) -> Iterator[str]:
    """Yield all texts in a value of JSON's types."""
    if isinstance(value, list | tuple):
        for entry in value:
            yield from texts_in(entry)
    elif isinstance(value, dict):
        yield from texts_in([*value, *value.values()])
    elif isinstance(value, str):
        yield value


def modules_in(text: str) -> Iterator[str]:
    """Yield the module of each "module:Name" in a text. A module's name may be no valid Python
    name: `my-env:make` is imported from my-env.py."""
    for part in (text, *_BETWEEN_NAMES.split(text)) if ":" in text else ():
        for module, name in pairwise(part.split(":")):
            if module and name:
                yield module


def found_at(module: str) -> str | None:
    """Return the path from which this process would import a module, or None."""
    # The current folder comes first, as in `user_modules.imported`.
    return place_of(module, [os.getcwd(), *sys.path])


def not_found(what: str, name: str) -> str | None:
    """Return advice for a "module:Name" whose module is not found; None if it is found.

    what: the kind of the named thing, such as "environment".
    """
    module = name.partition(":")[0]
    if found_at(module) is not None:
        return None
    return (
        f"its {what} is {name}, and no module {module} is found from here: go to the folder of the "
        "module, or ask whoever made the file for it"
    )


def refused(name: str, what: str = "environment") -> str:
    """Return why a name that only a file gives is refused, and advice.

    name: "module:Name", or the path of a trained agent. what: the kind of the named thing.
    """
    module, colon, _ = name.partition(":")
    if not colon:
        return f"only the file mentions {name}, a file or folder of a trained agent: {TRUST_IT}"
    if module == "__main__":
        return f"it was trained on a function of a script, {name}: give the function as env"
    return not_found(what, name) or (
        f"only the file mentions the {what} {name}, which would run {found_at(module)}: {TRUST_IT}"
    )
