"""A faster csle-cyborg. Its episodes equal those of the published csle-cyborg, bit by bit.

CybORG spends most of a step on work whose result nobody reads. For a reward that depends on a few
sessions, CybORG describes the complete true state. For 52 bits, CybORG makes tables and deep
copies. CybORG also parses enums from strings. Each function below leaves out such work, or computes
the result in another way, and says why the result is exact. CybORG's own code still runs the red
agents, applies the actions, and makes every random draw, in the same order. Tests compare whole
episodes with the published csle-cyborg.

The changes are made in a private copy of the package (see `private_cyborg`). The published
csle-cyborg stays as it is in the same process."""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage2.cyborg.private_cyborg import PrivateCyborg
from workflow_rl.cage2.cyborg.stock import hosts_held, red_action_index, red_target_index
from workflow_rl.cage2.cyborg.template import Template, clone
from workflow_rl.cage2.scenario.actions import BLUE
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scenario.simulator_protocol import Facts
from workflow_rl.cage2.scenario2 import RED_AGENTS, SUCCESSES

# The pairs of bits for a host's activity and for its compromise, as in `BlueTableWrapper`.
NO, SCAN, EXPLOIT = (0, 0), (1, 0), (1, 1)
UNKNOWN, USER, PRIVILEGED = (1, 0), (0, 1), (1, 1)
_HANDLER_PORT = 4444  # The port of Red's host to which sessions connect back.
LEFT = {"unknown": UNKNOWN, "clean": NO}
"""For each value of `BlueKind.leaves`: the compromise that Blue's table shows after the action."""


# --- Replacements in the private copy ------------------------------------------------------------


def restore_host(host: Any) -> None:
    """Follow `Host.restore`: copy each process of the backup.

    CybORG makes each process anew from its parts. The new process equals the backup's process,
    because the backup never changes. So a copy is exact."""
    host.events = {"NetworkConnections": [], "ProcessCreation": []}
    host.files = []
    host.sessions = {agent: list(idents) for agent, idents in host.original_sessions.items()}
    host.processes = [clone(process, "connections") for process in host.original_processes]
    host.ephemeral_ports = []
    host.services = {name: dict(service) for name, service in host.original_services.items()}


def is_host_using_port(host: Any, port: int) -> bool:
    """Like `_is_host_using_port`, but read the processes' connections, and describe no process."""
    return any(
        connection["local_port"] == port
        for process in host.processes
        for connection in process.connections
    )


def _sped_up_copy() -> PrivateCyborg:
    cyborg = PrivateCyborg()
    cyborg["simulator.host"].Host.restore = restore_host
    for module in cyborg.modules.values():
        if hasattr(module, "_is_host_using_port"):
            vars(module)["_is_host_using_port"] = is_host_using_port
    # What `parse_string` returns depends only on the string, so a cache is exact.
    for enum in vars(cyborg["shared.enums"]).values():
        if hasattr(enum, "parse_string"):
            enum.parse_string = staticmethod(cache(enum.parse_string))
    return cyborg


CYBORG = _sped_up_copy()


# --- One network ---------------------------------------------------------------------------------


