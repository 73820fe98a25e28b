"""Count the costs of a step in compiled networks: see `cage2.costs`."""

from typing import Any

from workflow_rl.cage2 import costs as definitions
from workflow_rl.cage2.compiled import tables
from workflow_rl.cage2.compiled.jit import compiled, entry_point, int64, tables_at

write_costs = compiled(definitions.write_costs)


@compiled
def held_by_red(s: Any) -> int:
    """Return the mask of the hosts where Red has a session, except Red's session of the start."""
    held = int64(0)
    for host in range(len(s.n_red_sessions)):
        if s.n_red_sessions[host] > 0:
            held |= int64(1) << int64(host)
    return held


@entry_point
def note_held(states: Any, chosen: Any, held: Any) -> None:
    """Write the mask `held_by_red` of each of the M chosen envs into held, int64 `[M]`."""
    for i in range(len(chosen)):
        held[i] = held_by_red(states[chosen[i]])


@entry_point
def count_costs(
    states: Any, networks: Any, chosen: Any, actions: Any, held_before: Any, costs: Any
) -> None:
    """Write the costs of the last step in each of the M chosen envs, float64 `[M, C]`.

    networks: see `step_envs`. actions: Blue's actions, `[M]`. held_before: the masks that
    `note_held` wrote before the step."""
    for i in range(len(chosen)):
        s = states[chosen[i]]
        t = tables_at(states, networks, s.network)
        write_costs(
            costs[i],
            int64(t.n_hosts),
            int64(t.red_host),
            (int64(t.action_kind[actions[i]]), int64(t.action_host[actions[i]])),
            s.blue_success == tables.TRUE,
            s.red_kind == tables.IMPACT and s.red_success == tables.TRUE,
            held_before[i],
            (held_by_red(s), int64(s.is_owned)),
        )
