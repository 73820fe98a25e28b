"""Check that CybORG can play a scenario. Pydantic checks the shape, then functions look for errors.

The limits are CybORG's limits, and the limits within which this package equals CybORG. If CybORG
can play a scenario and compiled code cannot, `compiled.description` refuses the scenario."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from workflow_rl.agents.settings import MOST_LISTED, config_error
from workflow_rl.cage2 import scenario2 as challenge
from workflow_rl.cage2.b_line_plan import kept_hosts
from workflow_rl.cage2.scenario.actions import BLUE, RED_ACTIONS
from workflow_rl.cage2.scenario2 import ScenarioError, capacity
from workflow_rl.suggestions import question, word_meant
from workflow_rl.terminal import printable

if TYPE_CHECKING:
    from workflow_rl.cage2.scenario.scenario import Scenario

MOST_HOSTS, MOST_SUBNETS = 64, 8
MOST_PROCESSES = 64
AGENTS = ("Blue", "Green", "Red")

Place: TypeAlias = tuple[str | int, ...]
"""The place of a value in a scenario: the keys and the numbers that lead to the value."""
Problems: TypeAlias = Iterator[tuple[Place, str]]
Locate: TypeAlias = Callable[[Place], str]
"""Returns the name of a place for messages."""
Model = TypeVar("Model", bound=BaseModel)


def _name(name: str) -> str:
    # In CybORG's observations and scenarios, these three names have other meanings.
    if not re.fullmatch(r"[A-Za-z]\w{0,31}", name, re.ASCII) or name in ("success", "all", "None"):
        raise ValueError(
            f"{name!r:.50} is no name: use up to 32 letters, digits and _, a letter first"
        )
    return name


def _address(text: str) -> str:
    if text not in ("broadcast", "local"):
        ipaddress.IPv4Address(text)
    return text


def _system(text: str) -> str:
    if text.lower() not in ("linux", "windows"):
        raise ValueError(f"{text!r:.50} is not LINUX or WINDOWS")
    return text


Name = Annotated[str, AfterValidator(_name)]
Text = Annotated[str, Field(max_length=200)]
Worth = Literal["None", "Low", "Medium", "High"]
Access = Literal["all", "None"]
Pid = Annotated[int, Field(ge=0, lt=2**22)]
Number = Annotated[int, Field(ge=-(2**63), lt=2**63)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _OfImage(BaseModel):
    """A part of an image. CybORG ignores all facts of an image that have no field here."""

    model_config = ConfigDict(extra="ignore", strict=True)


class _Connection(_OfImage):
    local_address: Annotated[str, AfterValidator(_address)]
    local_port: Annotated[int, Field(ge=0, lt=2**16)]


class _Process(_OfImage):
    pid: Pid = Field(alias="PID")
    ppid: Pid | None = Field(None, alias="PPID")
    name: Text = Field(alias="Process Name")
    user: Text = Field(alias="Username")
    path: Text | None = Field(None, alias="Path")
    connections: list[_Connection] | None = Field(None, alias="Connections", max_length=32)
    kind: Text | None = Field(None, alias="Process Type")
    version: Text | None = Field(None, alias="Process Version")
    properties: Text | list[Text] | None = Field(None, alias="Properties")


class _System(_OfImage):
    architecture: Text = Field(alias="Architecture")
    distribution: Text = Field(alias="OSDistribution")
    kind: Annotated[str, AfterValidator(_system)] = Field(alias="OSType")
    version: Text = Field(alias="OSVersion")
    kernel: Text = Field("", alias="OSKernelVersion")
    patches: list[Text] = Field([], alias="Patches")


class _Group(_OfImage):
    gid: Number | None = Field(None, alias="GID")
    name: Text | None = Field(None, alias="Group Name")


class _User(_OfImage):
    name: Text = Field(alias="Username")
    uid: Number | Text | None = Field(None, alias="UID")
    groups: list[_Group] | None = Field(None, alias="Groups")
    password: Text | None = Field(None, alias="Password")
    bruteforceable: bool = Field(False, alias="Bruteforceable")


class _Service(_Part):
    active: bool
    pid: Pid = Field(alias="PID")


class _Image(_OfImage):
    processes: list[_Process] = Field(alias="Processes", max_length=MOST_PROCESSES)
    system: _System = Field(alias="System info")
    services: dict[Text, _Service] | None = Field(None, alias="Services")
    users: list[_User] = Field(alias="User Info", max_length=64)


class _Explored(_Part):
    interfaces: Literal["All", "IP Address"] | None = Field(None, alias="Interfaces")
    services: list[Text] | None = Field(None, alias="Services")


class _Host(_Part):
    aws: Any = Field(None, alias="AWS_Info")
    image: Text
    info: dict[Name, _Explored] = {}
    confidentiality: Worth = Field("Low", alias="ConfidentialityValue")
    availability: Worth = Field("Low", alias="AvailabilityValue")


class _Nacl(_Part):
    inbound: Access = Field(alias="in")
    outbound: Access = Field("all", alias="out")


class _Subnet(_Part):
    hosts: list[Name] = Field(alias="Hosts")
    nacls: dict[str, _Nacl] = Field(alias="NACLs")
    size: Annotated[int, Field(ge=1, le=250)] = Field(alias="Size")


class _Seen(_Part):
    interfaces: Literal["All"] = Field(alias="Interfaces")
    system: Literal["All"] = Field(alias="System info")
    user: Literal["All"] | None = Field(None, alias="User info")


class _Known(_Part):
    hosts: dict[Name, _Seen] = Field(alias="Hosts")


class _Session(_Part):
    hostname: Name
    name: Text
    kind: Text = Field(alias="type")
    username: Text
    parent: Text | None = None
    n_children: Annotated[int, Field(ge=0, lt=2**16)] = Field(0, alias="num_children_sessions")
    artifacts: list[Literal["NetworkConnections", "ProcessCreation"]] = []


class _Agent(_Part):
    subnets: list[Name] = Field(alias="AllowedSubnets")
    known: _Known = Field(alias="INT")
    actions: list[Text] = Field(max_length=64)
    adversary: Text | None = None
    kind: Literal["SleepAgent"] = Field(alias="agent_type")
    reward: Text = Field(alias="reward_calculator_type")
    sessions: list[_Session] = Field(alias="starting_sessions", max_length=2 * MOST_HOSTS + 1)
    wrappers: Annotated[list[Any], Field(max_length=0)] | None = None


class _Agents(_Part):
    blue: _Agent = Field(alias="Blue")
    green: _Agent | None = Field(None, alias="Green")
    red: _Agent = Field(alias="Red")


class _Scenario(_Part):
    agents: _Agents = Field(alias="Agents")
    hosts: dict[Name, _Host] = Field(alias="Hosts", min_length=2, max_length=MOST_HOSTS)
    subnets: dict[Name, _Subnet] = Field(alias="Subnets", min_length=1, max_length=MOST_SUBNETS)
    images: dict[Text, _Image] = Field(alias="Images")
    rules: Literal["CAGE-1"] | None = Field(None, alias="Rules")


def _keys(place: Place) -> str:
    return ".".join(map(str, place)) or "the scenario"


Range = Annotated[
    list[Annotated[int, Field(ge=0, le=MOST_HOSTS)]], Field(min_length=2, max_length=2)
]
Images = Annotated[list[Text], Field(min_length=1)]


class FamilyFile(_Part):
    """The ranges from which a family draws networks. start: scenario2, or a scenario file in the
    same folder. networks: how many networks a training plays. hosts: for a subnet, the smallest and
    the largest number of hosts. images, values: for a subnet, the possible images and
    confidentialities of its hosts. links: the smallest and the largest number of hosts of one
    subnet to which a host leads. entry: the hosts on which Red may begin. decoys: whether Blue has
    decoys; one value is drawn."""

    start: Text = "scenario2"
    networks: Annotated[int, Field(ge=1, le=10_000)] = 200
    hosts: dict[Name, Range] = {}
    images: dict[Name, Images] = {}
    values: dict[Name, Annotated[list[Worth], Field(min_length=1)]] = {}
    links: Range = [1, 1]
    entry: list[Name] = []
    decoys: Annotated[list[bool], Field(min_length=1)] = [True]


def check_family(
    data: Mapping[str, Any], start: Scenario, locate: Locate | None = None
) -> dict[str, Any]:
    """Return the ranges of a family, with defaults. Raises ScenarioError."""
    locate = locate or _keys
    family = _parsed(FamilyFile, data, locate)
    _refuse_first(_family_problems(family, start), locate)
    return family.model_dump(exclude={"start"})


def _family_problems(family: FamilyFile, start: Scenario) -> Problems:
    for kind in ("hosts", "images", "values"):
        for subnet in getattr(family, kind):
            if subnet not in start.subnets:
                yield (kind, subnet), missing(subnet, start.subnets, "subnet")
    ranges: dict[Place, list[int]] = {("hosts", name): ends for name, ends in family.hosts.items()}
    for place, (low, high) in (ranges | {("links",): family.links}).items():
        if low > high:
            yield place, f"{low} is above {high}: give the smaller number first"
    kept = kept_hosts(start, family.entry)
    for subnet, (low, _) in family.hosts.items():
        staying = [host for host in start.subnets[subnet] if host in kept]
        if low < len(staying):
            problem = f"{', '.join(staying)} are in every network"
            yield ("hosts", subnet), f"{problem}: give {len(staying)} hosts or more"
    most_hosts = 0
    for name, hosts in start.subnets.items():
        _, most = family.hosts.get(name, (0, len(hosts)))
        most_hosts += most
    if most_hosts > MOST_HOSTS:
        yield ("hosts",), f"up to {most_hosts} hosts: at most {MOST_HOSTS} are played"
    known = {**challenge.IMAGES, **start.images}
    for subnet, images in family.images.items():
        for number, image in enumerate(images):
            if image not in known:
                yield ("images", subnet, number), missing(image, known, "image")
    for number, host in enumerate(family.entry):
        if host not in start.hosts:
            yield ("entry", number), missing(host, start.hosts, "host")


def loaded(content: str) -> dict[str, Any]:
    """Return the JSON of a scenario. Raises ScenarioError."""
    try:
        data = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ScenarioError(f"the text of the scenario is damaged: {error}") from None
    if not isinstance(data, dict):
        raise ScenarioError("the text of the scenario is damaged: it is no object")
    return data


def check_scenario(data: Mapping[str, Any], locate: Locate = _keys) -> None:
    """Raise ScenarioError for the first error in a scenario's data.

    data: its keys are Agents, Hosts, Subnets, and Images, which has images by name."""
    _parsed(_Scenario, data, locate)
    _refuse_first(_contradictions(data), locate)


def error_at(place: str, message: str) -> ScenarioError:
    """Return an error about a place, as one line of printable characters."""
    return ScenarioError(printable(f"{place}: {message}"))


def _refuse_first(problems: Problems, locate: Locate) -> None:
    for place, message in problems:
        raise error_at(locate(place), message)


def _parsed(model: type[Model], data: Mapping[str, Any], locate: Locate) -> Model:
    """Return data as a model. Raises ScenarioError for the first error in the data's shape."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        place = tuple(part for part in problem["loc"] if part != "[key]")
        raise error_at(locate(place), _shape(error, model)) from None


