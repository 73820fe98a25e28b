"""What the agents' raw observations show of hosts, as arrays that a policy reads.

A record `RAW` holds one step of one network, for the hosts in the blue agents' zones. All its facts
come from the dictionaries of `simulator_protocol.Simulator.raw_observations`.

A host's number is its index in `scenario4.HOST_NAMES`. This module needs NumPy alone, because
submissions contain a copy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import Enum
from ipaddress import IPv4Address, IPv4Network
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage4.scenario import scenario4
from workflow_rl.cage4.scenario.actions import OUTCOMES
from workflow_rl.cage4.scenario.scenario4 import HOST_NUMBERS, UNKNOWN

MAX_SOURCES = 6
"""In one step, a host shows at most one source and one shell for each of the six red agents."""
CMD, ESCALATE, ANALYSED = 1, 2, 4
"""Bits of `files`."""
SCANNED, APPROACHED, PASSED, TAKEN, DECEIVED = 1, 2, 4, 8, 16
"""Bits of `seen`.

- SCANNED: the source scanned the host. An exploit of a decoy looks like a scan.
- APPROACHED: an SSH connection from the source to this host was seen.
- PASSED: an SSH connection from the source to another host was seen on this host.
- TAKEN: an SSH exploit took the host.
- DECEIVED: a decoy made an exploit fail."""
_FILE_BITS = {"cmd.sh": CMD, "escalate.sh": ESCALATE}
STRANGER = 255
"""Stands for the number of a host if the agent does not know the host's name."""
SSH_PORT, FIRST_PORT = 22, 49152
DECOYS = {"apache2": 5, "tomcat": 6, "haraka": 7, "vsftpd": 8}
"""Kinds of processes that DeployDecoy starts."""

RAW = np.dtype(
    [
        # The outcome of each agent's action: TRUE, UNKNOWN, FALSE or IN_PROGRESS.
        ("success", np.uint8, len(scenario4.AGENTS)),
        # ANALYSED and the bits of the files that Analyse found; 0 if the host was not analysed.
        ("files", np.uint8, scenario4.N_HOSTS),
        # The kind in DECOYS and the PID of a decoy that was deployed in this step, or 0.
        ("decoy", np.uint8, scenario4.N_HOSTS),
        ("decoy_pid", np.uint16, scenario4.N_HOSTS),
        # A process event with a PID is a shell. One without a PID is a false alert of a green.
        ("n_shells", np.uint8, scenario4.N_HOSTS),
        ("shell_pid", np.uint16, (scenario4.N_HOSTS, MAX_SOURCES)),
        ("false_alerts", np.uint8, scenario4.N_HOSTS),
        # The number of each source, a host from which red acted, and the bits of how red acted.
        # The first n_sources entries are valid.
        ("n_sources", np.uint8, scenario4.N_HOSTS),
        ("source", np.uint8, (scenario4.N_HOSTS, MAX_SOURCES)),
        ("seen", np.uint8, (scenario4.N_HOSTS, MAX_SOURCES)),
        # How many connection events greens caused, blocked or not.
        ("green_connections", np.uint16, scenario4.N_HOSTS),
    ],
    align=True,
)
NUMBERS = np.array(
    [
        [HOST_NUMBERS[name] for name in scenario4.zone_hosts(scenario4.AGENT_ZONES[agent][i])]
        for agent, i in scenario4.OWN_ZONES
    ]
)
"""The numbers of the hosts `[7, 16]` of own zones."""
KNOWN_NAMES = HOST_NUMBERS.keys() - {scenario4.INTERNET_HOST}
"""The names of the hosts in a record: all hosts except the internet's."""


