"""Read the attackers that a user names: all challenges share this grammar.

A user names an attacker by a name that the challenge knows, by `module:Class`, or by the folder or
policy file of a trained attacker. "B_lineAgent=2,my_red:Patient=1,runs/red=1" is a mixture: each
episode's seed draws one attacker by the weights. Workers import this module without pydantic.
"""

import functools
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workflow_rl.agents.user_modules import attribute_named, refuse_a_file
from workflow_rl.suggestions import question, word_meant

MOST_WEIGHT = 10_000
"""The largest sum of the weights of a mixture."""
LONGEST_LABEL = 80
ACTS = ("act", "get_action")
"""Names of methods. The class of an attacker defines at least one of them."""
_CLASS = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")


def label_of(text: str) -> str:
    """Return the text as a part of a file name: "-" replaces characters, and long texts are cut."""
    return re.sub(r"[^\w.-]+", "-", text)[:LONGEST_LABEL]


class AttackerError(ValueError):
    """An attacker cannot be named, found or played. The message does not name the argument. env:
    the number of the env in which the attacker plays, or None."""

    def __init__(self, message: str, env: int | None = None) -> None:
        super().__init__(message)
        self.env = env


@dataclass(frozen=True)
class Attacker:
    """An attacker of a mixture.

    name: the attacker's name in configs and tables. weight: how often it is in `Attackers.shares`.
    given: the class or object, if the user gave this instead of a name. place: "module:Class" of an
    attacker that this package brings, or ""."""

    name: str
    weight: int = 1
    given: Any = field(default=None, compare=False)
    place: str = field(default="", compare=False)

    @property
    def is_path(self) -> bool:
        """Whether the name is the folder or policy file of a trained attacker."""
        return self.given is None and ":" not in self.name and _is_path(self.name)

    def found(self) -> Any:
        """Return the class or object. This imports the module that a name contains: the user typed
        the name. Raises AttackerError."""
        if self.given is not None:
            return self.given
        try:
            return attribute_named(self.place or self.name)
        except ValueError as error:
            raise AttackerError(str(error)) from error


