"""What green agents do. Follows `GreenLocalWork`, `GreenAccessService` and `PhishingEmail`."""

from typing import Any

from workflow_rl.cage4.compiled import constants, hosts
from workflow_rl.cage4.compiled.generator import below, random
from workflow_rl.cage4.compiled.jit import compiled, int64
from workflow_rl.cage4.compiled.red_sessions import add_session
from workflow_rl.cage4.scenario.scenario4 import FAILED_ACCESS, FAILED_WORK

ACCESS, WORK, N_CHOICES = 0, 1, 3
REFUSED_PORT = 8800


@compiled
def choose_as_green(s: Any) -> None:
    """`EnterpriseGreenAgent.get_action` of all greens."""
    for i in range(int64(s.n_greens)):
        s.green_choice[i] = below(s, N_CHOICES)


@compiled
def act_as_green(s: Any) -> None:
    """Execute the actions of all greens, and lower blue's reward for each failure."""
    for i in range(int64(s.n_greens)):
        host, choice = int64(s.green_host[i]), s.green_choice[i]
        s.green_failed[i] = False
        if choice == WORK and not work(s, host):
            s.green_failed[i] = True
            s.machine_reward += constants.REWARDS[s.phase, constants.ZONE[host], FAILED_WORK]
        elif choice == ACCESS and not access(s, host):
            s.green_failed[i] = True
            s.machine_reward += constants.REWARDS[s.phase, constants.ZONE[host], FAILED_ACCESS]


@compiled
def work(s: Any, host: int) -> bool:
    """`GreenLocalWork`. Returns whether the work succeeded."""
    n_active = 0
    for i in range(int64(s.n_services[host])):
        n_active += s.service_active[host, i]
    if n_active == 0:
        return False
    # Choose the active service that has `n_before` active services before it.
    n_before = below(s, n_active)
    service = 0
    while n_before > 0 or not s.service_active[host, service]:
        n_before -= s.service_active[host, service]
        service += 1
    if below(s, 100) >= s.reliability[host, service]:
        return False
    if random(s) < s.scenario.false_alert_rate:
        port = hosts.draw_port(s, host)
        event = hosts.new_connection(s, host, port, host, 0)
        hosts.add_event(s, host, hosts.PROCESSES, event)
    if random(s) < s.scenario.phishing_rate:
        phish(s, host)
    return True


@compiled
def access(s: Any, host: int) -> bool:
    """`GreenAccessService`. Returns success: neither of the two zones blocks the other zone."""
    zone = constants.ZONE[host]
    server = int64(s.reached[zone, below(s, int64(s.n_reached[zone]))])
    other = constants.ZONE[server]
    port = hosts.draw_port(s, server)
    if ((s.blocked[zone] >> other) & 1) or ((s.blocked[other] >> zone) & 1):
        hosts.see_connection(s, server, server, 0, host, REFUSED_PORT)
        return False
    if random(s) < s.scenario.false_alert_rate:
        hosts.see_connection(s, server, host, 0, server, port)
    return True


@compiled
def phish(s: Any, host: int) -> None:
    """`PhishingEmail`: open a session of the sender on a host without red sessions. The sender is
    the first red agent on the zone's last host with red sessions. If no host of the zone has red
    sessions, the sender is drawn from the red agents in other zones."""
    if s.red_sessions[host] != 0:
        return
    sender = constants.NOBODY
    n_outside = 0
    for other in range(constants.N_HOSTS):
        if s.red_sessions[other] != 0:
            present = agents_on(s, other)
            if constants.ZONE[other] == constants.ZONE[host]:
                sender = 0
                while not ((present >> sender) & 1):
                    sender += 1
            else:
                for agent in range(constants.N_RED):
                    n_outside += (present >> agent) & 1
    if sender == constants.NOBODY:
        if n_outside == 0:
            return
        sender = sender_outside(s, below(s, n_outside))
    pid = hosts.draw_pid(s, host)
    hosts.add_process(s, host, constants.RED_SESSION, pid, constants.USER)
    add_session(s, sender, host, constants.ABSTRACT, constants.USER, constants.NO_PARENT, pid)


@compiled
def agents_on(s: Any, host: int) -> int:
    """Return the bits of the red agents with sessions on a host."""
    bits = 0
    cell = int64(s.red_sessions[host])
    while cell != 0:
        bits |= 1 << s.cells[cell].kind
        cell = int64(s.cells[cell].next)
    return bits


@compiled
def sender_outside(s: Any, n_before: int) -> int:
    """Return the red agent at index n_before, in the order of hosts and then of agents."""
    for host in range(constants.N_HOSTS):
        if s.red_sessions[host] != 0:
            present = agents_on(s, host)
            for agent in range(constants.N_RED):
                if (present >> agent) & 1:
                    if n_before == 0:
                        return agent
                    n_before -= 1
    return constants.NOBODY
