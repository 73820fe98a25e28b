"""A scenario of CAGE-2's kind: a network, its agents, and what follows from them.

A scenario is data. `from_text` and all methods that change a scenario check what they return: see
`checks`. Workers get scenarios that were checked, and import neither YAML nor pydantic.
`compiled.description` makes the compiled tables of a scenario, `files` reads and writes files, and
`red.roster` tells which of the challenge's red agents can play.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workflow_rl.cage2.scenario.actions import blue_action_names, red_action_names
from workflow_rl.cage2.scenario1b import scenario1b
from workflow_rl.cage2.scenario2 import (
    FACTS_OF_A_HOST,
    IMAGES,
    SCENARIO1B,
    SCENARIO2,
    SUCCESSES,
    ScenarioError,
    bits_in_words,
    capacity,
    scenario2,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

OF_IMAGE = ("Processes", "System info", "Services", "User Info")


@dataclass(frozen=True)
class Scenario:
    """A network and its agents, which never change. The constructor checks nothing.

    name: what people call it. content: JSON of what CybORG reads, with Agents, Hosts and Subnets,
    and with each image once, under Images. The order of all entries counts: CybORG draws its random
    numbers in that order.
    """

    name: str
    content: str

    @classmethod
    @functools.cache
    def scenario2(cls) -> Scenario:
        """Return CAGE Challenge 2's own scenario."""
        return cls(SCENARIO2, one_text(scenario2()))

    @classmethod
    @functools.cache
    def scenario1b(cls) -> Scenario:
        """Return CAGE Challenge 1's own scenario, as its own repository has it."""
        return cls(SCENARIO1B, one_text(scenario1b(json.loads(cls.scenario2().content))))

    @classmethod
    def from_text(cls, text: str) -> Scenario:
        """Return the scenario of `text`, which a stranger's file may hold. Raises ScenarioError."""
        if text in NAMED:
            return NAMED[text]()
        from workflow_rl.cage2.scenario.checks import check_scenario, loaded

        heading, _, content = text.partition("\n")
        check_scenario(data := loaded(content))
        return cls(name_in(heading), one_text(data))

    @classmethod
    def from_checked(cls, text: str) -> Scenario:
        """Return the scenario of a `text` that was checked before, as workers get it."""
        heading, _, content = text.partition("\n")
        return cls(name_in(heading), content) if content else NAMED[text]()

    @property
    def text(self) -> str:
        """The whole scenario as a config keeps it: its name if it is one of NAMED, or else a line
        with its name and digest, and the content."""
        named = (name for name, make in NAMED.items() if make().content == self.content)
        return next(named, f"{self}\n{self.content}")

    def __str__(self) -> str:
        return f"{self.name} {self.digest}"

    @functools.cached_property
    def digest(self) -> str:
        """12 hexadecimal digits that identify the content."""
        return hashlib.sha256(self.content.encode()).hexdigest()[:12]

    @functools.cached_property
    def is_scenario2(self) -> bool:
        """Whether this is CAGE Challenge 2's own scenario, whatever it is called."""
        return self.content == self.scenario2().content

    def description(self) -> dict[str, Any]:
        """Return what CybORG reads: a fresh dict with Agents, Hosts and Subnets."""
        data = json.loads(self.content)
        images = {name: json.dumps(image) for name, image in data.pop("Images").items()}
        for host in data["Hosts"].values():
            # Hosts share no object, because CybORG writes into these dicts.
            image = json.loads(images[host.pop("image")])
            # Other entries of an image are not checked.
            host |= {key: value for key, value in image.items() if key in OF_IMAGE}
        return dict(data)

    @functools.cached_property
    def _data(self) -> dict[str, Any]:
        return dict(json.loads(self.content))

    # --- What follows from it ---------------------------------------------------------------------

    @functools.cached_property
    def hosts(self) -> tuple[str, ...]:
        """The hosts, in the order of the observation and of every group of actions."""
        return tuple(self._data["Hosts"])

    @functools.cached_property
    def subnets(self) -> Mapping[str, tuple[str, ...]]:
        return {name: tuple(subnet["Hosts"]) for name, subnet in self._data["Subnets"].items()}

    @functools.cached_property
    def subnet_of(self) -> Mapping[str, str]:
        return {host: name for name, hosts in self.subnets.items() for host in hosts}

    @functools.cached_property
    def leads_to(self) -> Mapping[str, tuple[str, ...]]:
        """The other hosts whose address Red finds by exploring each host."""
        return {
            name: tuple(other for other in host.get("info", {}) if other != name)
            for name, host in self._data["Hosts"].items()
        }

    @functools.cached_property
    def action_names(self) -> tuple[str, ...]:
        """Blue's actions by index, named as CybORG prints them."""
        return blue_action_names(self.kinds_of_action, self.hosts)

    @functools.cached_property
    def kinds_of_action(self) -> tuple[str, ...]:
        return tuple(self._data["Agents"]["Blue"]["actions"])

    @property
    def obs_size(self) -> int:
        """The number of bits of an observation: four for each host."""
        return 4 * len(self.hosts)

    @functools.cached_property
    def red_targets(self) -> tuple[str, ...]:
        """The targets of Red's actions: the hosts, then the subnets."""
        return (*self.hosts, *self.subnets)

    @functools.cached_property
    def red_action_names(self) -> tuple[str, ...]:
        """Red's actions by index, for a Red that is told what to do."""
        return red_action_names(self.hosts, tuple(self.subnets), self.ot_hosts)

    @property
    def red_obs_size(self) -> int:
        """The number of zeros and ones that `Cage2RedEnv` shows Red."""
        return len(self.subnets) + len(FACTS_OF_A_HOST) * len(self.hosts) + 2

    def seen_of_step(
        self, blue_action: int, blue_success: int, caught: NDArray[np.bool_], obs: NDArray[Any]
    ) -> dict[str, Any]:
        """Return in words what Blue sees of a step: see `Cage2Env.describe`.

        caught: mask of the hosts `[H]` on which a process was caught. obs: `[4 H]`.
        """
        bits = obs.reshape(-1, 4).astype(int).tolist()
        return {
            "blue_action": self.action_names[blue_action],
            "blue_success": SUCCESSES[blue_success],
            "suspicious_hosts": tuple(
                name for name, is_caught in zip(self.hosts, caught, strict=True) if is_caught
            ),
            "hosts": dict(zip(self.hosts, map(bits_in_words, bits), strict=True)),
        }

    @property
    def is_cage1(self) -> bool:
        """Whether the rules are those of CAGE Challenge 1's own CybORG."""
        return "Rules" in self._data

    @property
    def red_host(self) -> str:
        """The host on which Red has a session from the beginning."""
        return str(self._data["Agents"]["Red"]["starting_sessions"][0]["hostname"])

    @functools.cached_property
    def ot_hosts(self) -> tuple[str, ...]:
        """The hosts with an OT service, which Red can stop."""
        runs = {
            name: any(process.get("Process Name") == "OTService" for process in image["Processes"])
            for name, image in self._data["Images"].items()
        }
        return tuple(name for name, host in self._data["Hosts"].items() if runs[host["image"]])

    @property
    def images(self) -> Mapping[str, Any]:
        """What runs on hosts, by the name of the image."""
        return dict(self._data["Images"])

    def is_like(self, other: Scenario) -> bool:
        """Whether both have the same hosts and actions of Blue's, so that one policy fits both."""
        return (self.hosts, self.action_names) == (other.hosts, other.action_names)

    # --- Others like it ---------------------------------------------------------------------------

    def renamed(self, name: str) -> Scenario:
        """Return the same scenario under another name."""
        return type(self)(name, self.content)

    def add_host(
        self,
        name: str,
        image: str,
        subnet: str,
        confidentiality: str | None = None,
        availability: str | None = None,
        leads_to: Iterable[str] = (),
    ) -> Scenario:
        """Return the scenario with one more host, the last one, which Blue watches.

        Args:
            name: the name of the host.
            image: the name of an image of this scenario, or of Scenario 2.
            subnet: its subnet, whose size grows if necessary.
            confidentiality: what a privileged session of Red's costs: "None", "Low" (the default),
                "Medium" or "High".
            availability: what a step costs while its OT service is stopped.
            leads_to: hosts whose address Red finds by exploring this one.

        Raises ScenarioError.
        """
        data = json.loads(self.content)
        if name in data["Hosts"]:
            raise ScenarioError(f"there is a host {name} already")
        _take_image(data, image)
        host: dict[str, Any] = {"AWS_Info": [], "image": image}
        data["Hosts"][name] = host
        host["info"] = _explored(data, name, leads_to)
        host |= _values(confidentiality, availability)
        _require(data["Subnets"], subnet, "subnet")["Hosts"].append(name)
        _fit(data["Subnets"][subnet])
        seen = dict.fromkeys(("Interfaces", "System info", "User info"), "All")
        for agent in ("Blue", "Green"):
            if agent in data["Agents"]:
                data["Agents"][agent]["INT"]["Hosts"][name] = dict(seen)
        sessions = data["Agents"]["Blue"]["starting_sessions"]
        server = next(session["name"] for session in sessions if "parent" not in session)
        is_windows = data["Images"][image]["System info"]["OSType"].lower() == "windows"
        user = "SYSTEM" if is_windows else "ubuntu"
        session = {"hostname": name, "name": f"Velo{name}", "parent": server}
        sessions.append(session | {"type": "VelociraptorClient", "username": user})
        return self._changed(data)

    def remove_host(self, name: str) -> Scenario:
        """Return the scenario without a host. Raises ScenarioError."""
        data = json.loads(self.content)
        _require(data["Hosts"], name, "host")
        del data["Hosts"][name]
        for host in data["Hosts"].values():
            host.get("info", {}).pop(name, None)
        for subnet in data["Subnets"].values():
            subnet["Hosts"] = [host for host in subnet["Hosts"] if host != name]
        for agent in data["Agents"].values():
            agent["INT"]["Hosts"].pop(name, None)
            sessions = agent["starting_sessions"]
            agent["starting_sessions"] = [s for s in sessions if s["hostname"] != name]
        return self._changed(data)

    def change_host(
        self,
        name: str,
        image: str | None = None,
        confidentiality: str | None = None,
        availability: str | None = None,
        leads_to: Iterable[str] | None = None,
    ) -> Scenario:
        """Return the scenario with a changed host: see `add_host`. None changes nothing.

        Raises ScenarioError.
        """
        data = json.loads(self.content)
        host = _require(data["Hosts"], name, "host")
        host |= _values(confidentiality, availability)
        links = set(host.get("info", {})) - {name} if leads_to is None else set(leads_to)
        if image is not None:
            _take_image(data, image)
            host["image"] = image
        if image is not None or leads_to is not None:
            host["info"] = _explored(data, name, links)
        return self._changed(data)

    def add_subnet(self, name: str, only_from_enterprise: Iterable[str] = ()) -> Scenario:
        """Return the scenario with one more subnet, which has no hosts yet.

        only_from_enterprise: subnets from which Red reaches this one only while Red has a session
        on a host that is called Enterprise. Raises ScenarioError.
        """
        data = json.loads(self.content)
        if name in data["Subnets"]:
            raise ScenarioError(f"there is a subnet {name} already")
        access = {other: {"in": "None", "out": "all"} for other in only_from_enterprise}
        data["Subnets"][name] = {
            "Hosts": [],
            "NACLs": access | {"all": {"in": "all", "out": "all"}},
            "Size": 1,
        }
        for agent in data["Agents"].values():
            agent["AllowedSubnets"].append(name)
        return self._changed(data)

    def enter_at(self, name: str) -> Scenario:
        """Return the scenario in which Red begins on another host. Raises ScenarioError."""
        data = json.loads(self.content)
        image = data["Images"][_require(data["Hosts"], name, "host")["image"]]
        red = data["Agents"]["Red"]
        is_windows = image["System info"]["OSType"].lower() == "windows"
        red["starting_sessions"][0] |= {
            "hostname": name,
            "username": "SYSTEM" if is_windows else "root",
        }
        red["INT"] = {"Hosts": {name: {"Interfaces": "All", "System info": "All"}}}
        return self._changed(data)

    def let_blue(self, kinds: Iterable[str]) -> Scenario:
        """Return the scenario in which Blue has these kinds of actions, such as "Restore".

        Raises ScenarioError.
        """
        data = json.loads(self.content)
        data["Agents"]["Blue"]["actions"] = list(kinds)
        return self._changed(data)

    def _changed(self, data: dict[str, Any]) -> Scenario:
        from workflow_rl.cage2.scenario.checks import check_scenario

        used = {host["image"] for host in data["Hosts"].values()}
        data["Images"] = {name: image for name, image in data["Images"].items() if name in used}
        check_scenario(data)
        return type(self)(self.name, one_text(data))


