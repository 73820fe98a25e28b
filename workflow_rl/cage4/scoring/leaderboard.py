"""Known scores on CAGE Challenge 4, each with the simulator that gave it."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from workflow_rl.cage4.scenario.scenario4 import CHALLENGE, MAX_STEPS, RED_AGENTS, scenarios_of


class KnownScore(NamedTuple):
    """The mean total reward of the challenge's evaluation.

    stdev: the standard deviation over episodes, or None if the source gives none.
    simulator: the code that played.
    is_compared: whether a finished run shows this score beside the run's own score.
    """

    name: str
    mean: float
    stdev: float | None
    episodes: int | None
    simulator: str
    source: str
    is_compared: bool = False


OFFICIAL = "official CybORG 4"
HERE = "this package's, `evaluate NAME --env workflow_rl/CAGE4-v0`"
SCRIPTED = (
    KnownScore("champion", -91.6, 32.4, 12000, "compiled", "scripts/score_cage4_teams.py", True),
    KnownScore("rules", -94.1, 32.4, 12000, "compiled", "scripts/score_cage4_teams.py", True),
    KnownScore("restore-when-seen", -982.0, 441.0, 20, "cyborg", HERE, True),
    KnownScore("random", -5023.0, 809.0, 20, "cyborg", HERE),
    KnownScore("sleep", -6802.0, 1359.0, 20, "cyborg", HERE, True),
)
"""The scores of this package's teams."""
TABLE_2 = "Kiely et al., AAAI 2025, 39(28), Table 2"
PUBLISHED = (
    KnownScore("UC, 1st place", -113.0, 35.0, 100, OFFICIAL, TABLE_2, True),
    KnownScore("lancer, 2nd place", -118.0, 40.0, 100, OFFICIAL, TABLE_2),
    KnownScore("H-MARL Expert", -129.5, 44.6, None, OFFICIAL, "Singh et al., arXiv 2410.17351v3"),
    KnownScore("PUNCH, 3rd place", -142.7, None, None, OFFICIAL, "its repository", True),
    KnownScore("PUNCH, 4th place", -167.0, None, None, OFFICIAL, "its repository"),
    KnownScore("KEEP, 5th place", -193.7, 84.0, None, OFFICIAL, "its README", True),
    KnownScore(
        "EnterpriseHeuristic v9.1", -174.0, 58.0, 30, "a fork whose rules differ", "its repository"
    ),
    KnownScore("flat PPO, 3M steps", -1854.0, None, None, OFFICIAL, "jaxborg's README"),
    KnownScore("flat PPO, 3M steps, on jaxborg", -1998.0, None, None, "jaxborg", "its README"),
)
"""The scores that a search on 2026-11-28 found."""
KNOWN = tuple(sorted((*SCRIPTED, *PUBLISHED), key=lambda score: -score.mean))


def known_returns(args: Mapping[str, Any]) -> dict[str, float]:
    """Return the mean returns of the package's teams by name, if `args` are the challenge's."""
    played = args["red_agent"], args["max_steps"], scenarios_of(args)
    if played != (RED_AGENTS[0], MAX_STEPS, {"": CHALLENGE}):
        return {}
    return {score.name: score.mean for score in SCRIPTED}