def _shape(error: ValidationError, model: type[BaseModel]) -> str:
    """Return the message for an error in the shape of a scenario."""
    problem = error.errors(include_url=False)[0]
    place = problem["loc"]
    if problem["type"] == "missing":
        return f"{place[-1]} is missing"
    if problem["type"] == "extra_forbidden":
        known = [field.alias or name for name, field in _model_at(model, place[:-1]).items()]
        meant = question(word_meant(str(place[-1]), known))
        return f"there is no {place[-1]!s:.50} here: there is {', '.join(known)}.{meant}"
    if problem["type"] == "too_long":
        most, found = problem["ctx"]["max_length"], problem["ctx"]["actual_length"]
        return f"{found or 'more'} are too many: at most {most} are played"
    return config_error(error, {}).message


def _model_at(model: type[BaseModel], place: Place) -> Mapping[str, Any]:
    fields: Mapping[str, Any] = model.model_fields
    for part in place:
        named = [field for name, field in fields.items() if part in (field.alias, name)]
        fields = _fields_in(named[0].annotation) if named else fields
    return fields


def _fields_in(annotation: Any) -> Mapping[str, Any]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation.model_fields
    for part in getattr(annotation, "__args__", ()):
        if fields := _fields_in(part):
            return fields
    return {}