class SpedUpSimulator:
    """A scenario in the private copy of csle-cyborg, with its state, actions and red agents.

    This class replaces CybORG's environment controller and wrappers. It leaves out Green, because
    Green's agent sleeps, which draws nothing and changes nothing."""

    def __init__(self, played: Scenario | None = None) -> None:
        played = played or Scenario.scenario2()
        self._hosts = played.hosts
        self._action_names = played.action_names
        self._red_target_index = {name: index for index, name in enumerate(played.red_targets)}
        self.random_state = CYBORG.random.getstate()
        CYBORG.let_play(self)
        scenario = CYBORG["shared.scenario"].Scenario(played.description())
        self._red_knows_at_first = {
            host: {**facts, "Sessions": "Red"}
            for host, facts in scenario.get_agent_info("Red").osint["Hosts"].items()
        }
        self._state = CYBORG["simulator.state"].State(scenario)
        self._template = Template(self._state)
        agents, actions = CYBORG["agents"], CYBORG["shared.actions"]
        self._red_agents = {name: getattr(agents, name)() for name in RED_AGENTS}
        self._red_action_types = {
            getattr(actions, name) for name in scenario.get_agent_info("Red").actions
        }
        self._invalid_action = actions.action.InvalidAction
        self._blue_actions = [_blue_action(actions, name) for name in self._action_names]
        # A host's row is as in Blue's table: two bits of activity, always 0 here, then compromise.
        self._compromise = np.zeros((len(self._hosts), 4), np.uint8)

    def reset(self, seed: int | None, red_agent: str) -> NDArray[np.uint8]:
        """Start an episode after `random.seed(seed)`. If seed is None, seed nothing."""
        CYBORG.let_play(self)
        if seed is not None:
            CYBORG.random.seed(seed)
        self._template.reset(self._state, CYBORG.random)
        self._red_knows = self._begin_red()
        self._red_agent = self._red_agents[red_agent]
        self._red_agent.end_episode()
        self._show_red(self._state.get_true_state(self._red_knows_at_first))
        self._compromise[:] = 0
        return self._compromise.ravel().copy()

    def step(self, action: int) -> tuple[NDArray[np.uint8], float]:
        """Play one step. Return the observation (four bits for each host) and the reward.

        CybORG lists Blue's possible actions anew in every step. This list never changes, because
        all of Blue's actions on the scenario's hosts are always valid."""
        CYBORG.let_play(self)
        state = self._state
        blue = self._blue_actions[action]
        blue_obs = blue.sim_execute(state).data
        red = self._red_agent.get_action(self._red_obs, self._red_knows)
        if not self._is_valid_for_red(red):
            red = self._invalid_action(red)
        self._show_red(red.sim_execute(state))
        reward = round(self._reward() + blue.cost, 1)
        obs, caught = self._observe(action, blue_obs)
        self._actions = action, red
        self.facts: Facts = (
            SUCCESSES.index(blue_obs["success"].name),
            red_action_index(red),
            red_target_index(red, state, self._red_target_index),
            SUCCESSES.index(self._red_obs["success"].name),
            caught,
        )
        return obs, reward

    @property
    def held(self) -> tuple[int, int]:
        return hosts_held(self._state, self._hosts)

    @property
    def texts(self) -> tuple[str, str]:
        # The texts are made only when they are read, because they are seldom read.
        action, red = self._actions
        return self._action_names[action], str(red)

    def save(self) -> bytes:
        CYBORG.let_play(self)
        self.random_state = CYBORG.random.getstate()
        return CYBORG.dumps(vars(self))

    def load(self, snapshot: bytes) -> None:
        vars(self).update(CYBORG.loads(snapshot))
        CYBORG.take_turn_again(self)

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickle cannot find the classes of the private copy by name.
        return _copied, (type(self), self.save())

    def _begin_red(self) -> dict[str, Any]:
        """Return Red's action space at the start of an episode."""
        return _unknown_network(self._state)

    def _is_valid_for_red(self, action: Any) -> bool:
        """Follow `test_valid_action`: return whether Red has the action and knows its target."""
        known = self._red_knows
        if type(action) not in self._red_action_types:
            return False
        for name, value in vars(action).items():
            if name in known and not known[name].get(value, False):
                return False
        return True

    def _show_red(self, obs: Any) -> None:
        """Follow `filter_addresses` and `ActionSpace.update`: set what Red sees and knows.

        An observation may hold loopback interfaces of explored hosts, which this function removes.
        All other entries are inside the network. Red's action space keeps only hostnames, subnets
        and addresses, because the red agents and the check of their actions read nothing else."""
        known = self._red_knows
        for name, host in obs.data.items():
            if name == "success":
                continue
            if "Interface" in host:
                host["Interface"] = [
                    interface
                    for interface in host["Interface"]
                    if interface["IP Address"] in self._state.ip_addresses
                ]
                for interface in host["Interface"]:
                    known["ip_address"][interface["IP Address"]] = True
                    if "Subnet" in interface:
                        known["subnet"][interface["Subnet"]] = True
            if "System info" in host:
                known["hostname"][host["System info"]["Hostname"]] = True
        self._red_obs = obs.data

    def _reward(self) -> float:
        """Return Blue's reward without the cost of Blue's action.

        CybORG describes the whole network to compute the rewards of Blue, Red and Green. Blue's
        reward depends only on Red's sessions and the OT services, and no agent here reads the other
        rewards. The sums have CybORG's order and rounding."""
        hosts, red_sessions = self._state.hosts, self._state.sessions["Red"]
        linux = windows = 0.0
        for name, superuser, worth in self._template.confidentiality:
            for ident in hosts[name].sessions.get("Red", ()):
                if red_sessions[ident].username == superuser:
                    if superuser == "root":
                        linux += worth
                    else:
                        windows += worth
                    break
        disrupted = 0.0
        for name, worth in self._template.availability:
            if all(process.name != "OTService" for process in hosts[name].processes):
                disrupted += worth
        return -round(disrupted, 1) - round(linux + windows, 1)

    def _observe(
        self, action: int, blue_obs: dict[str, Any]
    ) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        """Follow `Monitor` and `BlueTableWrapper`, without the table. Return Blue's bits, and the
        mask of the hosts on which Monitor noticed a suspicious process.

        A host's anomalies are the connections since the last step, and the process of a decoy that
        was set up in this step. CybORG ignores anomalies that the episode's first observation
        shows. This observation shows no connections, and only PIDs of Blue's sessions, so CybORG
        ignores nothing."""
        hosts = self._hosts
        kind, _, target = self._action_names[action].partition(" ")
        target_obs = blue_obs.get(target, {})
        compromise = self._compromise
        if BLUE[kind].leaves and compromise[hosts.index(target), 2:].any():
            compromise[hosts.index(target), 2:] = LEFT[BLUE[kind].leaves]
        activities = []
        suspicious: list[int] = []
        for index, hostname in enumerate(hosts):
            events = self._state.hosts[hostname].events
            seen = events["NetworkConnections"]
            decoy = hostname == target and "Processes" in target_obs
            if not seen and not decoy:
                continue
            activity = _interpret_connections(decoy, seen)
            activities.append((index, activity))
            if activity == EXPLOIT:
                compromise[index, 2:] = USER
            for event in seen:
                if "pid" in event:
                    suspicious.append(index)
                    self._state.sessions["Blue"][0].add_sus_pids(hostname, event["pid"])
            events["NetworkConnections"] = []
        if any(file["Density"] >= 0.9 for file in target_obs.get("Files", ())):
            compromise[hosts.index(target), 2:] = PRIVILEGED
        caught = np.zeros(len(hosts), np.bool_)
        caught[suspicious] = True
        obs = compromise.copy()
        for index, activity in activities:
            obs[index, :2] = activity
        return obs.ravel(), caught


