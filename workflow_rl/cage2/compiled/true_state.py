"""Show an agent the true state of Scenario 2 and of Red's program, as bits.

The bits leave out only the generator of random numbers. The protocol does not score agents that see
the true state. Training such an agent measures what hidden information costs Blue."""

from typing import Any

from workflow_rl.cage2.compiled import tables
from workflow_rl.cage2.compiled.description import SCENARIO2
from workflow_rl.cage2.compiled.jit import compiled, entry_point
from workflow_rl.cage2.compiled.red_agents import B_LINE, LAST
from workflow_rl.cage2.compiled.state import KIND, NO_PROCESS
from workflow_rl.cage2.scenario.actions import RED_ACTIONS
from workflow_rl.cage2.scenario2 import RED_AGENTS

N_MASKS_OF_HOSTS, N_HOSTS_POINTED_AT, N_FLAGS = 9, 4, 4
N_B_LINE_ACTIONS = LAST + 1
N_SHOWN = (
    (4 + N_MASKS_OF_HOSTS + N_HOSTS_POINTED_AT) * len(SCENARIO2.hosts)
    + (1 + tables.N_EXPLOITS + tables.N_DECOYS) * len(SCENARIO2.hosts)
    + N_FLAGS
    + 2 * len(SCENARIO2.subnets)
    + len(RED_AGENTS)
    + N_B_LINE_ACTIONS
    + len(RED_ACTIONS)
    + 1
)


@compiled
def show_state(s: Any, t: Any, obs: Any, shown: Any) -> None:
    """Write the observation, obs uint8 `[52]`, and then the state into shown, uint8 `[N_SHOWN]`."""
    shown[:] = 0
    column = len(obs)
    shown[:column] = obs
    for hosts in (
        s.is_owned,
        s.has_malware,
        s.known_addresses,
        s.known_hostnames,
        s.scanned_by_session,
        s.meander_scanned,
        s.meander_exploited,
        s.meander_escalated,
        s.meander_mapped,
    ):
        for host in range(t.n_hosts):
            shown[column + host] = (hosts >> host) & 1
        column += t.n_hosts
    # After some actions, `red_target` is no host. The other fields are NONE until they are set.
    for host in (s.meander_last_host, s.meander_last_address, s.b_line_host, s.red_target):
        if host < t.n_hosts:
            shown[column + host] = 1
        column += t.n_hosts
    for host in range(t.n_hosts):
        shown[column] = s.n_red_sessions[host] > 0
        for exploit in range(tables.N_EXPLOITS):
            shown[column + 1 + exploit] = (s.known_ports[host] >> exploit) & 1
        column += 1 + tables.N_EXPLOITS
        process = s.first_process[host]
        while process != NO_PROCESS:
            kind = s.processes[process].kind & KIND
            if kind < tables.N_DECOYS:
                shown[column + kind] = 1
            process = s.processes[process].next
        column += tables.N_DECOYS
    ot_service = s.ot_running[0] != 0, s.ot_active[0] != 0, s.ot_listed_with_pid[0] != 0
    for flag in (*ot_service, s.knows_ot_service):
        shown[column] = flag
        column += 1
    for subnets in (s.known_subnets, s.meander_subnets):
        for subnet in range(t.n_subnets):
            shown[column + subnet] = (subnets >> subnet) & 1
        column += t.n_subnets
    if s.red_agent < len(RED_AGENTS):
        shown[column + s.red_agent] = 1
    column += len(RED_AGENTS)
    if s.red_agent == B_LINE:
        shown[column + s.b_line_action] = 1
    column += N_B_LINE_ACTIONS
    if s.red_kind < len(RED_ACTIONS):
        shown[column + s.red_kind] = 1
    column += len(RED_ACTIONS)
    shown[column] = s.red_success == tables.TRUE


@entry_point
def show_states(states: Any, networks: Any, chosen: Any, obs: Any, shown: Any) -> None:
    """Show the states of the M chosen of N envs. obs: uint8 `[M, 52]`. shown: `[M, N_SHOWN]`."""
    for i in range(len(chosen)):
        show_state(states[chosen[i]], networks[0], obs[i], shown[i])