def plain_observation(value: Any) -> Any:
    """Return a blue agent's dictionary from CybORG with plain values, in CybORG's order.

    An address or a network becomes a str. A member of an enumeration becomes its value if it is an
    instance of str, and its name otherwise. An action becomes the words of `scenario4.BlueAction`.
    An array or a tuple becomes a list. A number becomes an int, float or bool.

    A policy that reads this form can also play on the official wrapper. There, call this function
    on the argument `observation` of the wrapper's method `observation_change`."""
    if isinstance(value, dict):
        return {key: plain_observation(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain_observation(part) for part in value]
    if isinstance(value, Enum):
        return value.value if isinstance(value, str) else value.name
    if isinstance(value, IPv4Address | IPv4Network):
        return str(value)
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if value is None or isinstance(value, str | int | float):
        return value
    # Any other value is an action.
    parts = vars(value)
    words = [type(value).__name__]
    if "hostname" in parts:
        words.append(parts["hostname"])
    if "to_subnet" in parts:
        words.append(f"{parts['to_subnet']} <- {parts['from_subnet']}")
    return " ".join(words)


class RawReader:
    """Turns the five dictionaries of each step of an episode into a record."""

    def begin(self, dictionaries: Sequence[Mapping[str, Any]]) -> NDArray[Any]:
        """Read the dictionaries of a reset, and learn the hosts' addresses. Return RAW `[1]`."""
        self._hosts = [_numbers_by_address(dictionary) for dictionary in dictionaries]
        return self.read(dictionaries)

    def read(self, dictionaries: Sequence[Mapping[str, Any]]) -> NDArray[Any]:
        """Return the record RAW `[1]` of a step.

        Raises ValueError if a host shows more shells or sources than a record has room for."""
        records = np.zeros(1, RAW)
        record = records[0]
        for agent, dictionary in enumerate(dictionaries):
            record["success"][agent] = OUTCOMES.get(dictionary["success"], UNKNOWN)
            kind, _, target = dictionary.get("action", "").partition(" ")
            if kind == "Analyse":
                record["files"][HOST_NUMBERS[target]] = ANALYSED
            for name in KNOWN_NAMES & dictionary.keys():
                _read_host(record, HOST_NUMBERS[name], dictionary[name], self._hosts[agent])
        return records


def _numbers_by_address(dictionary: Mapping[str, Any]) -> dict[Any, int]:
    """Return the numbers of the hosts that an agent's dictionary names, by address."""
    numbers = {}
    for name in KNOWN_NAMES & dictionary.keys():
        for interface in dictionary[name].get("Interface", ()):
            numbers[interface["ip_address"]] = HOST_NUMBERS[name]
    return numbers


def _read_host(record: Any, host: int, facts: Mapping[str, Any], hosts: Mapping[str, int]) -> None:
    """Write what an agent's dictionary shows of a host. hosts: the numbers of hosts, by address."""
    for file in facts.get("Files", ()):
        record["files"][host] |= _FILE_BITS[file["File Name"]]
    events: Counter[tuple[Any, ...]] = Counter()
    shells = []
    for process in facts.get("Processes", ()):
        if "service_name" in process:
            record["decoy_pid"][host] = process["PID"]
            record["decoy"][host] = DECOYS[process["service_name"]]
        elif "username" in process:
            continue  # A reset lists the agent's own sessions, too.
        elif "PID" in process:
            shells.append(process["PID"])
        elif "remote_address" not in process["Connections"][0]:
            record["false_alerts"][host] += 1
        else:
            connection = process["Connections"][0]
            names = ("local_port", "remote_port", "local_address", "remote_address")
            events[tuple(connection.get(name) for name in names)] += 1
    sources: dict[int, int] = {}
    for (local_port, remote_port, local, remote), n_events in events.items():
        if local_port is not None:
            if local_port >= FIRST_PORT:
                how = DECEIVED
            elif n_events > 1:  # An SSH exploit tries passwords, which causes several equal events.
                how = TAKEN
            else:
                how = SCANNED
        elif remote_port == SSH_PORT:
            how = APPROACHED if hosts.get(local) == host else PASSED
        else:
            record["green_connections"][host] += n_events
            continue
        source = hosts.get(remote, STRANGER)
        sources[source] = sources.get(source, 0) | how
    if max(len(shells), len(sources)) > MAX_SOURCES:
        raise ValueError(f"a host shows more than {MAX_SOURCES} shells or sources in one step")
    record["n_shells"][host] = len(shells)
    record["shell_pid"][host, : len(shells)] = shells
    record["n_sources"][host] = len(sources)
    record["source"][host, : len(sources)] = list(sources)
    record["seen"][host, : len(sources)] = list(sources.values())