def _contradictions(data: Mapping[str, Any]) -> Problems:
    """Yield each contradiction in a scenario, as the place and the message."""
    yield from _in_hosts(data)
    yield from _in_subnets(data)
    for agent, facts in data["Agents"].items():
        yield from _in_agent(data, agent, facts)
    yield from _in_blue(data)
    yield from _in_red(data)


def missing(name: str, known: Collection[str], what: str) -> str:
    """Return a message that a name is unknown, with the known names. what: the kind of name."""
    meant = question(word_meant(name, known))
    choice = f": choose one of {', '.join(known)}" if len(known) <= MOST_LISTED else ""
    return f"there is no {what} {name!s:.50}{choice}.{meant}"


def _in_hosts(data: Mapping[str, Any]) -> Problems:
    hosts, images = data["Hosts"], data["Images"]
    for name, host in hosts.items():
        place = ("Hosts", name)
        if name in data["Subnets"]:
            yield place, f"{name} is also the name of a subnet: choose another one"
        if host["image"] not in images:
            yield (*place, "image"), missing(host["image"], images, "image")
        services = images[host["image"]].get("Services") or {}
        for other, explored in host.get("info", {}).items():
            where = (*place, "info", other)
            if other not in hosts:
                yield where, missing(other, hosts, "host")
            for service in explored.get("Services") or ():
                if other == name and service not in services:
                    yield where, f"the image {host['image']} has no service {service}"
    for name, image in images.items():
        pids = [process["PID"] for process in image["Processes"]]
        for number, process in enumerate(image["Processes"]):
            kind = process.get("Process Type") or process["Process Name"]
            if kind.lower() == "smtp" and not process.get("Process Version"):
                where = ("Images", name, "Processes", number)
                yield where, "CybORG needs the Process Version of a mail server, like haraka 2.7.0"
        for service, facts in (image.get("Services") or {}).items():
            if facts["PID"] not in pids:
                where = ("Images", name, "Services", service)
                yield where, f"no process has its PID, {facts['PID']}: the image has {pids}"


