"""The start of an episode. Follows `EnterpriseScenarioGenerator`, and `State.__init__`."""

from typing import Any

from workflow_rl.cage4.compiled import constants
from workflow_rl.cage4.compiled.actions import DROPPED
from workflow_rl.cage4.compiled.generator import below, random
from workflow_rl.cage4.compiled.hosts import rebuild
from workflow_rl.cage4.compiled.jit import compiled, int64
from workflow_rl.cage4.compiled.red_sessions import add_session, learn_own_host
from workflow_rl.cage4.compiled.state import FIRST_PID, N_PIDS, UNSEEN
from workflow_rl.cage4.red.red_api import FIRST_KNOWN
from workflow_rl.cage4.scenario.scenario4 import N_SERVERS, N_USERS, UNKNOWN

N_OCTETS, N_ADDRESSES = 256, 254


@compiled
def draw_scenario(s: Any) -> None:
    """Draw a network, and set its state before the first step."""
    empty_episode(s)
    draw_zones(s)
    for zone in range(constants.N_LAN):
        draw_hosts(s, zone)
    # The internet has one host. CybORG draws an address and a distribution for this host.
    s.exists[constants.INTERNET_HOST] = True
    s.host_octet[constants.INTERNET_HOST] = 1 + below(s, N_ADDRESSES)
    below(s, 2)
    for row in range(3):
        s.port_bits[row, :] = 0
    for agent in range(constants.N_BLUE):
        draw_blue_parent(s, agent)
    for agent in range(constants.N_RED):
        draw_red_start(s, agent)
    start_sessions(s)
    for host in range(constants.N_HOSTS):
        if s.exists[host]:
            rebuild(s, host)
    set_reach(s)


@compiled
def draw_zones(s: Any) -> None:
    """`_generate_subnets`. Before the episode begins, rows of `port_bits` are working space."""
    free = s.port_bits[0]
    for i in range(N_OCTETS):
        free[i] = i
    for zone in range(constants.N_ZONES):
        s.zone_octet[zone] = taken(free, below(s, N_OCTETS - zone), N_OCTETS - zone)


@compiled
def taken(items: Any, i: int, n: int) -> int:
    """Take item i out of the first n items, as `list.pop` does."""
    item = items[i]
    for j in range(i, n - 1):
        items[j] = items[j + 1]
    return item


@compiled
def draw_hosts(s: Any, zone: int) -> None:
    """`_generate_hosts` of one zone."""
    free = s.port_bits[0]
    for i in range(N_ADDRESSES):
        free[i] = i + 1
    n_left = N_ADDRESSES
    router = zone * constants.PLACES
    s.exists[router] = True
    s.host_octet[router] = taken(free, below(s, n_left), n_left)
    n_left -= 1
    s.distribution[router] = below(s, 2)
    s.n_users[zone] = int64(s.scenario.users) or (3 + below(s, N_USERS - 2))
    for i in range(int64(s.n_users[zone])):
        host = router + constants.FIRST_USER + i
        s.host_octet[host] = taken(free, below(s, n_left), n_left)
        n_left -= 1
        draw_host(s, host)
    s.n_servers[zone] = int64(s.scenario.servers) or (1 + below(s, N_SERVERS))
    for i in range(int64(s.n_servers[zone])):
        host = router + constants.FIRST_SERVER + i
        n_left -= 1
        s.host_octet[host] = free[n_left]
        draw_host(s, host)


@compiled
def draw_host(s: Any, host: int) -> None:
    """`_generate_linux_host`: distribution and services. Each process has one draw without use."""
    s.exists[host] = True
    s.distribution[host] = below(s, 2)
    add_original(s, host, constants.SSHD, draw_service_pid(s))
    if constants.ZONE[host] == constants.OZA or constants.ZONE[host] == constants.OZB:
        add_original(s, host, constants.OT_SERVICE, draw_service_pid(s))
    # CybORG draws three PIDs before it draws how many of the three services run.
    pids = (draw_service_pid(s), draw_service_pid(s), draw_service_pid(s))
    n_more = below(s, 4)
    kinds = (constants.APACHE, constants.MYSQL, constants.SMTP)
    options = s.port_bits[1]
    for i in range(3):
        options[i] = i
    for i in range(n_more):
        option = taken(options, below(s, 3 - i), 3 - i)
        add_original(s, host, kinds[option], pids[option])
    for _ in range(int64(s.n_original[host])):
        random(s)  # CybORG does not use this number.


@compiled
def add_original(s: Any, host: int, kind: int, pid: int) -> None:
    """Add a process that Restore brings back."""
    n = int64(s.n_original[host])
    s.original_kind[host, n] = kind
    s.original_pid[host, n] = pid
    s.n_original[host] = n + 1


@compiled
def draw_service_pid(s: Any) -> int:
    """`_generate_pid`: a PID that no service has. The third row of `port_bits` marks used PIDs."""
    used = s.port_bits[2]
    while True:
        i = below(s, N_PIDS)
        bit = 1 << (i & 31)
        if not (used[i >> 5] & bit):
            used[i >> 5] |= bit
            return FIRST_PID + i


@compiled
def draw_blue_parent(s: Any, agent: int) -> None:
    """`_generate_blue_agents`: draw the host of an agent's parent session."""
    first, n_zones = constants.FIRST_ZONE_OF_BLUE[agent], constants.N_ZONES_OF_BLUE[agent]
    below(s, n_zones)  # CybORG does not use this number.
    n = 0
    for host in range(first * constants.PLACES, (first + n_zones) * constants.PLACES):
        if s.exists[host]:
            s.blue_order[agent, n] = host
            n += 1
    s.n_blue_sessions[agent] = n
    at = below(s, n)
    parent = s.blue_order[agent, at]
    # The parent's host moves to the front.
    for i in range(at, 0, -1):
        s.blue_order[agent, i] = s.blue_order[agent, i - 1]
    s.blue_order[agent, 0] = parent
    s.blue_parent[agent] = parent


