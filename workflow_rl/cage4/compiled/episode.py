"""One step of an episode. Follows `SimulationController.step`."""

from typing import Any

from workflow_rl.cage4.compiled import actions
from workflow_rl.cage4.compiled.blue_actions import act_as_blue, control_traffic, monitor
from workflow_rl.cage4.compiled.cells import check_room
from workflow_rl.cage4.compiled.constants import N_BLUE, N_RED, NOBODY, REWARDS, ZONE
from workflow_rl.cage4.compiled.draw_scenario import draw_scenario, set_reach
from workflow_rl.cage4.compiled.generator import seed, shuffle_draws
from workflow_rl.cage4.compiled.green_actions import act_as_green, choose_as_green
from workflow_rl.cage4.compiled.jit import compiled, int64
from workflow_rl.cage4.compiled.observe import is_possible
from workflow_rl.cage4.compiled.red_actions import act_as_red
from workflow_rl.cage4.compiled.red_agents import choose_as_red
from workflow_rl.cage4.compiled.red_from_outside import remember_outcomes
from workflow_rl.cage4.compiled.red_memory import learn
from workflow_rl.cage4.compiled.red_sessions import index_of
from workflow_rl.cage4.compiled.red_turn import check_sessions, move_sessions
from workflow_rl.cage4.compiled.state import NO_ERROR, PAST_THE_END
from workflow_rl.cage4.scenario.scenario4 import IMPACT_COST, IN_PROGRESS, MISSION_PHASES, UNKNOWN

PHASES = len(MISSION_PHASES)


@compiled
def reset_env(s: Any, is_seeded: bool, words: Any, red_class: int, max_steps: int) -> None:
    """Begin an episode. If `is_seeded`, seed the generator with `words`, see `seed_words`."""
    if is_seeded:
        seed(s, words)
    s.red_class = red_class
    s.max_steps = max_steps
    draw_scenario(s)
    remember_outcomes(s)
    s.done = s.step_count >= max_steps - 1


@compiled
def step_env(s: Any, chosen: Any) -> None:
    """Play one step with the five agents' chosen actions `[5]`, unless the episode cannot go on."""
    if s.step_count >= s.max_steps:
        s.error = PAST_THE_END
        return
    check_room(s)
    if s.error != NO_ERROR:
        return
    update_phase(s)
    s.machine_reward = 0
    s.action_cost = 0
    choose_as_blue(s, chosen)
    choose_as_green(s)
    choose_as_red(s)
    if s.error != NO_ERROR:
        return
    tick(s)
    sort_actions(s)
    execute_actions(s)
    move_sessions(s)
    if s.error != NO_ERROR:
        return
    for agent in range(N_BLUE):
        monitor(s, agent)
    for agent in range(N_RED):
        check_sessions(s, agent)
    for agent in range(N_RED):
        learn(s, agent)
        if s.red_done[agent] == actions.IMPACT and s.n_sessions[agent] > 0:
            # A failed Impact costs, too: CybORG's test of the success is true for every outcome.
            s.machine_reward += REWARDS[s.phase, ZONE[s.red_target[agent]], IMPACT_COST]
    remember_outcomes(s)
    s.step_count += 1
    s.done = s.step_count >= s.max_steps - 1


@compiled
def update_phase(s: Any) -> None:
    """`check_next_phase_on_update_step`: the three phases have equal lengths, except that the first
    phases get the remaining steps of a division by three."""
    end, phase = 0, 0
    for i in range(PHASES):
        end += (s.max_steps // PHASES) + (i < (s.max_steps % PHASES))
        if s.step_count >= end:
            phase = i + 1
    if phase > s.phase:
        s.phase = phase
        set_reach(s)


@compiled
def choose_as_blue(s: Any, chosen: Any) -> None:
    """Take the actions of agents that are not busy. A busy agent's Restore also has a cost."""
    for agent in range(N_BLUE):
        action = chosen[agent]
        kind = actions.KIND_OF[agent, action] if is_possible(s, agent, action) else actions.SLEEP
        s.action_cost -= actions.BLUE_COST[kind]
        if s.blue_ticks[agent] == 0:
            s.blue_kind[agent] = kind
            s.blue_target[agent] = actions.TARGET_OF[agent, action]
            s.blue_source[agent] = actions.SOURCE_OF[agent, action]
            s.blue_ticks[agent] = actions.BLUE_DURATION[kind]


@compiled
def tick(s: Any) -> None:
    """Count down the actions. An action takes effect in its last step. Before, its agent sleeps."""
    for agent in range(N_BLUE):
        s.blue_ticks[agent] -= 1
        s.blue_done[agent] = s.blue_kind[agent] if s.blue_ticks[agent] == 0 else actions.SLEEP
    for agent in range(N_RED):
        s.red_ticks[agent] -= 1
        is_done = s.red_ticks[agent] == 0
        s.red_done[agent] = s.red_kind[agent] if is_done else actions.RED_SLEEP
        s.seen_kind[agent] = actions.DROPPED
        s.seen_success[agent] = UNKNOWN if is_done else IN_PROGRESS
        s.sees_target[agent] = False
        s.sees_links[agent] = False
        s.n_news[agent] = 0


@compiled
def sort_actions(s: Any) -> None:
    """`sort_action_order`: drop the actions whose session is gone, and make the draws of a shuffle.
    CybORG shuffles the remaining actions to limit bandwidth, but no action uses bandwidth."""
    n = N_BLUE + s.n_greens
    for agent in range(N_RED):
        kind = s.red_done[agent]
        s.route_start[agent] = NOBODY
        if kind != actions.RED_SLEEP and kind != actions.INVALID:
            i = index_of(s, agent, int64(s.red_session[agent]))
            if i < 0:
                continue
            s.route_start[agent] = s.sessions[agent, i].host
        n += 1
    shuffle_draws(s, n)


@compiled
def execute_actions(s: Any) -> None:
    """Execute Block and Allow first, then the actions of blue, green and red agents in order."""
    for agent in range(N_BLUE):
        if s.blue_done[agent] == actions.BLOCK or s.blue_done[agent] == actions.ALLOW:
            control_traffic(s, agent)
    for agent in range(N_BLUE):
        act_as_blue(s, agent)
    act_as_green(s)
    for agent in range(N_RED):
        kind = s.red_done[agent]
        if kind == actions.INVALID or (
            kind != actions.RED_SLEEP and s.route_start[agent] != NOBODY
        ):
            act_as_red(s, agent)
