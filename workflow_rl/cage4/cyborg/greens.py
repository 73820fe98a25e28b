"""The green agents of an episode of CybORG 4, without a Python object for each action."""

from typing import Any, NamedTuple

from workflow_rl.cage4.cyborg.measures import GREEN_ACCESS, GREEN_WORK, Executed
from workflow_rl.cage4.cyborg.private_cyborg import Cyborg
from workflow_rl.cage4.scenario.scenario4 import MISSION_PHASES

ACCESS, WORK, _SLEEP = range(3)
"""`EnterpriseGreenAgent`'s actions, in the order of its action space."""
N_ACTIONS = 3
ACTIONS = "Simulator.Actions"
REFUSED_PORT = 8800


class Green(NamedTuple):
    """A green agent. false_alerts, phishing: the probabilities of a false alert, of a mail."""

    name: str
    host: Any
    address: Any
    zone: str
    false_alerts: float
    phishing: float


class Greens:
    """All green agents. The draws equal the draws of `EnterpriseGreenAgent` and of its actions.

    CybORG makes an action for each green, and describes what the action saw. CybORG reads only the
    reward from this description, because green agents ignore observations. A green's session never
    ends, because blue agents stop only processes that started after the episode began.
    """

    def __init__(self, cyborg: Cyborg, state: Any, scenario: Any) -> None:
        self._state = state
        self._phishing = cyborg[f"{ACTIONS}.ConcreteActions.PhishingEmail"].PhishingEmail
        self._connection = cyborg["Simulator.HostEvents"].NetworkConnection
        machine = cyborg["Shared.BlueRewardMachine"].BlueRewardMachine
        self._rewards = [machine.get_phase_rewards(None, i) for i in range(len(MISSION_PHASES))]
        self._agents = []
        self.outcomes: list[Executed] = []
        for name in scenario.team_agents["Green"]:
            agent = scenario.agents[name].agent_type
            hostname = state.sessions[name][0].hostname
            green = Green(
                name,
                state.hosts[hostname],
                agent.own_ip,
                state.hostname_subnet_map[hostname].value,
                agent.fp_detection_rate,
                agent.phishing_error_rate,
            )
            self._agents.append(green)
        self._targets = [_targets(state, i) for i in range(len(MISSION_PHASES))]

    @property
    def names(self) -> list[str]:
        return [green.name for green in self._agents]

    def choose(self) -> list[int]:
        integers = self._state.np_random.integers
        return [integers(0, N_ACTIONS) for _ in self._agents]

    def play(self, chosen: list[int]) -> int:
        """Play the actions and return their part of the reward, zero or less. Afterwards,
        `outcomes` holds the outcomes of work and of access to servers."""
        state = self._state
        rewards = self._rewards[state.mission_phase]
        targets = self._targets[state.mission_phase]
        reward = 0
        self.outcomes = []
        for green, action in zip(self._agents, chosen, strict=True):
            if action == WORK:
                fails = self._fails_to_work(green)
                reward += fails * rewards[green.zone]["LWF"]
                self.outcomes.append(Executed(GREEN_WORK, "", not fails))
            elif action == ACCESS:
                fails = self._fails_to_access(green, targets[green.zone])
                reward += fails * rewards[green.zone]["ASF"]
                self.outcomes.append(Executed(GREEN_ACCESS, "", not fails))
        return reward

    def _fails_to_work(self, green: Green) -> bool:
        """`GreenLocalWork.execute`."""
        draws, host = self._state.np_random, green.host
        services = [service for service in host.services.values() if service.active]
        if not services:
            return True
        service = draws.choice(services)
        if draws.integers(100) >= service.get_service_reliability():
            return True
        if draws.random() < green.false_alerts:
            port = host.get_ephemeral_port()
            event = {"local_address": green.address, "local_port": port}
            host.events.process_creation.append(event)
        if draws.random() < green.phishing:
            mail = self._phishing(agent=green.name, session=0, ip_address=green.address)
            mail.execute(self._state)
        return False

    def _fails_to_access(self, green: Green, targets: list[tuple[Any, Any, str]]) -> bool:
        """`GreenAccessService.execute`. targets: servers that the green may choose.

        The server's services have no effect: CybORG's test reads a method, not the method's result.
        """
        state = self._state
        host, address, zone = state.np_random.choice(targets)
        port = host.get_ephemeral_port()
        blocks = state.blocks
        is_blocked = zone in blocks.get(green.zone, ()) or green.zone in blocks.get(zone, ())
        if is_blocked:
            local, remote, port = address, green.address, REFUSED_PORT
        elif state.np_random.random() < green.false_alerts:
            local, remote = green.address, address
        else:
            return False
        event = self._connection(local_address=local, remote_address=remote, remote_port=port)
        host.events.network_connections.append(event)
        return is_blocked


def _targets(state: Any, phase: int) -> dict[str, list[tuple[Any, Any, str]]]:
    """Return the servers that a zone's greens may access, by zone: host, address and zone."""
    pairs = state.scenario.allowed_subnets_per_mphase[phase]
    servers = [
        (state.hosts[host], address, state.hostname_subnet_map[host].value)
        for address, host in state.ip_addresses.items()
        if "server" in host
    ]
    targets = {}
    for name in state.subnet_name_to_cidr:
        zone = name.value
        allowed = {zone}
        for first, second in pairs:
            if zone in (first.value, second.value):
                allowed |= {first.value, second.value}
        targets[zone] = [server for server in servers if server[2] in allowed]
    return targets