@dataclass(frozen=True)
class Attackers:
    """A mixture of attackers: each episode draws one member. known: the challenge's own names."""

    members: tuple[Attacker, ...]
    known: tuple[str, ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        if len(self.members) == 1 and "=" not in self.members[0].name:
            return self.members[0].name
        return ",".join(f"{member.name}={member.weight}" for member in self.members)

    @functools.cached_property
    def shares(self) -> tuple[Attacker, ...]:
        """The members, each repeated as often as its weight says."""
        return tuple(member for member in self.members for _ in range(member.weight))

    @property
    def variants(self) -> tuple[str, ...]:
        return tuple(member.name for member in self.shares)

    @functools.cached_property
    def foreign(self) -> tuple[Attacker, ...]:
        """The members that are not among the challenge's own names."""
        return tuple(member for member in self.members if member.name not in self.known)

    def drawn(self, episode_seed: int) -> Attacker:
        if len(self.members) == 1:
            return self.members[0]
        import numpy as np  # Imported here: --help shows the defaults without NumPy.

        # An env draws the seeds of later episodes from the same seed, but without this key.
        (word,) = np.random.SeedSequence(episode_seed, spawn_key=(1,)).generate_state(1)
        return self.shares[int(word) % len(self.shares)]


@dataclass(frozen=True, eq=False)
class Roster:
    """The names of attackers that a challenge knows.

    names: the challenge's own attackers. mixtures: for each name of a mixture, the text that it
    stands for. by_hand: for each name of an attacker written by hand, its "module:Class"."""

    names: tuple[str, ...]
    mixtures: Mapping[str, str] = field(default_factory=dict)
    by_hand: Mapping[str, str] = field(default_factory=dict)

    def read(self, value: Any) -> Attackers:
        """Return the attackers that a value names. This imports nothing. Raises AttackerError.

        value: a text, a path, a class, an object, or a mapping from such values to weights. An
        existing path names one attacker, even if the path contains "="."""
        if isinstance(value, Attackers):
            return value
        if isinstance(value, str) and not _is_existing_path(value):
            return _parsed(self, self.mixtures.get(value, value))
        if isinstance(value, Mapping):
            return self.together([self.member(*pair) for pair in value.items()])
        return self.together([self.member(value)])

    def checked(self, red_agent: Any) -> Attackers:
        """Return what `read` returns. Raises ValueError, which names the argument `red_agent`."""
        try:
            return self.read(red_agent)
        except AttackerError as error:
            raise ValueError(f"red_agent: {error}") from None

    def text(self, value: Any) -> str:
        """Return a text for a config. `read` returns equal attackers for this text.

        Raises AttackerError, also for an object, and for a class of a script or function."""
        attackers = self.read(value)
        for member in attackers.members:
            if member.given is None:
                continue
            kind = member.name.partition(":")[2]
            if not isinstance(member.given, type):
                raise AttackerError(f"{kind}(): give the class {kind}: a run keeps no objects")
            if member.name.startswith("__main__:") or not _CLASS.fullmatch(member.name):
                raise AttackerError(
                    f"{kind} is a class of a script or function: define it in a module, so that a "
                    "run can keep the class"
                )
        if isinstance(value, str) and not _is_existing_path(value):
            return value
        return str(attackers)

    def single(self, text: str) -> str | None:
        """Return the name of the text's only attacker, or None if the text names several."""
        members = self.read(text).members
        return members[0].name if len(members) == 1 else None

    @property
    def shown(self) -> str:
        """The values that a user can choose, in words."""
        names = ", ".join((*self.names, *self.mixtures, *self.by_hand))
        return (
            f"{names}, module:Class, the folder or policy file of a trained red agent, or several "
            f"with weights, such as {self.names[0]}=2,my_red:MyRed"
        )

    def member(self, value: Any, weight: Any = 1) -> Attacker:
        """Return the attacker that a name, path, class or object stands for."""
        if isinstance(weight, bool) or not isinstance(weight, int) or weight < 1:
            raise AttackerError(f"{value}={weight}: a weight is a whole number from 1 up")
        if isinstance(value, os.PathLike):
            path = os.fspath(value)
            value = path if _is_path(path) else f"./{path}"
        if isinstance(value, str) and "," in value:
            raise AttackerError(f"{value} has a comma, which separates red agents")
        if not isinstance(value, str):
            kind = value if isinstance(value, type) else type(value)
            if any(hasattr(kind, name) for name in ACTS):
                return Attacker(f"{kind.__module__}:{kind.__qualname__}", weight, value)
        elif value in self.names or _is_path(value):
            return Attacker(value, weight)
        elif value in self.by_hand:
            return Attacker(value, weight, place=self.by_hand[value])
        elif _CLASS.fullmatch(value):
            return Attacker(value, weight)
        elif ":" in value:
            try:
                refuse_a_file(value)
            except ValueError as error:
                raise AttackerError(str(error)) from None
        names = (*self.names, *self.mixtures, *self.by_hand)
        meant = question(word_meant(value, names)) if isinstance(value, str) else ""
        raise AttackerError(f"{value!r:.200} is no red agent: choose {self.shown}.{meant}")

    def together(self, members: list[Attacker]) -> Attackers:
        """Return the attackers as a mixture. Raises AttackerError."""
        names = [member.name for member in members]
        if twice := [name for name in names if names.count(name) > 1]:
            raise AttackerError(f"{twice[0]} is given twice")
        if not 0 < sum(member.weight for member in members) <= MOST_WEIGHT:
            raise AttackerError(f"the weights have to be {MOST_WEIGHT:,} or less together")
        return Attackers(tuple(members), self.names)


@functools.lru_cache(1024)
def _parsed(roster: Roster, text: str) -> Attackers:
    parts = [part.strip() for part in text.split(",")]
    members = []
    for part in parts:
        name, equals, weight = part.rpartition("=")
        if not equals or (_is_path(part) and not weight.isdecimal()):
            name, weight = part, "1"
        if len(parts) > 1 and name in roster.mixtures:
            raise AttackerError(f"{name} is several: give {roster.mixtures[name]} in its place")
        # The roster refuses a weight that is no number.
        number = int(weight) if weight.isdecimal() else weight
        members.append(roster.member(name, number))
    return roster.together(members)


def _is_path(name: str) -> bool:
    return ":" not in name and ("/" in name or Path(name).suffix in (".npz", ".safetensors"))


def _is_existing_path(name: str) -> bool:
    return _is_path(name) and os.path.exists(name)
