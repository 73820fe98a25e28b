"""The red agents that CAGE-2 knows by name, and the networks in which they can play."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from workflow_rl.cage.attackers import Attackers, Roster
from workflow_rl.cage2.b_line_plan import GOAL, missing_for_b_line
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scenario2 import RED_AGENTS, ScenarioError

if TYPE_CHECKING:
    from workflow_rl.cage2.scenario.family import ScenarioFamily

LIBRARY: Mapping[str, str] = {
    "greedy": "workflow_rl.cage2.red.by_hand:GreedyRed",
    "spread": "workflow_rl.cage2.red.by_hand:SpreadRed",
    "quiet": "workflow_rl.cage2.red.by_hand:QuietRed",
    "patient": "workflow_rl.cage2.red.by_hand:PatientRed",
    "returner": "workflow_rl.cage2.red.by_hand:ReturningRed",
    "decoy-shy": "workflow_rl.cage2.red.by_hand:DecoyShyRed",
    "last-found": "workflow_rl.cage2.red.by_hand:LastFoundRed",
    "stubborn": "workflow_rl.cage2.attackers:Stubborn",
}
"""The names of the attackers that were written by hand, with their classes."""
# "attackers" draws SleepAgent seldom, because Blue learns little against it.
REDS = Roster(
    RED_AGENTS,
    {
        "mixed": ",".join(RED_AGENTS),
        "attackers": "B_lineAgent=8,RedMeanderAgent=11,SleepAgent=1",
        "library": ",".join(LIBRARY),
    },
    LIBRARY,
)


@functools.lru_cache(2048)
def refusals(played: Scenario | ScenarioFamily) -> Mapping[str, str | None]:
    """Return, for each of the challenge's red agents, why it cannot play, or None if it can play.

    A red agent that can play in a family's start, from every entry, can play in all its networks.
    """
    if not isinstance(played, Scenario):
        start = played.start
        moved = [host for host in played.ranges["entry"] if host != start.red_host]
        places = [refusals(place) for place in (start, *map(start.enter_at, moved))]
        first_reasons: dict[str, str | None] = {}
        for name in RED_AGENTS:
            reasons = [of_place[name] for of_place in places if of_place[name] is not None]
            first_reasons[name] = reasons[0] if reasons else None
        return first_reasons
    if played.is_scenario2:
        return dict.fromkeys(RED_AGENTS)
    missing = {name: missing_in(played) for name, missing_in in _MISSING_FOR.items()}
    return dict.fromkeys(RED_AGENTS) | missing


def able_reds(played: Scenario | ScenarioFamily) -> tuple[str, ...]:
    """Return the names of the challenge's red agents that can play."""
    return tuple(name for name, problem in refusals(played).items() if problem is None)


def problem_of_reds(played: Scenario | ScenarioFamily, reds: Attackers) -> str | None:
    """Return a text that says why a red agent cannot play, and which red agents can. Return None if
    all of `reds` can play."""
    reasons = refusals(played)
    for red in reds.members:
        if (reason := reasons.get(red.name)) is not None:
            able = " or ".join(able_reds(played))
            return f"{red.name} cannot play in {played}: {reason}; choose {able}"
        if red.name not in RED_AGENTS and not isinstance(played, Scenario):
            return f"{red.name} cannot play in a family: choose of {', '.join(RED_AGENTS)}"
    return None


def checked_reds(scenario: Scenario, red_agent: Any) -> Attackers:
    """Return the red agents that an argument `red_agent` of an env names. Raises ValueError."""
    reds = REDS.checked(red_agent)
    if (problem := problem_of_reds(scenario, reds)) is not None:
        raise ScenarioError(f"red_agent: {problem}")
    return reds


def _missing_for_meander(scenario: Scenario) -> str | None:
    """Return why RedMeanderAgent cannot play a scenario, or None. The agent raises an error when
    Red holds all known hosts and GOAL is not among them. The agent also raises an error when Red
    loses hosts and has begun on a host with Op or Ent in its name."""
    from workflow_rl.cage2.attack_graph import attack_graph

    if any(part in scenario.red_host for part in ("Op", "Ent")):
        return f"it raises an error if Red begins on a host such as {scenario.red_host}"
    graph = attack_graph(scenario)
    known = [reach for reach in graph.values() if reach.found_from]
    goal_is_held = GOAL in graph and graph[GOAL].is_held
    if not goal_is_held and all(reach.is_held for reach in known):
        return f"it raises an error when Red holds all hosts that it can find, without {GOAL}"
    return None


_MISSING_FOR: Mapping[str, Callable[[Scenario], str | None]] = {
    "B_lineAgent": missing_for_b_line,
    "RedMeanderAgent": _missing_for_meander,
}
"""For each red agent that cannot play everywhere: a function that returns what a scenario lacks."""
