"""One episode in one network: its beginning, and its steps."""

from __future__ import annotations

from typing import Any

from workflow_rl.cage2.compiled import tables
from workflow_rl.cage2.compiled.blue_actions import act_as_blue
from workflow_rl.cage2.compiled.generator import randbelow, sample, seed
from workflow_rl.cage2.compiled.hosts import draw_pid
from workflow_rl.cage2.compiled.jit import compiled
from workflow_rl.cage2.compiled.observe import observe, reward
from workflow_rl.cage2.compiled.red_actions import act_as_red
from workflow_rl.cage2.compiled.red_agents import begin_red, choose_as_red
from workflow_rl.cage2.compiled.state import NO_ERROR, NO_PROCESS, NONE


@compiled
def reset_env(s: Any, episode_seed: int, red_agent: int) -> None:
    """`random.seed` and `State.reset`, whose draws are the addresses and the PIDs of sessions."""
    seed(s, episode_seed)
    s.error = NO_ERROR
    draw_addresses(s)
    begin_red(s, red_agent)
    forget(s)
    s.session_pid[:] = 0
    for i in range(tables.N_STARTING_SESSIONS):
        s.session_pid[tables.STARTING_SLOTS[i]] = draw_pid(s, int(tables.STARTING_HOSTS[i]))


@compiled
def draw_addresses(s: Any) -> None:
    """`State._initialise_state`: subnets, and the addresses of the hosts in each."""
    # These lists are empty when an episode begins, and serve as working space until then.
    chosen, pool = s.suspicious_pid, s.ports
    s.first_address = tables.BOUND_HOST
    sample(s, tables.N_POSSIBLE_SUBNETS, tables.N_SUBNETS, s.subnet_index, pool)
    for subnet in range(tables.N_SUBNETS):
        # CybORG chooses a part of the subnet that is large enough: the only one is the whole.
        randbelow(s, 1)
        sample(s, tables.N_ADDRESSES, tables.N_SUBNET_HOSTS[subnet], chosen, pool)
        for i in range(tables.N_SUBNET_HOSTS[subnet]):
            host = tables.SUBNET_HOSTS[subnet, i]
            s.address_index[host] = chosen[i] + 1
            if (
                s.subnet_index[subnet] == tables.BOUND_SUBNET
                and s.address_index[host] == tables.BOUND_ADDRESS
            ):
                s.first_address = host


@compiled
def forget(s: Any) -> None:
    """Set everything else as it is at the start of an episode."""
    s.first_process[:] = NO_PROCESS
    s.last_process[:] = NO_PROCESS
    s.free_process = NO_PROCESS
    s.n_processes = 0
    for host in range(tables.N_HOSTS):
        for service in range(tables.N_SERVICES):
            s.service_pid[host, service] = 0
    s.ot_running = True
    s.ot_active = True
    s.ot_listed_with_pid = True
    s.port_bits[0, :] = 0
    # The episode before has seldom left any.
    if s.busy_host != NONE or len(s.port_bits) == tables.N_HOSTS:
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
    s.compromise = 0


@compiled
def step_env(s: Any, action: int, obs: Any) -> float:
    """`EnvironmentController.step`: Blue, Green (who sleeps), Red, then Blue's Monitor.

    Writes obs, uint32 `[13]`, and returns the reward.
    """
    kind, host = int(tables.ACTION_KIND[action]), int(tables.ACTION_HOST[action])
    act_as_blue(s, kind, host)
    choose_as_red(s)
    act_as_red(s)
    observe(s, kind, host, obs)
    return reward(s, kind)


@compiled
def tell(s: Any, facts: Any) -> None:
    """Write the FACTS of the last step, int8 `[5]`."""
    facts[0] = s.blue_success
    facts[1] = s.red_kind
    facts[2] = s.red_target
    if s.red_kind == tables.RED_SLEEP:
        facts[2] = -1
    elif s.red_kind == tables.DISCOVER_SYSTEMS:
        facts[2] = tables.N_HOSTS + s.red_target
    facts[3] = s.red_success
    facts[4] = -1 if s.caught_host == NONE else s.caught_host
