"""Networks drawn at random, to compare simulators in."""

import copy
import random
from typing import Any

from tests.workflow_rl.cage2.descriptions import described
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scenario2 import IMAGES, capacity

SUBNETS = ("User", "Enterprise", "Operational", "Lab", "Office", "Plant", "Guest", "Annex")
KNOWN = dict.fromkeys(("Interfaces", "System info", "User info"), "All")
ALL = {"all": {"in": "all", "out": "all"}}
PORTS = (21, 22, 25, 80, 135, 139, 443, 445, 3389, 3390, 5432, 8080, 9000)


def random_scenario(seed: int, n_hosts: int) -> Scenario:
    """Return a scenario of n_hosts hosts, 2 at least, that follows from the seed.

    B_line has a plan in every other one that has enough hosts.
    """
    draw = random.Random(seed)
    is_planned = n_hosts > 5 and draw.random() < 0.5
    n_subnets = draw.randint(3 if is_planned else 1, min(8, n_hosts))
    # In a network with a plan, the first subnets are the plan's.
    names = [*SUBNETS[:3], *draw.sample(SUBNETS[3:], n_subnets - 3)] if is_planned else []
    names = names or draw.sample(SUBNETS, n_subnets)
    first = ["User", "User", "Enterprise", "Enterprise", "Enterprise", "Operational"]
    first = [*first, *names[3:]][:n_hosts] if is_planned else names
    members: dict[str, list[str]] = {name: [] for name in names}
    for number in range(n_hosts):
        # No subnet is empty, unless there are too few hosts.
        subnet = first[number] if number < len(first) else draw.choice(names)
        is_server = subnet == "Operational" and (not members[subnet] or draw.random() < 0.5)
        kind = "Op_Server" if is_server else "Op_Host" if subnet == "Operational" else subnet
        members[subnet].append(f"{kind}{len(members[subnet])}")
    members = {name: draw.sample(listed, len(listed)) for name, listed in members.items() if listed}
    hosts = draw.sample([host for listed in members.values() for host in listed], n_hosts)
    data: dict[str, Any] = {"Hosts": {}, "Subnets": {}}
    for host in hosts:
        data["Hosts"][host] = _host(draw, host, hosts)
    entry = "User0" if is_planned else draw.choice(hosts)
    if is_planned:
        _plan(draw, data["Hosts"], members)
    for name, listed in members.items():
        size = draw.randint(max(1, len(listed) - 2), len(listed) + draw.choice((0, 0, 9, 40)))
        while capacity(size) < len(listed):
            size += 1
        origin = next(subnet for subnet, inside in members.items() if entry in inside)
        rules = (ALL, ALL, {}, {origin: {"in": "None", "out": "all"}} | ALL)
        data["Subnets"][name] = {
            "Hosts": listed,
            "NACLs": ALL if entry in listed else draw.choice(rules),
            "Size": size,
        }
    data["Agents"] = _agents(draw, data["Hosts"], list(members), entry)
    return described(data, f"random-{seed}")


def _plan(draw: random.Random, hosts: dict[str, Any], members: dict[str, list[str]]) -> None:
    """Let B_line find its way from User0 to Op_Server0."""
    for host in members["User"]:
        hosts[host]["info"][draw.choice(members["Enterprise"])] = {"Interfaces": "IP Address"}
    for host in members["Enterprise"]:
        hosts[host]["info"].setdefault(host, {"Interfaces": "All"})
    hosts[members["Enterprise"][2]]["info"].setdefault("Op_Server0", {"Interfaces": "IP Address"})


def _host(draw: random.Random, name: str, hosts: list[str]) -> dict[str, Any]:
    image = copy.deepcopy(draw.choice(list(IMAGES.values())))
    if name == "Op_Server0":
        image = copy.deepcopy(IMAGES["OP_Server"])
    elif draw.random() < 0.4:
        _change(draw, image)
    info: dict[str, Any] = {}
    if draw.random() < 0.9:
        info[name] = {"Interfaces": "All"}
        if "Services" in image:
            info[name]["Services"] = ["OTService"]
    for other in draw.sample(hosts, draw.randint(0, min(3, len(hosts)))):
        info.setdefault(other, {"Interfaces": draw.choice(("IP Address", "IP Address", "All"))})
    worth = {
        kind: draw.choice(("None", "Low", "Medium", "High"))
        for kind in ("ConfidentialityValue", "AvailabilityValue")
        if draw.random() < 0.7
    }
    return {"AWS_Info": [], "info": info} | worth | image


def _change(draw: random.Random, image: dict[str, Any]) -> None:
    """Change users, properties, versions, patches and ports of what runs there."""
    for process in image["Processes"]:
        if process["Process Name"] == "OTService":
            continue
        if draw.random() < 0.3:
            superuser = "SYSTEM" if image["System info"]["OSType"] == "WINDOWS" else "root"
            process["Username"] = draw.choice((superuser, "ubuntu"))
        if process.get("Properties") and draw.random() < 0.5:
            process["Properties"] = ["none"]
        for connection in process.get("Connections", ()):
            if draw.random() < 0.2:
                connection["local_port"] = draw.choice(PORTS)
    if draw.random() < 0.3:
        image["System info"] = image["System info"] | {"Patches": ["MS17-010"]}
    for user in image["User Info"]:
        if draw.random() < 0.3:
            user["Bruteforceable"] = not user.get("Bruteforceable", False)


def _agents(
    draw: random.Random, hosts: dict[str, Any], subnets: list[str], entry: str
) -> dict[str, Any]:
    agents = Scenario.scenario2().description()["Agents"]
    for agent, row in agents.items():
        row["AllowedSubnets"] = list(subnets)
        row["INT"] = {"Hosts": {host: dict(KNOWN) for host in hosts}}
        if agent == "Green":
            listed = draw.sample(list(hosts), draw.randint(0, len(hosts)))
            session = {"name": "GreenSession", "type": "green_session", "username": "GreenAgent"}
            row["starting_sessions"] = [{"hostname": host} | session for host in listed]
    blue, red = agents["Blue"], agents["Red"]
    client = {"parent": "VeloServer", "type": "VelociraptorClient"}
    blue["starting_sessions"] = [
        {"hostname": host, "name": f"Velo{host}", "username": draw.choice(("ubuntu", "SYSTEM"))}
        | client
        for host in draw.sample(list(hosts), len(hosts))
    ]
    server = {"name": "VeloServer", "type": "VelociraptorServer", "username": "ubuntu"}
    server |= {"artifacts": ["NetworkConnections"], "num_children_sessions": 2}
    blue["starting_sessions"].append({"hostname": draw.choice(list(hosts))} | server)
    others = blue["actions"][2:]
    if draw.random() < 0.5:
        others = [kind for kind in others if "Decoy" not in kind] + ["Misinform"]
    elif draw.random() < 0.3:
        others = [*others, "Misinform"]
    blue["actions"] = ["Sleep", "Monitor", *draw.sample(others, len(others))]
    system = hosts[entry]["System info"]["OSType"]
    red["starting_sessions"][0] |= {
        "hostname": entry,
        "username": "SYSTEM" if system == "WINDOWS" else "root",
    }
    red["INT"] = {"Hosts": {entry: {"Interfaces": "All", "System info": "All"}}}
    return agents
