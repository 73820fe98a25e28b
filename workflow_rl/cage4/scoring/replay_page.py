"""An episode of CAGE-4 to watch, as one HTML page."""

from collections.abc import Sequence
from typing import Any

from workflow_rl.cage.replay_frame import framed
from workflow_rl.cage4.agent.raw_record import APPROACHED, DECEIVED, STRANGER, TAKEN
from workflow_rl.cage4.compiled.actions import BLUE_ACTIONS, RED_ACTIONS
from workflow_rl.cage4.compiled.constants import BLUE_OF_ZONE, LINKS, NOBODY, RED_OF_ZONE, ZONE
from workflow_rl.cage4.compiled.true_state import SERVICE_NAMES
from workflow_rl.cage4.scenario.scenario4 import AGENTS, HOST_NAMES, MISSION_PHASES
from workflow_rl.cage4.scoring.recording import CAUSES, RED_KNOWS, ZONE_TITLES, Recording

PAGES = "workflow_rl.cage4.scoring.pages"


def replay_page(
    recordings: Sequence[Recording],
    teams: Sequence[str],
    opponent: str,
    max_steps: int,
    seed: int,
    episode: int,
) -> str:
    """Return the page of an episode that one team or two teams play.

    teams: their names. opponent: the red agents' name, and the changes to the challenge.
    """
    totals = [
        f"{team}: total {recording.total}"
        for team, recording in zip(teams, recordings, strict=True)
    ]
    about = (
        f"{'; '.join(totals)}. Episode {episode} of the evaluation of {teams[0]} with seed {seed}, "
        f"{max_steps} steps. The last of these steps does not count and is not shown."
    )
    if len(teams) > 1:
        about += (
            f" {teams[1]} defends the same network, and chance is the same for both until their "
            "actions differ."
        )
    phases = [step.phase for step in recordings[0].steps]
    return framed(
        PAGES,
        f"{' and '.join(teams)} against {opponent}",
        about,
        "Played by this package's simulator, which repeats every random draw of CybORG 4.",
        {
            **_scenario(),
            "digits": 0,
            # Each phase's name, and the number of steps before this phase.
            "phases": [(MISSION_PHASES[i], phases.index(i)) for i in sorted(set(phases))],
            "moments_shown": 4 if len(recordings) > 1 else 8,
            "recordings": [
                {"agent": team, **vars(recording), "moments": recording.moments()}
                for team, recording in zip(teams, recordings, strict=True)
            ],
        },
    )


def _scenario() -> dict[str, Any]:
    blues = [int(agent) for agent in BLUE_OF_ZONE]
    return {
        "zones": ZONE_TITLES,
        "routes": [(zone, below) for zone, zones in LINKS.items() for below in zones],
        "hosts": HOST_NAMES,
        "zone_of": ZONE.tolist(),
        # The agent of each zone. None means that the zone has no agent.
        "blue_of": [None if agent == NOBODY else agent for agent in blues],
        "red_of": [None if agent == NOBODY else agent for agent in RED_OF_ZONE.tolist()],
        "blue_agents": AGENTS,
        "blue_actions": BLUE_ACTIONS,
        "red_actions": RED_ACTIONS,
        "services": SERVICE_NAMES,
        "causes": CAUSES,
        "red_knows": RED_KNOWS,
        "stranger": STRANGER,
        "seen": {"decoy": DECEIVED, "taken": TAKEN, "ssh": APPROACHED},
    }
