"""The frame of the page that replays an episode. All challenges share this frame."""

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
        package: the challenge's package with side.html, side.css and side.js, see replay.js.
        title, about, compared: texts at the top of the page.
        episodes: data for the scripts. `recordings` has, for each agent, the name `agent`, the
            `steps` with the return so far as `total`, the `moments`, see `moments_of`. Each step's
            `measured` has the costs that measures count.
            `moments_shown` is how many moments the page lists. `digits` is the number of decimals
            of rewards, 1 by default. `phases` may pair each phase's name with the steps before it.
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
    """A part of an episode in which one cause had costs. first, last: steps, counted from 1."""

    cause: str
    first: int
    last: int
    cost: float


def moments_of(costs: Iterable[Mapping[str, float]], longest_pause: int = 1) -> tuple[Moment, ...]:
    """Return an episode's moments, the costliest first.

    costs: for each step, the cost of each cause. longest_pause: two costs of one cause belong to
    one moment if they are at most this number of steps apart."""
    by_cause: dict[str, list[Moment]] = {}
    for number, step in enumerate(costs, 1):
        for cause, cost in step.items():
            moments = by_cause.setdefault(cause, [])
            first = number
            if moments and number - moments[-1].last <= longest_pause:
                before = moments.pop()
                first = before.first
                cost = round(before.cost + cost, 1)
            moments.append(Moment(cause, first, number, cost))
    every = [moment for moments in by_cause.values() for moment in moments]
    return tuple(sorted(every, key=lambda moment: (-moment.cost, moment.first)))


def shown_name(agent: Path) -> str:
    """Return a name for an agent on a page. The name shows no folders of this machine."""
    parts = agent.absolute().parts
    return "/".join(parts[-2:]) if agent.is_file() else parts[-1]


def replay_command(run_path: str, red_agent: str, episode: int) -> str:
    """Return the command with which a report's reader can replay an episode of the run."""
    words = ["replay", run_path, "--red-agent", red_agent, "--episode", str(episode)]
    return f"python -m workflow_rl {shlex.join(words)}"
