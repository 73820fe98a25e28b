"""An episode to watch, as one HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workflow_rl.cage2.scenario2 import HOSTS
from workflow_rl.cage2.scoring.comparison import Comparison
from workflow_rl.cage2.scoring.recording import Recording
from workflow_rl.reporting.pages import as_json, escaped, filled, source

PAGES = "workflow_rl.cage2.scoring.pages"


def replay_page(recordings: Sequence[Recording], compared: Sequence[Comparison]) -> str:
    """Return the page of an episode, or of one episode as two agents play it."""
    first = recordings[0]
    agents = " and ".join(recording.agent for recording in recordings)
    returns = "; ".join(
        f"{one.agent}, {one.choice} actions: return {one.episode_return:.1f}" for one in recordings
    )
    about = (
        f"{returns}. Episode {first.episode} of the {first.max_steps}-step cell of an evaluation "
        f"with seed {first.seed}."
    )
    if len(recordings) > 1:
        about += " Chance is the same for both until their actions differ."
    return filled(
        PAGES,
        "replay.html",
        title=escaped(f"{agents} against {first.red_agent}"),
        about=escaped(about),
        compared=escaped(" ".join(dict.fromkeys(one.text for one in compared))),
        episodes=as_json({**_scenario(), "recordings": recordings}),
        script=source(PAGES, "replay.js"),
    )


def _scenario() -> dict[str, Any]:
    from workflow_rl.cage2.compiled.tables import (
        EXPLORED_ADDRESSES,
        N_SUBNET_HOSTS,
        SUBNET_HOSTS,
        SUBNETS,
    )

    members = zip(SUBNETS, SUBNET_HOSTS, N_SUBNET_HOSTS, strict=True)
    by_name = {name: [HOSTS[host] for host in hosts[:n]] for name, hosts, n in members}
    return {
        "hosts": HOSTS,
        # From where Red begins to what it is after.
        "subnets": {name: by_name[name] for name in ("User", "Enterprise", "Operational")},
        "leads": [
            (HOSTS[host], HOSTS[other])
            for host, explored in enumerate(EXPLORED_ADDRESSES)
            for other in np.flatnonzero([explored >> i & 1 for i in range(len(HOSTS))])
            if other != host
        ],
    }