def _in_subnets(data: Mapping[str, Any]) -> Problems:
    hosts, subnets = data["Hosts"], data["Subnets"]
    subnet_of: dict[str, str] = {}
    for name, subnet in subnets.items():
        for number, host in enumerate(subnet["Hosts"]):
            place = ("Subnets", name, "Hosts", number)
            if host not in hosts:
                yield place, missing(host, hosts, "host")
            if host in subnet_of:
                yield place, f"{host} is in {subnet_of[host]} already: a host is in one subnet"
            subnet_of[host] = name
        n_hosts, size = len(subnet["Hosts"]), subnet["Size"]
        if n_hosts > capacity(size):
            enough = next(bigger for bigger in range(size, 251) if capacity(bigger) >= n_hosts)
            problem = (
                f"CybORG has {capacity(size)} addresses for Size {size}, too few for {n_hosts}"
            )
            yield ("Subnets", name, "Size"), f"{problem} hosts: give {enough} or more"
        for other, access in subnet["NACLs"].items():
            place = ("Subnets", name, "NACLs", other)
            if other not in (*subnets, "all"):
                yield place, missing(other, (*subnets, "all"), "subnet")
            if other == "all" and access["in"] == "None":
                problem = "CybORG cannot close a subnet to all"
                yield place, f"{problem}: name the subnets, or leave it out"
    for host in hosts:
        if host not in subnet_of:
            yield ("Hosts", host), f"{host} is in no subnet: list it under Subnets, Hosts"


def _in_agent(data: Mapping[str, Any], agent: str, facts: Mapping[str, Any]) -> Problems:
    place = ("Agents", agent)
    kinds = {"Blue": BLUE, "Green": challenge.GREEN_ACTIONS, "Red": challenge.RED_ACTION_KINDS}
    for list_name, known, what in (
        ("actions", kinds[agent], f"action of {agent}'s that is played"),
        ("AllowedSubnets", data["Subnets"], "subnet"),
    ):
        listed = facts[list_name]
        for number, name in enumerate(listed):
            where = (*place, list_name, number)
            if name not in known:
                yield where, missing(name, known, what)
            if name in listed[:number]:
                yield where, f"{name} is listed twice"
    for name in data["Subnets"]:
        if name not in facts["AllowedSubnets"]:
            yield (*place, "AllowedSubnets"), f"{name} is missing: list all subnets"
    for host in facts["INT"]["Hosts"]:
        if host not in data["Hosts"]:
            yield (*place, "INT", "Hosts", host), missing(host, data["Hosts"], "host")
    for number, session in enumerate(facts["starting_sessions"]):
        if (host := session["hostname"]) not in data["Hosts"]:
            yield (*place, "starting_sessions", number), missing(host, data["Hosts"], "host")


