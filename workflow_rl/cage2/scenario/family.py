"""A family of scenarios: numbered networks that are drawn within ranges."""

from __future__ import annotations

import functools
import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workflow_rl.cage2.b_line_plan import GOAL, kept_hosts, server_host
from workflow_rl.cage2.red.roster import able_reds, refusals
from workflow_rl.cage2.scenario.actions import BLUE
from workflow_rl.cage2.scenario.scenario import Scenario, ScenarioError, name_in

if TYPE_CHECKING:
    from workflow_rl.cage2.scenario.checks import Locate

FAMILY = '{"Family":'
"""The beginning of a family's content."""
MOST_ATTEMPTS = 30


@dataclass(frozen=True)
class ScenarioFamily:
    """Networks that differ from one scenario, the start, only within the family's ranges.

    name: the family's name for people. content: JSON of the ranges, and of the start's text. The
    number of a network determines the network. A training plays only the numbers below `networks`.
    """

    name: str
    content: str

    @classmethod
    def from_ranges(
        cls,
        ranges: Mapping[str, Any],
        start: Scenario | None = None,
        name: str = "family",
        locate: Locate | None = None,
    ) -> ScenarioFamily:
        """Return the family of these ranges. ranges: see `checks.FamilyFile`.

        start: by default Scenario 2. locate: see `checks.Locate`. Raises ScenarioError."""
        from workflow_rl.cage2.scenario.checks import check_family

        start = start or Scenario.scenario2()
        content = {"Family": check_family(ranges, start, locate), "Start": start.text}
        return cls(name, json.dumps(content, separators=(",", ":")))

    @classmethod
    def from_text(cls, text: str) -> ScenarioFamily:
        """Return the family of a text. The text is checked, because a stranger's file may hold it.
        Raises ScenarioError."""
        from workflow_rl.cage2.scenario.checks import loaded

        heading, _, content = text.partition("\n")
        data = loaded(content)
        start, ranges = data.get("Start"), data.get("Family")
        if not isinstance(start, str) or not isinstance(ranges, dict):
            raise ScenarioError("the text of the family is damaged")
        return cls.from_ranges(ranges, Scenario.from_text(start), name_in(heading))

    @classmethod
    def from_checked(cls, text: str) -> ScenarioFamily:
        """Return the family of a text that was checked before. Workers get such texts."""
        heading, _, content = text.partition("\n")
        return cls(name_in(heading), content)

    @property
    def text(self) -> str:
        """The whole family as a config keeps it: see `Scenario.text`."""
        return f"{self}\n{self.content}"

    def __str__(self) -> str:
        return f"{self.name} {self.digest}"

    @functools.cached_property
    def digest(self) -> str:
        """12 hexadecimal digits of the ranges and of the start, without the names of files."""
        ranges = dict(self.ranges)
        # The default value is left out, so that families from before this range keep their digest.
        if ranges.get("decoys") == [True]:
            del ranges["decoys"]
        content = json.dumps([ranges, self.start.digest], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:12]

    @functools.cached_property
    def ranges(self) -> Mapping[str, Any]:
        """The ranges within which networks are drawn: see `checks.FamilyFile`."""
        return dict(json.loads(self.content)["Family"])

    @functools.cached_property
    def start(self) -> Scenario:
        """The scenario from which each draw of a network starts."""
        return Scenario.from_checked(json.loads(self.content)["Start"])

    @property
    def networks(self) -> int:
        """The number of networks that a training plays."""
        return int(self.ranges["networks"])

    def draw(self, number: int) -> Scenario:
        """Return network number `number`, counted from 0. Raises ScenarioError if MOST_ATTEMPTS
        draws give no network in which the red agents can play."""
        return _drawn(self, number)

    def drawn(self, numbers: Sequence[int]) -> tuple[Scenario, ...]:
        return tuple(map(self.draw, numbers))


@functools.lru_cache(2048)
def _drawn(family: ScenarioFamily, number: int) -> Scenario:
    able = able_reds(family)
    problem: Any = None
    for attempt in range(MOST_ATTEMPTS):
        generator = random.Random(f"{family.digest} {number} {attempt}")
        try:
            network = _Drawing(family, generator).network()
        except ScenarioError as error:
            problem = error
            continue
        reasons = refusals(network)
        problems = [reasons[name] for name in able if reasons[name] is not None]
        if not problems:
            return network.renamed(f"{family.name}-{number}")
        problem = problems[0]
    raise ScenarioError(f"{family}: {MOST_ATTEMPTS} draws gave no network to play in: {problem}")


