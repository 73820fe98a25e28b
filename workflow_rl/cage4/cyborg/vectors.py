"""The blue agents' vectors, masks and actions, as CybORG's wrappers make them, for one episode."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage4.cyborg.private_cyborg import Cyborg
from workflow_rl.cage4.scenario import scenario4

N_ZONES = len(scenario4.SORTED_ZONES)
BLOCKED, EVENTS = N_ZONES, scenario4.BITS_ABOUT_ZONES
"""The indices of the blocks and the events in a zone's part of a vector. The other entries are
constant in a phase."""


class Vectors:
    """`BlueEnterpriseWrapper` on one network.

    CybORG builds each vector from names, graphs and sorted tables. Here, a vector is a copy of the
    part that is constant in a phase. Blocks, events and messages are added to the copy.
    """

    def __init__(self, cyborg: Cyborg, state: Any) -> None:
        self._state = state
        self._constant = _constant_parts(cyborg)
        # By agent: the index of each host's bit for events of processes, and the host.
        self._hosts: list[list[tuple[int, Any]]] = []
        for zones in scenario4.AGENT_ZONES:
            hosts = []
            for zone_index, zone in enumerate(zones):
                first = 1 + zone_index * scenario4.BITS_OF_A_ZONE + EVENTS
                for i, name in enumerate(scenario4.zone_hosts(zone), start=first):
                    if name in state.hosts:
                        hosts.append((i, state.hosts[name]))
            self._hosts.append(hosts)
        self.masks = tuple(
            np.array([not action.host or action.host in state.hosts for action in actions])
            for actions in scenario4.ACTIONS
        )
        for mask in self.masks:
            mask.flags.writeable = False
        self._classes = {
            action.__name__: action for action in state.scenario.agents[scenario4.AGENTS[0]].actions
        }
        self._actions: dict[tuple[int, int], Any] = {}

    def observations(self, messages: NDArray[Any] | None) -> tuple[NDArray[np.int64], ...]:
        """Return the five vectors. messages: see `Simulator.step`."""
        state = self._state
        vectors = []
        for agent, hosts in enumerate(self._hosts):
            vector = self._constant[agent][state.mission_phase].copy()
            seen = []
            for i, host in hosts:
                events = host.events
                if events.old_process_creation or events.process_creation:
                    seen.append(i)
                if events.old_network_connections or events.network_connections:
                    seen.append(i + scenario4.HOSTS_OF_A_ZONE)
            vector[seen] = 1
            if state.blocks:
                self._show_blocks(agent, vector)
            if messages is not None:
                others = np.delete(messages, agent, axis=0).astype(np.bool_)
                vector[-scenario4.N_MESSAGE_BITS :] = others.ravel()
            vectors.append(vector)
        return tuple(vectors)

    def _show_blocks(self, agent: int, vector: NDArray[np.int64]) -> None:
        for zone_index, zone in enumerate(scenario4.AGENT_ZONES[agent]):
            start = 1 + zone_index * scenario4.BITS_OF_A_ZONE + BLOCKED
            for blocked in self._state.blocks.get(zone, ()):
                vector[start + scenario4.SORTED_ZONES.index(blocked)] = 1

    def actions(self, indices: Sequence[int]) -> list[Any]:
        """Return CybORG's actions. As in CybORG, an episode makes each action object once."""
        return [self._action(agent, index) for agent, index in enumerate(indices)]

    def _action(self, agent: int, index: int) -> Any:
        if (agent, index) not in self._actions:
            action = scenario4.ACTIONS[agent][index]
            kind = action.kind
            parameters: dict[str, Any] = {"session": 0, "agent": scenario4.AGENTS[agent]}
            if kind == "Sleep" or not self.masks[agent][index]:
                kind = "Sleep"
                parameters = {}
            elif action.to_zone:
                parameters |= {"from_subnet": action.from_zone, "to_subnet": action.to_zone}
            elif action.host:
                parameters["hostname"] = action.host
            self._actions[agent, index] = self._classes[kind](**parameters)
        return self._actions[agent, index]


@cache
def _constant_parts(cyborg: Cyborg) -> list[list[NDArray[np.int64]]]:
    """Return the constant part of each agent's vector in each phase: the phase, the own zones, and
    the zones that the own zones should block."""
    wrapper = cyborg["Agents.Wrappers"].BlueFlatWrapper
    parts: list[list[NDArray[np.int64]]] = [[] for _ in scenario4.AGENTS]
    for phase, name in enumerate(scenario4.MISSION_PHASES):
        allowed = wrapper._build_comms_policy_network(None, name).has_edge
        for agent, zones in enumerate(scenario4.AGENT_ZONES):
            vector = np.zeros(scenario4.OBS_SIZES[agent], np.int64)
            vector[0] = phase
            for zone_index, zone in enumerate(zones):
                start = 1 + zone_index * scenario4.BITS_OF_A_ZONE
                vector[start + scenario4.SORTED_ZONES.index(zone)] = 1
                policy = [not allowed(zone, other) for other in scenario4.SORTED_ZONES]
                vector[start + 2 * N_ZONES : start + EVENTS] = policy
            parts[agent].append(vector)
    return parts