def _in_blue(data: Mapping[str, Any]) -> Problems:
    blue = data["Agents"]["Blue"]
    place = ("Agents", "Blue")
    rewarded = "HybridAvailabilityConfidentiality"
    if blue["reward_calculator_type"] != rewarded:
        found = blue["reward_calculator_type"]
        yield (*place, "reward_calculator_type"), f"{found!s:.50} is not played: give {rewarded}"
    if blue.get("adversary") != "Red":
        stated = (*place, "adversary") if "adversary" in blue else place
        yield stated, "adversary has to be Red"
    needed = [name for name, kind in BLUE.items() if not kind.on_host]
    if any(kind not in blue["actions"] for kind in needed):
        yield (*place, "actions"), f"Blue needs the actions {' and '.join(needed)}"
    for host in data["Hosts"]:
        if host not in blue["INT"]["Hosts"]:
            yield (*place, "INT", "Hosts"), f"{host} is missing: Blue's table shows every host"
    sessions = blue["starting_sessions"]
    where = (*place, "starting_sessions")
    servers = [session for session in sessions if session.get("parent") is None]
    if [session["type"] for session in servers] != ["VelociraptorServer"]:
        problem = f"there are {len(servers)} sessions without a parent"
        yield where, f"{problem}: Blue needs one, of the type VelociraptorServer"
    if "NetworkConnections" not in servers[0].get("artifacts", ()):
        number = sessions.index(servers[0])
        yield (
            (*where, number),
            "its artifacts have to hold NetworkConnections, or Blue sees nothing",
        )
    watched: list[str] = []
    for number, session in enumerate(sessions):
        if session is servers[0]:
            continue
        if (session["type"], session["parent"]) != ("VelociraptorClient", servers[0]["name"]):
            problem = f"{session['name']} has to be a VelociraptorClient"
            yield (*where, number), f"{problem} with the parent {servers[0]['name']}"
        if session["hostname"] in watched:
            yield (*where, number), f"{session['hostname']} has a VelociraptorClient already"
        watched.append(session["hostname"])
    for host in data["Hosts"]:
        if host not in watched:
            yield where, f"{host} has no VelociraptorClient: Blue needs one on every host"


def _in_red(data: Mapping[str, Any]) -> Problems:
    red = data["Agents"]["Red"]
    place = ("Agents", "Red")
    if lacking := [kind for kind in RED_ACTIONS if kind not in red["actions"]]:
        yield (*place, "actions"), f"{lacking[0]} is missing: the red agents need it"
    where = (*place, "starting_sessions")
    sessions = red["starting_sessions"]
    if len(sessions) != 1:
        yield where, f"Red has {len(sessions)} sessions: it needs one, a RedAbstractSession"
    session = sessions[0]
    host = session["hostname"]
    if session["type"] != "RedAbstractSession" or session.get("parent") is not None:
        yield (*where, 0), "it has to be a RedAbstractSession without a parent"
    system = data["Images"][data["Hosts"][host]["image"]]["System info"]["OSType"]
    user = "SYSTEM" if system.lower() == "windows" else "root"
    if session["username"] != user:
        yield (*where, 0), f"its username has to be {user}: {host} runs {system}"
    if list(red["INT"]["Hosts"]) != [host]:
        known = ", ".join(red["INT"]["Hosts"]) or "none"
        problem = f"Red has to know {host}, where it begins, alone: not {known}"
        yield (*place, "INT", "Hosts"), problem
    if "Green" in data["Agents"]:
        yield from _in_green(data["Agents"]["Green"])


def _in_green(green: Mapping[str, Any]) -> Problems:
    where = ("Agents", "Green", "starting_sessions")
    for number, session in enumerate(green["starting_sessions"]):
        if session["type"] != "green_session" or session.get("parent") is not None:
            yield (
                (*where, number),
                "a session of Green's has to be a green_session without a parent",
            )
