"""Describe a scenario in words, as plain values and as a picture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from prettytable import PrettyTable

from workflow_rl.cage2.attack_graph import Reach, attack_graph
from workflow_rl.cage2.red.roster import refusals
from workflow_rl.cage2.scenario.actions import EXPLOITS
from workflow_rl.cage2.scenario.family import ScenarioFamily
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.text_table import SINGLE_BORDER

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {"None": "#eeeeee", "Low": "#fff3c4", "Medium": "#ffc27a", "High": "#f4776b"}
"""The colour of a host for each value of its confidentiality."""
WIDTH, HEIGHT = 0.8, 0.62


def scenario_facts(scenario: Scenario) -> dict[str, Any]:
    """Return the scenario, and how Red reaches each host, as plain values."""
    described = scenario.description()
    graph = attack_graph(scenario)
    return {
        "scenario": str(scenario),
        "digest": scenario.digest,
        "subnets": {
            name: {"hosts": list(hosts), "closed_to": _closed_to(described["Subnets"][name])}
            for name, hosts in scenario.subnets.items()
        },
        "hosts": {
            name: {
                "subnet": scenario.subnet_of[name],
                "confidentiality": facts.get("ConfidentialityValue", "Low"),
                "availability": facts.get("AvailabilityValue", "Low"),
                "has_ot_service": name in scenario.ot_hosts,
                "ports": _ports(facts),
                "leads_to": list(scenario.leads_to[name]),
                "red": graph[name]._asdict(),
            }
            for name, facts in described["Hosts"].items()
        },
        "blue_actions": list(scenario.action_names),
        "observation_bits": scenario.obs_size,
        "red_begins_on": scenario.red_host,
        "red_agents": dict(refusals(scenario)),
    }


def _closed_to(subnet: Mapping[str, Any]) -> list[str]:
    """Return the names of the subnets that have no access to this subnet."""
    return [name for name, access in subnet["NACLs"].items() if access["in"] == "None"]


def _ports(host: Mapping[str, Any]) -> list[int]:
    ports = set()
    for process in host["Processes"]:
        for connection in process.get("Connections") or ():
            ports.add(connection["local_port"])
    return sorted(ports)


def lines(scenario: Scenario) -> list[str]:
    """Return the scenario in words, line by line."""
    facts = scenario_facts(scenario)
    table = PrettyTable(align="l")
    table.set_style(SINGLE_BORDER)
    table.field_names = ["subnet", "host", "value", "open ports", "Red finds it from", "gets in by"]
    for name, subnet in facts["subnets"].items():
        for number, host in enumerate(subnet["hosts"]):
            is_last = number == len(subnet["hosts"]) - 1
            row = _row(facts["hosts"][host], host == scenario.red_host)
            table.add_row(["" if number else name, host, *row], divider=is_last)
    heading = f"{scenario}: {len(scenario.hosts)} hosts in {len(scenario.subnets)} subnets"
    closed = [
        f"{name} is closed to {' and '.join(subnet['closed_to'])}, until Red holds a host that is "
        "called Enterprise"
        for name, subnet in facts["subnets"].items()
        if subnet["closed_to"]
    ]
    sees = f"Blue sees {scenario.obs_size} bits and has {len(scenario.action_names)} actions."
    return [heading, str(table), *closed, sees, *_red_agents(refusals(scenario))]


def lines_of_family(family: ScenarioFamily) -> list[str]:
    """Return a family in words, line by line. Raises ScenarioError."""
    networks = family.drawn(range(family.networks))
    sizes = sorted(len(network.hosts) for network in networks)
    subnets = []
    for name in family.start.subnets:
        counts = [len(network.subnets[name]) for network in networks]
        subnets.append(f"{name}: {min(counts)} to {max(counts)} hosts")
    n_different = len({network.digest for network in networks})
    return [
        f"{family}: {len(networks)} networks like {family.start.name}, {n_different} different "
        f"networks, with {sizes[0]} to {sizes[-1]} hosts",
        *subnets,
        *_red_agents(refusals(family)),
    ]


def _red_agents(reasons: Mapping[str, str | None]) -> list[str]:
    return [
        f"{name}: {'plays' if reason is None else f'cannot play: {reason}'}"
        for name, reason in reasons.items()
    ]


def _row(host: Mapping[str, Any], is_entry: bool) -> list[str]:
    value = host["confidentiality"]
    if host["has_ot_service"]:
        value = f"{value}, OT {host['availability']}"
    red = host["red"]
    sources = "it begins here" if is_entry else ", ".join(red["found_from"]) or "nowhere"
    ways = " ".join(str(EXPLOITS[exploit].port) for exploit in red["exploits"]) or "nothing"
    if not red["is_held"] and red["exploits"]:
        ways = f"not reached ({ways})"
    return [value, " ".join(map(str, host["ports"])), sources, ways]


def scenario_figure(scenario: Scenario) -> Figure:
    """Return a picture of the subnets, of hosts with their values, and of where Red finds hosts."""
    from matplotlib.figure import Figure

    graph = attack_graph(scenario)
    tallest = max(map(len, scenario.subnets.values()))
    size = (2.9 * len(scenario.subnets) + 0.4, 0.62 * tallest + 1.5)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.add_subplot()
    places = {}
    for column, hosts in enumerate(scenario.subnets.values()):
        for row, host in enumerate(hosts):
            places[host] = float(column), -float(row)
    described = scenario.description()["Hosts"]
    for column, name in enumerate(scenario.subnets):
        axes.text(column, 0.75, name, ha="center", weight="bold")
    for host, place in places.items():
        value = described[host].get("ConfidentialityValue", "Low")
        _draw_host(axes, place, host, COLOURS[value], graph[host], host == scenario.red_host)
        if host in scenario.ot_hosts:
            axes.text(place[0] + WIDTH / 2, place[1], " OT", va="center", size=7, weight="bold")
    for host, reach in graph.items():
        for source in (source for source in reach.found_from if source in places):
            start, end = places[source], places[host]
            bend = "arc3,rad=0.35" if start[0] == end[0] else "arc3,rad=0.08"
            style = {"arrowstyle": "-|>", "color": "#b03030", "connectionstyle": bend, "lw": 0.9}
            axes.annotate("", end, start, arrowprops={**style, "shrinkA": 26, "shrinkB": 26})
    axes.set_xlim(-0.6, len(scenario.subnets) - 0.4)
    axes.set_ylim(-tallest + 0.4, 1.1)
    axes.axis("off")
    axes.set_title(f"{scenario}\ncolour: confidentiality; arrow: where Red finds a host", size=9)
    return figure


def _draw_host(
    axes: Axes, place: tuple[float, float], host: str, colour: str, reach: Reach, is_entry: bool
) -> None:
    from matplotlib.patches import FancyBboxPatch

    corner = (place[0] - WIDTH / 2, place[1] - HEIGHT / 2)
    edge = "#b03030" if reach.is_held else "#808080"
    box = FancyBboxPatch(corner, WIDTH, HEIGHT, boxstyle="round,pad=0,rounding_size=0.1")
    box.set(facecolor=colour, edgecolor=edge, linewidth=2.5 if is_entry else 1)
    box.set_linestyle("-" if reach.is_held else ":")
    axes.add_patch(box)
    axes.text(*place, host, ha="center", va="center", size=8)