NAMED = {SCENARIO2: Scenario.scenario2, SCENARIO1B: Scenario.scenario1b}
"""The challenges' own scenarios."""


def name_in(heading: str) -> str:
    from workflow_rl.cage.attackers import label_of

    return label_of(heading.rpartition(" ")[0]) or "scenario"


def _fit(subnet: dict[str, Any]) -> None:
    while capacity(subnet["Size"]) < len(subnet["Hosts"]):
        subnet["Size"] += 1


def _explored(data: Mapping[str, Any], name: str, leads_to: Iterable[str]) -> dict[str, Any]:
    image = data["Images"][data["Hosts"][name]["image"]]
    services = {"Services": list(image["Services"])} if "Services" in image else {}
    found: dict[str, dict[str, Any]] = {name: {"Interfaces": "All"} | services}
    found |= {host: {"Interfaces": "IP Address"} for host in leads_to}
    # CybORG's own order is alphabetical here.
    return dict(sorted(found.items()))


def _values(confidentiality: str | None, availability: str | None) -> dict[str, str]:
    worth = {"ConfidentialityValue": confidentiality, "AvailabilityValue": availability}
    return {kind: value for kind, value in worth.items() if value is not None}


def _take_image(data: Mapping[str, Any], name: str) -> None:
    """Put an image into a scenario's data, if it is not there yet."""
    data["Images"][name] = _require({**IMAGES, **data["Images"]}, name, "image")


def _require(entries: Mapping[str, Any], name: str, what: str) -> Any:
    if name not in entries:
        from workflow_rl.cage2.scenario.checks import missing

        raise ScenarioError(missing(name, entries, what))
    return entries[name]


def one_text(data: Mapping[str, Any]) -> str:
    """Return the canonical text of a scenario. It keeps only the orders of hosts and of subnets."""
    by_name: dict[str, Any] = json.loads(json.dumps(data, sort_keys=True))
    for kind in ("Hosts", "Subnets"):
        by_name[kind] = {name: by_name[kind][name] for name in data[kind]}
    return json.dumps(by_name, separators=(",", ":"))