class _Drawing:
    """One draw of a network. The draw changes the family's start step by step."""

    def __init__(self, family: ScenarioFamily, generator: random.Random) -> None:
        self._ranges = family.ranges
        self._start = family.start
        self._random = generator
        data = json.loads(self._start.content)
        self._rows: dict[str, Any] = data["Hosts"]
        self._kept = kept_hosts(self._start, self._ranges["entry"])
        unlike_others = (server_host(data["Agents"]), GOAL, self._start.red_host)
        # For each subnet: the hosts that a new host can copy.
        self._models = {}
        for name, hosts in self._start.subnets.items():
            models = [host for host in hosts if host not in unlike_others]
            self._models[name] = models or list(hosts)
        # For each host: the host of the start that it copies, or the host itself.
        self._model = {host: host for host in self._start.hosts}

    def network(self) -> Scenario:
        """Return the network. Raises ScenarioError if no simulator can play it."""
        network = self._start
        for subnet in self._start.subnets:
            if subnet in self._ranges["hosts"]:
                n_hosts = self._random.randint(*self._ranges["hosts"][subnet])
                network = self._sized(network, subnet, n_hosts)
        for host in network.hosts:
            network = self._changed(network, host)
        if self._ranges["entry"]:
            network = network.enter_at(self._random.choice(self._ranges["entry"]))
        if not self._random.choice(self._ranges["decoys"]):
            kinds = network.kinds_of_action
            network = network.let_blue(kind for kind in kinds if not BLUE[kind].deceives)
        return network

    def _sized(self, network: Scenario, subnet: str, n_hosts: int) -> Scenario:
        hosts = list(network.subnets[subnet])
        removable = [host for host in hosts if host not in self._kept]
        self._random.shuffle(removable)
        for host in removable[: max(len(hosts) - n_hosts, 0)]:
            network = network.remove_host(host)
        while len(network.subnets[subnet]) < n_hosts:
            model = self._random.choice(self._models[subnet])
            name = _free_name(network, model.rstrip("0123456789"))
            row = self._rows[model]
            worth = row.get("ConfidentialityValue"), row.get("AvailabilityValue")
            network = network.add_host(name, row["image"], subnet, *worth)
            self._model[name] = model
        return network

    def _changed(self, network: Scenario, host: str) -> Scenario:
        subnet = network.subnet_of[host]
        drawn = {}
        if host not in (GOAL, self._start.red_host):
            for kind, argument in (("images", "image"), ("values", "confidentiality")):
                if subnet in self._ranges[kind]:
                    drawn[argument] = self._random.choice(self._ranges[kind][subnet])
        info = self._rows[self._model[host]].get("info", {})
        links = [target for target in info if target != self._model[host]]
        if not drawn and not links:
            return network
        return network.change_host(host, leads_to=self._drawn_links(network, links), **drawn)

    def _drawn_links(self, network: Scenario, links: Sequence[str]) -> list[str]:
        """Return the hosts to which a host leads. links: the hosts to which its model leads in the
        start. If the model leads to GOAL, the host leads only to GOAL."""
        if GOAL in links:
            return [GOAL]
        drawn: list[str] = []
        # A dictionary keeps each subnet of the links once, in their order.
        subnets = dict.fromkeys(self._start.subnet_of[target] for target in links)
        for subnet in subnets:
            models = self._models[subnet]
            targets = [host for host in network.subnets[subnet] if self._model.get(host) in models]
            # If GOAL was drawn, no further links are drawn.
            if targets and GOAL not in drawn:
                n_links = min(self._random.randint(*self._ranges["links"]), len(targets))
                drawn += self._random.sample(targets, n_links)
        return drawn


def _free_name(network: Scenario, beginning: str) -> str:
    """Return the first name that no host has: `beginning` and a number from 0 on."""
    number = 0
    while f"{beginning}{number}" in network.hosts:
        number += 1
    return f"{beginning}{number}"