def _interpret_connections(decoy: bool, seen: list[dict[str, Any]]) -> tuple[int, int]:
    """Return a host's two bits of activity. decoy: whether Blue has set up a decoy in this step."""
    n_anomalies = len(seen) + int(decoy)
    n_ports = len({event["local_port"] for event in seen})
    if n_anomalies >= 3 and n_ports >= 3:
        return SCAN
    if any(event.get("remote_port") == _HANDLER_PORT for event in seen):
        return EXPLOIT
    if n_anomalies >= 3 and n_ports == 1:
        return EXPLOIT
    return NO if decoy else SCAN


def _blue_action(actions: Any, name: str) -> Any:
    kind, _, hostname = name.partition(" ")
    if kind == "Sleep":
        return actions.Sleep()
    target = {"hostname": hostname} if hostname else {}
    return getattr(actions, kind)(session=0, agent="Blue", **target)


def _unknown_network(state: Any) -> dict[str, dict[Any, bool]]:
    """Return Red's action space before Red knows any host or subnet.

    RedMeander shuffles the addresses, so their order matters. As in CybORG's true state, addresses
    are in the order of hosts. If a host's processes name an address of the network, this address
    comes before the host's own address."""
    subnets, addresses = {}, {}
    for host in state.hosts.values():
        for process in host.processes:
            for connection in process.connections:
                if connection["local_address"] in state.ip_addresses:
                    addresses[connection["local_address"]] = False
        subnets[host.interfaces[1].subnet] = False
        addresses[host.interfaces[1].ip_address] = False
    return {
        "subnet": subnets,
        "ip_address": addresses,
        "hostname": dict.fromkeys(state.hosts, False),
        "session": {0: True},
        "agent": {"Red": True},
    }


def _copied(kind: type[SpedUpSimulator], snapshot: bytes) -> SpedUpSimulator:
    simulator = object.__new__(kind)
    simulator.load(snapshot)
    return simulator
