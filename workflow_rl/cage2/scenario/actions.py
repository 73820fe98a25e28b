"""The actions of CAGE-2: Blue's actions and decoys, and Red's actions and exploits.

All lists of actions follow from these tables, and all numbers from the order of a table's rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Decoy(NamedTuple):
    """A service that Blue sets up to deceive Red.

    port: the port that the decoy opens. free_port: the port that has to be free. system: the
    operating system, or None for any. as_system: whether the decoy runs as SYSTEM, and not as the
    user of Blue's session."""

    port: int
    free_port: int
    system: str | None = None
    as_system: bool = False


class BlueKind(NamedTuple):
    """A kind of Blue's actions.

    does: the effect in words. on_host: whether the target is a host. cost: in tenths of a reward.
    decoy: the decoy that the action sets up. sets_up_one_of: decoys, one of which the action sets
    up. leaves: what Blue's table then shows of a host that looked compromised, or "" for no change.
    resets: whether the action ends all decoys, files and sessions that were added to the host.
    by_host: whether the action sets by host offer this kind. near_the_end: the kind that replaces
    this kind in a timed action set near a horizon, or "". scenarios: the numbers of the challenges
    that have this kind. counted: the name of the cost that counts this kind: see `cage2.costs`."""

    does: str = ""
    on_host: bool = True
    cost: int = 0
    decoy: Decoy | None = None
    sets_up_one_of: tuple[str, ...] = ()
    leaves: str = ""
    resets: bool = False
    by_host: bool = False
    near_the_end: str = ""
    scenarios: tuple[int, ...] = (1, 2)
    counted: str = ""

    @property
    def deceives(self) -> bool:
        """Whether an action of this kind sets up a decoy."""
        return self.decoy is not None or self.sets_up_one_of != ()


def _decoy(decoy: Decoy) -> BlueKind:
    return BlueKind("sets up a decoy service", decoy=decoy, scenarios=(2,), counted="decoys")


BLUE: dict[str, BlueKind] = {
    "Sleep": BlueKind("nothing", on_host=False),
    "Monitor": BlueKind("nothing more than the monitoring of every step does", on_host=False),
    "Analyse": BlueKind(
        "shows whether Red is on the host, and as whom", by_host=True, counted="analyses"
    ),
    "Remove": BlueKind(
        "ends the processes that Red runs as a user",
        leaves="unknown",
        by_host=True,
        counted="removes",
    ),
    "DecoyApache": _decoy(Decoy(80, 80)),
    "DecoyFemitter": _decoy(Decoy(21, 21, "WINDOWS", as_system=True)),
    "DecoyHarakaSMPT": _decoy(Decoy(25, 25, "LINUX")),
    "DecoySmss": _decoy(Decoy(139, 139, "WINDOWS")),
    "DecoySSHD": _decoy(Decoy(22, 22)),
    "DecoySvchost": _decoy(Decoy(3389, 3389, "WINDOWS")),
    "DecoyTomcat": _decoy(Decoy(443, 443)),
    # CybORG checks another port than the port that this decoy opens. So a host can have any number
    # of these decoys.
    "DecoyVsftpd": _decoy(Decoy(80, 21, "LINUX")),
    "Misinform": BlueKind(
        "sets up one of five decoy services, on any operating system",
        sets_up_one_of=("DecoySSHD", "DecoyApache", "DecoySmss", "DecoyTomcat", "DecoySvchost"),
        scenarios=(1,),
        counted="decoys",
    ),
    "Restore": BlueKind(
        "returns the host to its first state",
        cost=10,
        leaves="clean",
        resets=True,
        by_host=True,
        near_the_end="Remove",
        counted="restores",
    ),
}
DECOYS = {name: kind.decoy for name, kind in BLUE.items() if kind.decoy is not None}
NEXT_DECOY = "NextDecoy"
"""The choice, in action sets by host, that sets up a host's next decoy."""
BY_HOST = (*(name for name, kind in BLUE.items() if kind.by_host), NEXT_DECOY)
"""The choices that an action set by host offers on each host."""


def blue_kinds(challenge: int) -> tuple[str, ...]:
    """Return the kinds of Blue's actions in the scenario of CAGE Challenge 1 or 2."""
    return tuple(name for name, kind in BLUE.items() if challenge in kind.scenarios)


def blue_action_names(kinds: Iterable[str], hosts: Sequence[str]) -> tuple[str, ...]:
    """Return the names of Blue's actions, by index, as CybORG prints them."""
    names = []
    for kind in kinds:
        if BLUE[kind].on_host:
            names += [f"{kind} {host}" for host in hosts]
        else:
            names.append(kind)
    return tuple(names)


def report_group_of(kind: str) -> str:
    """Return the name of a kind of Blue's actions in reports."""
    return "Decoy" if BLUE[kind].deceives else kind


GROUPS = tuple(dict.fromkeys(map(report_group_of, BLUE)))
"""The names of all kinds of Blue's actions in reports."""


class RedKind(NamedTuple):
    """A kind of Red's actions.

    target: "subnet", "host", "OT host", or "" without a target. needs: what Red has to know about
    the target: the "subnet", or the host's "address", "ports" or "name"."""

    target: str = ""
    needs: str = ""


RED: dict[str, RedKind] = {
    "Sleep": RedKind(),
    "DiscoverRemoteSystems": RedKind("subnet", "subnet"),
    "DiscoverNetworkServices": RedKind("host", "address"),
    "ExploitRemoteService": RedKind("host", "ports"),
    "PrivilegeEscalate": RedKind("host", "name"),
    "Impact": RedKind("OT host", "name"),
}
RED_ACTIONS = tuple(RED)
"""The names of the kinds of Red's actions, as CybORG prints them."""


def red_action_names(
    hosts: Sequence[str], subnets: Sequence[str], ot_hosts: Sequence[str]
) -> tuple[str, ...]:
    """Return the names of Red's actions, by index, for a policy or program that acts as Red."""
    targets = {"subnet": subnets, "host": hosts, "OT host": ot_hosts}
    names = []
    for kind, about in RED.items():
        if about.target:
            names += [f"{kind} {target}" for target in targets[about.target]]
        else:
            names.append(kind)
    return tuple(names)


class Exploit(NamedTuple):
    """One of Red's exploits. port: the port that the exploit attacks. process: the type of process
    that it attacks there."""

    port: int
    process: str


EXPLOITS: dict[str, Exploit] = {
    "EternalBlue": Exploit(139, "smb"),
    "BlueKeep": Exploit(3389, "rdp"),
    "HTTPRFI": Exploit(80, "webserver"),
    "HTTPSRFI": Exploit(443, "webserver"),
    "SSHBruteForce": Exploit(22, "ssh"),
    "SQLInjection": Exploit(3390, "mysql"),
    "HarakaRCE": Exploit(25, "smtp"),
    "FTPDirectoryTraversal": Exploit(21, "femitter"),
}
"""Red's exploits, in the order of CybORG's `DefaultExploitActionSelector`."""
