"""What a red agent sees in CybORG 4, and which actions the agent then knows."""

from typing import Any

KNOWLEDGE = ("subnet", "ip_address", "hostname", "agent")
"""The parameters of red actions for which an action space lists the known values by name."""


def forget_all(space: Any, state: Any) -> None:
    """`ActionSpace.update` with the true state: list all hosts and zones as unknown.

    The other parts of an action space are not parameters of red actions. The order of the listed
    values matters, because agents draw from the values.
    """
    for address, hostname in state.ip_addresses.items():
        zone = state.hostname_subnet_map[hostname]
        space.hostname[hostname] = False
        space.subnet[state.subnet_name_to_cidr[zone]] = False
        space.ip_address[address] = False


def update_action_space(space: Any, data: dict[str, Any], session_types: tuple[Any, ...]) -> None:
    """`ActionSpace.update` with an observation: mark as known what the observation names."""
    for info in data.values():
        if not isinstance(info, dict):
            continue
        if "Hostname" in info.get("System info", ()):
            space.hostname[info["System info"]["Hostname"]] = True
        for interface in info.get("Interface", ()):
            if "Subnet" in interface:
                space.subnet[interface["Subnet"]] = True
            if "ip_address" in interface:
                space.ip_address[interface["ip_address"]] = True
        for session in info.get("Sessions", ()):
            if session["agent"] in space.agent and session.get("Type") in session_types:
                space.server_session[session["session_id"]] = True


def knows_parameters(space: Any, action: Any) -> bool:
    """Return whether `replace_action_if_invalid` keeps an action. Its class is not checked."""
    parameters = vars(action)
    if "session" in parameters and not space.server_session.get(parameters["session"]):
        return False
    return all(
        getattr(space, name).get(parameters[name]) for name in KNOWLEDGE if name in parameters
    )


def hide_foreign_zones(data: dict[str, Any], cidrs: set[Any]) -> None:
    """`_filter_obs`: hide interfaces in foreign zones, and hosts without other entries.

    CybORG also hides processes with addresses outside of the network, but there are none.
    """
    hidden = []
    for key, info in data.items():
        if not isinstance(info, dict):
            continue
        interfaces = info.get("Interface")
        if interfaces is not None:
            interfaces[:] = [
                interface
                for interface in interfaces
                if "Subnet" not in interface or interface["Subnet"] in cidrs
            ]
            if not interfaces:
                del info["Interface"]
        if not info:
            hidden.append(key)
    for key in hidden:
        del data[key]


def combined(observations: list[Any]) -> dict[str, Any]:
    """`ObservationSet.get_combined_observation`: add later observations to the first observation.

    A host keeps each part that the first observation has of this host, because red agents read no
    more. Red agents read whether a host has sessions, the host's first address, its name, and its
    processes. Only the action's own observation lists processes.
    """
    data: dict[str, Any] = observations[0].data
    for observation in observations[1:]:
        for key, info in observation.data.items():
            if not isinstance(info, dict):
                continue
            known = data.setdefault(key, {})
            for part, facts in info.items():
                known.setdefault(part, facts)
            if "System info" in info:
                known["System info"] = {**info["System info"], **known["System info"]}
    return data
