"""The page of an episode to watch: the frame, which is the same for every guest."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workflow_rl.reporting.pages import as_json, escaped, filled, source

PAGES = "workflow_rl.cage.pages"


def framed(package: str, title: str, about: str, compared: str, episodes: dict[str, Any]) -> str:
    """Return the page.

    Args:
        package: has side.html, side.css and side.js, which show one agent's episode: see replay.js.
        title, about, compared: what stands at the head.
        episodes: what the scripts read. `recordings`: of each agent `agent`, `steps` with the
            return so far as `total`, and `moments`, see `moments_of`. `moments_shown`: how many of
            these are listed. `digits`: of rewards, 1 unless given. `phases`, if there are any:
            names, each with the steps before the phase.
    """
    return filled(
        PAGES,
        "replay.html",
        title=escaped(title),
        about=escaped(about),
        compared=escaped(compared),
        episodes=as_json(episodes),
        script=source(PAGES, "replay.js"),
        side=source(package, "side.html"),
        side_style=source(package, "side.css"),
        side_script=source(package, "side.js"),
    )


@dataclass(frozen=True)
class Moment:
    """Steps that cost something for one cause. first, last: counted from 1."""

    cause: str
    first: int
    last: int
    cost: float


def moments_of(costs: Iterable[Mapping[str, float]], longest_pause: int = 1) -> tuple[Moment, ...]:
    """Return what cost something in an episode, the costliest first.

    costs: of each step, by cause. longest_pause: steps from a cost to the next one of its moment.
    """
    by_cause: dict[str, list[Moment]] = {}
    for number, step in enumerate(costs, 1):
        for cause, cost in step.items():
            moments, first = by_cause.setdefault(cause, []), number
            if moments and number - moments[-1].last <= longest_pause:
                before = moments.pop()
                first, cost = before.first, round(before.cost + cost, 1)
            moments.append(Moment(cause, first, number, cost))
    every = [moment for moments in by_cause.values() for moment in moments]
    return tuple(sorted(every, key=lambda moment: (-moment.cost, moment.first)))


def shown_name(agent: Path) -> str:
    """Return a name that tells agents apart, without the path of a machine."""
    parts = agent.absolute().parts
    return "/".join(parts[-2:]) if agent.is_file() else parts[-1]


def replay_command(run_path: str, red_agent: str, episode: int) -> str:
    """Return the command that shows an episode of a run, for a report."""
    words = ["replay", run_path, "--red-agent", red_agent, "--episode", str(episode)]
    return f"python -m workflow_rl {shlex.join(words)}"
