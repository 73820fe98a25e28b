"""A scenario of CAGE-2's kind: a network, its agents, and facts that follow from them.

A scenario is data. `from_text` and all methods that change a scenario check the scenario that they
return: see `checks`. Workers get checked scenarios, so they do not import YAML or pydantic.
`compiled.description` makes the compiled tables of a scenario, `files` reads and writes files, and
`red.roster` tells which of the challenge's red agents can play."""

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
    """A network and its agents. A scenario never changes. The constructor checks nothing.

    name: the scenario's name for people. content: JSON of what CybORG reads, with Agents, Hosts and
    Subnets, and with each image once, under Images. The order of hosts and of subnets matters,
    because CybORG draws its random numbers in this order."""

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
        """Return CAGE Challenge 1's own scenario, from the repository of this challenge."""
        return cls(SCENARIO1B, one_text(scenario1b(json.loads(cls.scenario2().content))))

    @classmethod
    def from_text(cls, text: str) -> Scenario:
        """Return the scenario of a text. The text is checked, because a stranger's file may hold
        it. Raises ScenarioError."""
        if text in NAMED:
            return NAMED[text]()
        from workflow_rl.cage2.scenario.checks import check_scenario, loaded

        heading, _, content = text.partition("\n")
        check_scenario(data := loaded(content))
        return cls(name_in(heading), one_text(data))

    @classmethod
    def from_checked(cls, text: str) -> Scenario:
        """Return the scenario of a text that was checked before. Workers get such texts."""
        heading, _, content = text.partition("\n")
        return cls(name_in(heading), content) if content else NAMED[text]()

    @property
    def text(self) -> str:
        """The whole scenario, for a config. A scenario of NAMED is only its name. Any other text is
        a line with the name and the digest, then the content."""
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
        """Whether this is CAGE Challenge 2's own scenario, under any name."""
        return self.content == self.scenario2().content

    def description(self) -> dict[str, Any]:
        """Return what CybORG reads: a new dict with Agents, Hosts and Subnets."""
        data = json.loads(self.content)
        images = {name: json.dumps(image) for name, image in data.pop("Images").items()}
        for host in data["Hosts"].values():
            # CybORG writes into these dicts, so hosts must not share a dict.
            image = json.loads(images[host.pop("image")])
            # `checks` checks only these entries of an image.
            host |= {key: value for key, value in image.items() if key in OF_IMAGE}
        return dict(data)

    @functools.cached_property
    def _data(self) -> dict[str, Any]:
        return dict(json.loads(self.content))

    # --- What follows from it ---------------------------------------------------------------------

    @functools.cached_property
    def hosts(self) -> tuple[str, ...]:
        """The hosts, in the order of the observation and of each kind's actions."""
        return tuple(self._data["Hosts"])

    @functools.cached_property
    def subnets(self) -> Mapping[str, tuple[str, ...]]:
        return {name: tuple(subnet["Hosts"]) for name, subnet in self._data["Subnets"].items()}

    @functools.cached_property
    def subnet_of(self) -> Mapping[str, str]:
        return {host: name for name, hosts in self.subnets.items() for host in hosts}

    @functools.cached_property
    def leads_to(self) -> Mapping[str, tuple[str, ...]]:
        """For each host: the other hosts whose addresses Red finds by exploring this host."""
        return {
            name: tuple(other for other in host.get("info", {}) if other != name)
            for name, host in self._data["Hosts"].items()
        }

    @functools.cached_property
    def action_names(self) -> tuple[str, ...]:
        """The names of Blue's actions, by index, as CybORG prints them."""
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
        """The names of Red's actions, by index, for a policy or program that acts as Red."""
        return red_action_names(self.hosts, tuple(self.subnets), self.ot_hosts)

    @property
    def red_obs_size(self) -> int:
        """The number of zeros and ones that `Cage2RedEnv` shows Red."""
        return len(self.subnets) + len(FACTS_OF_A_HOST) * len(self.hosts) + 2

    def seen_of_step(
        self, blue_action: int, blue_success: int, caught: NDArray[np.bool_], obs: NDArray[Any]
    ) -> dict[str, Any]:
        """Return, in words, what Blue sees of a step: see `Cage2Env.describe`.

        caught: the mask `[H]` of the suspicious hosts. obs: `[4 H]`."""
        bits = obs.reshape(-1, 4).astype(int).tolist()
        suspicious = [name for name, is_caught in zip(self.hosts, caught, strict=True) if is_caught]
        return {
            "blue_action": self.action_names[blue_action],
            "blue_success": SUCCESSES[blue_success],
            "suspicious_hosts": tuple(suspicious),
            "hosts": dict(zip(self.hosts, map(bits_in_words, bits), strict=True)),
        }

    @property
    def is_cage1(self) -> bool:
        """Whether CAGE Challenge 1's CybORG, with its rules, plays this scenario."""
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
        """The images by name. An image says what runs on a host."""
        return dict(self._data["Images"])

    def is_like(self, other: Scenario) -> bool:
        """Whether both scenarios have equal hosts and equal actions of Blue, so that a policy of
        one scenario fits the other."""
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
        """Return the scenario with a further host, which comes last and which Blue watches.

        Args:
            name: the host's name.
            image: the name of an image of this scenario, or of Scenario 2.
            subnet: the host's subnet, whose size grows if necessary.
            confidentiality: what a step costs while Red has a privileged session on the host:
                "None", "Low" (the default), "Medium" or "High".
            availability: what a step costs while the host's OT service is stopped.
            leads_to: hosts whose addresses Red finds by exploring this host.

        Raises ScenarioError."""
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
        """Return the scenario with a changed host. The arguments are those of `add_host`. None
        keeps the old value. Raises ScenarioError."""
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
        """Return the scenario with a further subnet, which has no hosts yet.

        only_from_enterprise: from these subnets, Red reaches the new subnet only while Red has a
        session on a host whose name contains Enterprise. Raises ScenarioError."""
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
        """Return the scenario in which Blue has these kinds of actions. Raises ScenarioError.

        kinds: names of kinds, such as "Restore"."""
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
    # CybORG's files have these entries in alphabetical order.
    return dict(sorted(found.items()))


def _values(confidentiality: str | None, availability: str | None) -> dict[str, str]:
    worth = {"ConfidentialityValue": confidentiality, "AvailabilityValue": availability}
    return {kind: value for kind, value in worth.items() if value is not None}


def _take_image(data: Mapping[str, Any], name: str) -> None:
    """Put an image of Scenario 2 into a scenario's data, if the data lack this image."""
    data["Images"][name] = _require({**IMAGES, **data["Images"]}, name, "image")


def _require(entries: Mapping[str, Any], name: str, what: str) -> Any:
    if name not in entries:
        from workflow_rl.cage2.scenario.checks import missing

        raise ScenarioError(missing(name, entries, what))
    return entries[name]


def one_text(data: Mapping[str, Any]) -> str:
    """Return the JSON text of a scenario. Hosts and subnets keep their order, which matters. All
    other names are sorted."""
    by_name: dict[str, Any] = json.loads(json.dumps(data, sort_keys=True))
    for kind in ("Hosts", "Subnets"):
        by_name[kind] = {name: by_name[kind][name] for name in data[kind]}
    return json.dumps(by_name, separators=(",", ":"))