@compiled
def draw_red_start(s: Any, agent: int) -> None:
    """`_generate_red_agents`: draw the host that an agent knows at the start."""
    zone = constants.FIRST_ZONE_OF_RED[agent] + below(s, constants.N_ZONES_OF_RED[agent])
    n_users = int64(s.n_users[zone])
    i = below(s, n_users + int64(s.n_servers[zone]))
    place = constants.FIRST_USER + i
    if i >= n_users:
        place = constants.FIRST_SERVER + i - n_users
    s.red_target[agent] = zone * constants.PLACES + place


@compiled
def start_sessions(s: Any) -> None:
    """`State.__init__`: start the first sessions, and draw the PIDs of the sessions' processes."""
    for agent in range(constants.N_BLUE):
        for i in range(int64(s.n_blue_sessions[agent])):
            host = int64(s.blue_order[agent, i])
            s.blue_ident[host] = i
            kind = constants.VELOCIRAPTOR if i == 0 else constants.BLUE_SESSION
            draw_session_pid(s, host, kind)
    for zone in range(constants.N_LAN):
        for place in range(constants.FIRST_USER, constants.FIRST_USER + int64(s.n_users[zone])):
            host = zone * constants.PLACES + place
            draw_session_pid(s, host, constants.GREEN_SESSION)
            s.green_host[s.n_greens] = host
            s.n_greens += 1
    for agent in range(constants.N_RED):
        host = int64(s.red_target[agent])
        learn_own_host(s, agent, host)
        if agent == 0:
            pid = draw_session_pid(s, host, constants.RED_SESSION)
            parent = constants.NO_PARENT
            add_session(s, agent, host, constants.ABSTRACT, constants.UBUNTU, parent, pid)
            s.is_active[agent] = True
            s.ids[agent, 0] = 0
            s.n_ids[agent] = 1
            s.knows_id[agent, 0] = True


@compiled
def draw_session_pid(s: Any, host: int, kind: int) -> int:
    """`Host.create_pid`, for a host whose processes are not in cells yet."""
    highest = 0
    for i in range(int64(s.n_original[host])):
        highest = max(highest, int64(s.original_pid[host, i]))
    pid = highest + 1 + below(s, 9)
    add_original(s, host, kind, pid)
    return pid


@compiled
def set_reach(s: Any) -> None:
    """`_update_agents_allowed_subnets`: list the servers that greens may reach in this phase."""
    for zone in range(constants.N_LAN):
        n = 0
        for host in range(constants.N_LAN * constants.PLACES):
            if (
                s.exists[host]
                and constants.PLACE[host] >= constants.FIRST_SERVER
                and constants.GREEN_MAY_REACH[s.phase, zone, constants.ZONE[host]]
            ):
                s.reached[zone, n] = host
                n += 1
        s.n_reached[zone] = n
    s.n_reached[constants.INTERNET] = 0


@compiled
def empty_episode(s: Any) -> None:
    s.error = 0
    s.phase = 0
    s.step_count = 0
    s.machine_reward = 0
    s.action_cost = 0
    s.blue_kind[:] = 0
    s.blue_target[:] = 0
    s.blue_source[:] = 0
    s.blue_ticks[:] = 0
    s.blue_result[:] = 0
    s.blocked[:] = 0
    s.n_blocking = 0
    s.n_blocked[:] = 0
    s.n_greens = 0
    s.n_suspicious[:] = 0
    s.n_cells = 1
    s.free_cell = 0
    s.n_log = 0
    forget_hosts(s)
    forget_red(s)


@compiled
def forget_hosts(s: Any) -> None:
    for host in range(constants.N_HOSTS):
        s.events[host, :] = 0
        s.last_event[host, :] = 0
        s.port_bits[host, :] = 0
    s.has_events[:] = 0
    s.exists[:] = False
    s.n_services[:] = 0
    s.processes[:] = 0
    s.last_process[:] = 0
    s.red_sessions[:] = 0
    s.files[:] = 0
    s.impact_count[:] = 0
    s.suspicious[:] = 0
    s.last_suspicious[:] = 0
    s.n_original[:] = 0
    s.first_log[:] = 0


@compiled
def forget_red(s: Any) -> None:
    s.red_kind[:] = 0
    s.red_target[:] = 0
    s.red_hostname[:] = 0
    s.red_session[:] = 0
    s.red_ticks[:] = 0
    s.is_active[:] = False
    s.red_steps[:] = 0
    s.red_choice[:] = 0
    s.red_choice_session[:] = FIRST_KNOWN
    s.seen_kind[:] = DROPPED
    s.seen_success[:] = UNKNOWN
    s.sees_target[:] = False
    s.sees_links[:] = False
    s.n_news[:] = 0
    s.n_sessions[:] = 0
    s.sessions_count[:] = 0
    s.n_ids[:] = 0
    for agent in range(constants.N_RED):
        s.knows_id[agent, :] = False
        s.knows_address[agent, :] = False
        s.knows_name[agent, :] = False
        s.host_state[agent, :] = UNSEEN
        s.named[agent, :] = False
    s.known_zones[:] = 0
    s.n_hosts[:] = 0
