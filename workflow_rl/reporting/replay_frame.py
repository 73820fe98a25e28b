"""The page of an episode to watch: the frame, which is the same for every guest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from workflow_rl.reporting.pages import STYLE, as_json, escaped, filled, source


def framed(package: str, title: str, about: str, compared: str, episodes: dict[str, Any]) -> str:
    """Return the page.

    Args:
        package: has side.html, side.css and side.js, which show one agent's episode: see replay.js.
        title, about, compared: what stands at the head.
        episodes: what the scripts read. `recordings`: of each agent `agent`, `steps` with the
            return so far as `total`, and `moments` with `cause`, `first`, `last` and `cost`, the
            costliest first. `moments_shown`: how many of these are listed. `digits`: of rewards,
            1 unless given. `phases`, if there are any: names, each with the steps before the phase.
    """
    return filled(
        STYLE,
        "replay.html",
        title=escaped(title),
        about=escaped(about),
        compared=escaped(compared),
        episodes=as_json(episodes),
        script=source(STYLE, "replay.js"),
        side=source(package, "side.html"),
        side_style=source(package, "side.css"),
        side_script=source(package, "side.js"),
    )


def shown_name(agent: Path) -> str:
    """Return a name that tells agents apart, without the path of a machine."""
    parts = agent.absolute().parts
    return "/".join(parts[-2:]) if agent.is_file() else parts[-1]
