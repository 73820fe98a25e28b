"""Begin an episode in one network, and play its steps."""

from typing import Any

from workflow_rl.cage2.compiled import tables
from workflow_rl.cage2.compiled.blue_actions import act_as_blue
from workflow_rl.cage2.compiled.generator import randbelow, sample, seed
from workflow_rl.cage2.compiled.hosts import draw_pid, has_bits_of_all
from workflow_rl.cage2.compiled.jit import compiled, int64
from workflow_rl.cage2.compiled.observe import observe, reward
from workflow_rl.cage2.compiled.red_actions import act_as_red
from workflow_rl.cage2.compiled.red_agents import begin_red, choose_as_red
from workflow_rl.cage2.compiled.state import NO_ERROR, NO_PROCESS, NONE

# The indices of the facts that `tell` writes.
BLUE_SUCCESS, RED_ACTION, RED_TARGET, RED_SUCCESS, CAUGHT_HOST = range(5)


@compiled
def reset_env(s: Any, t: Any, episode_seed: int, red_agent: int) -> None:
    """Follow `random.seed`, then `State.reset`, which draws addresses and the sessions' PIDs."""
    seed(s, episode_seed)
    s.error = NO_ERROR
    draw_addresses(s, t)
    begin_red(s, t, red_agent)
    forget(s, t)
    s.session_pid[:] = 0
    for i in range(t.n_sessions):
        s.session_pid[t.starting_slot[i]] = draw_pid(s, t, int64(t.starting_host[i]))


@compiled
def draw_addresses(s: Any, t: Any) -> None:
    """Follow `State._initialise_state`: draw the subnets and the addresses of their hosts."""
    # These lists are empty until an episode begins, so this function uses them as working space.
    chosen, pool = s.suspicious_pid, s.ports
    s.first_address = t.bound_host
    sample(s, int64(t.n_possible_subnets), int64(t.n_subnets), s.subnet_index, pool)
    for subnet in range(t.n_subnets):
        # CybORG divides the drawn subnet into equal parts, and draws one of the parts.
        part = randbelow(s, int64(t.n_parts[subnet]))
        index = s.subnet_index[subnet] * t.n_parts[subnet] + part
        s.subnet_index[subnet] = index
        n_addresses, n_hosts = int64(t.n_addresses[subnet]), int64(t.n_subnet_hosts[subnet])
        sample(s, n_addresses, n_hosts, chosen, pool)
        # No host has the first or the last address of a subnet.
        first = index * (n_addresses + 2)
        for i in range(n_hosts):
            host = t.subnet_hosts[subnet, i]
            s.address_index[host] = chosen[i] + 1
            if first + chosen[i] + 1 == t.bound_address and host > t.bound_host:
                s.first_address = host


@compiled
def forget(s: Any, t: Any) -> None:
    """Set all fields that `reset_env` does not draw to their values at an episode's start."""
    s.first_process[:] = NO_PROCESS
    s.last_process[:] = NO_PROCESS
    s.free_process = NO_PROCESS
    s.n_processes = 0
    for host in range(s.service_pid.shape[0]):
        for service in range(s.service_pid.shape[1]):
            s.service_pid[host, service] = 0
    s.ot_running[:] = True
    s.ot_active[:] = True
    s.ot_listed_with_pid[:] = True
    s.port_bits[0, :] = 0
    # The other rows are in use only if this condition holds. Clearing them takes time.
    if s.busy_host != NONE or has_bits_of_all(s):
        for row in range(1, len(s.port_bits)):
            s.port_bits[row, :] = 0
    s.busy_host = NONE
    s.n_ports[:] = 0
    s.n_suspicious = 0
    s.n_red_sessions[:] = 0
    s.known_ports[:] = 0
    s.blue_success = tables.UNKNOWN
    s.event_host = NONE
    s.event_ports = 0
    s.reverse_shell_seen = False
    s.caught_host = NONE
    s.compromise[:] = 0


@compiled
def step_env(s: Any, t: Any, action: int, obs: Any) -> float:
    """Follow `EnvironmentController.step`: Blue acts, Green sleeps, Red acts, and Blue monitors.

    Write obs (uint32, one word for each host), and return the reward."""
    kind, host = int64(t.action_kind[action]), int64(t.action_host[action])
    act_as_blue(s, t, kind, host)
    choose_as_red(s, t)
    act_as_red(s, t)
    observe(s, t, kind, host, obs)
    return reward(s, t, kind)


@compiled
def tell(s: Any, t: Any, facts: Any) -> None:
    """Write the facts of the last step, int8 `[5]`: see `batched_simulator.FACTS`."""
    facts[BLUE_SUCCESS] = s.blue_success
    facts[RED_ACTION] = s.red_kind
    facts[RED_TARGET] = s.red_target
    if s.red_kind == tables.REFUSED:
        facts[RED_ACTION] = -1
        facts[RED_TARGET] = -1
    elif s.red_kind == tables.RED_SLEEP:
        facts[RED_TARGET] = -1
    elif s.red_kind == tables.DISCOVER_SYSTEMS:
        facts[RED_TARGET] = t.n_hosts + s.red_target
    facts[RED_SUCCESS] = s.red_success
    facts[CAUGHT_HOST] = -1 if s.caught_host == NONE else s.caught_host
