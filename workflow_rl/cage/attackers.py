"""Attackers by name, in one grammar for all challenges: one attacker, or several with weights.

An attacker is a name that the challenge knows, `module:Class`, or the folder or policy file of a
trained one. Several are "B_lineAgent=2,my_red:Patient=1,runs/red=1": the seed of each episode draws
one of them. Workers import this module: no config library.
"""

from __future__ import annotations

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
"""What the classes of attackers define, one or the other."""
_CLASS = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")


def label_of(text: str) -> str:
    """Return a text as the label of a run, without characters that file names must not have."""
    return re.sub(r"[^\w.-]+", "-", text)[:LONGEST_LABEL]


class AttackerError(ValueError):
    """An attacker cannot be named, found or played as asked. The message does not name the
    argument."""


@dataclass(frozen=True)
class Attacker:
    """One attacker. name: as configs and tables have it. weight: its share of the episodes, among
    others. given: the class or object, if it was given in the place of a name. place:
    "module:Class", of an attacker of this package."""

    name: str
    weight: int = 1
    given: Any = field(default=None, compare=False)
    place: str = field(default="", compare=False)

    @property
    def is_path(self) -> bool:
        """Whether the name is the folder or policy file of a trained attacker."""
        return self.given is None and ":" not in self.name and _is_path(self.name)

    def found(self) -> Any:
        """Return the class or object. The user has typed the name: its module is imported.

        Raises AttackerError.
        """
        if self.given is not None:
            return self.given
        try:
            return attribute_named(self.place or self.name)
        except ValueError as error:
            raise AttackerError(str(error)) from error


@dataclass(frozen=True)
class Attackers:
    """Attackers of which each episode draws one. known: the names that the challenge brings."""

    members: tuple[Attacker, ...]
    known: tuple[str, ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        if len(self.members) == 1 and "=" not in self.members[0].name:
            return self.members[0].name
        return ",".join(f"{member.name}={member.weight}" for member in self.members)

    @functools.cached_property
    def shares(self) -> tuple[Attacker, ...]:
        """Each attacker as often as its weight says."""
        return tuple(member for member in self.members for _ in range(member.weight))

    @property
    def variants(self) -> tuple[str, ...]:
        return tuple(member.name for member in self.shares)

    @functools.cached_property
    def foreign(self) -> tuple[Attacker, ...]:
        """Those that the challenge does not bring."""
        return tuple(member for member in self.members if member.name not in self.known)

    def drawn(self, episode_seed: int) -> Attacker:
        if len(self.members) == 1:
            return self.members[0]
        import numpy as np  # The defaults are shown without it.

        # An env draws its later seeds from another stream.
        (word,) = np.random.SeedSequence(episode_seed, spawn_key=(1,)).generate_state(1)
        return self.shares[int(word) % len(self.shares)]


@dataclass(frozen=True, eq=False)
class Roster:
    """The attackers that a challenge knows by name. mixtures: names of several with weights.
    by_hand: "module:Class" of the attackers that were written by hand, by their names."""

    names: tuple[str, ...]
    mixtures: Mapping[str, str] = field(default_factory=dict)
    by_hand: Mapping[str, str] = field(default_factory=dict)

    def read(self, value: Any) -> Attackers:
        """Return the attackers that a text, a path, a class, an object, or a mapping of these to
        weights names. Nothing is imported. The path of a file or folder is one attacker, whatever
        its name. Raises AttackerError."""
        if isinstance(value, Attackers):
            return value
        if isinstance(value, str) and not _is_there(value):
            return _parsed(self, self.mixtures.get(value, value))
        if isinstance(value, Mapping):
            return self.together([self.member(*pair) for pair in value.items()])
        return self.together([self.member(value)])

    def checked(self, red_agent: Any) -> Attackers:
        """As `read`, for an argument `red_agent`, which the ValueError names."""
        try:
            return self.read(red_agent)
        except AttackerError as error:
            raise ValueError(f"red_agent: {error}") from None

    def text(self, value: Any) -> str:
        """Return a value as a config keeps it: a text that names the same attackers as it stands.

        Raises AttackerError, also for a class that a module does not define.
        """
        attackers = self.read(value)
        for member in attackers.members:
            if member.given is None:
                continue
            what = member.name.partition(":")[2]
            if not isinstance(member.given, type):
                raise AttackerError(f"{what}(): give the class {what}, which a run can keep")
            if member.name.startswith("__main__:") or not _CLASS.fullmatch(member.name):
                raise AttackerError(
                    f"{what} is a class of a script or function: define it in a module, which a "
                    "run can keep"
                )
        return value if isinstance(value, str) and not _is_there(value) else str(attackers)

    def single(self, text: str) -> str | None:
        """Return the name of the only attacker of a text, or None if there are several."""
        members = self.read(text).members
        return members[0].name if len(members) == 1 else None

    @property
    def shown(self) -> str:
        """What can be named, in words."""
        names = ", ".join((*self.names, *self.mixtures, *self.by_hand))
        return (
            f"{names}, module:Class, the folder or policy file of a trained red agent, or several "
            f"with weights, such as {self.names[0]}=2,my_red:MyRed"
        )

    def member(self, value: Any, weight: Any = 1) -> Attacker:
        """Return what one name, path, class or object stands for. Raises AttackerError."""
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
        """Return several attackers. Raises AttackerError."""
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
        members.append(roster.member(name, int(weight) if weight.isdecimal() else weight))
    return roster.together(members)


def _is_path(name: str) -> bool:
    return ":" not in name and ("/" in name or Path(name).suffix in (".npz", ".safetensors"))


def _is_there(name: str) -> bool:
    return _is_path(name) and os.path.exists(name)
