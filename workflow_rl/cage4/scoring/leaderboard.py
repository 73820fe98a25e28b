"""Scores on CAGE Challenge 4 to compare with, each with the simulator that gave it."""

from __future__ import annotations

from typing import NamedTuple


class KnownScore(NamedTuple):
    """The mean total reward of the challenge's evaluation.

    stdev: over episodes, None where the source gives none. simulator: whose code played.
    """

    name: str
    mean: float
    stdev: float | None
    episodes: int | None
    simulator: str
    source: str


OFFICIAL = "official CybORG 4"
PUBLISHED = (
    KnownScore("KEEP (Cybermonic)", -193.68, None, None, OFFICIAL, "its README; 5th place"),
    KnownScore("hierarchical PPO (Singh et al.)", -180.0, 93.0, None, OFFICIAL, "arXiv 2410.17351"),
    KnownScore(
        "EnterpriseHeuristic v9.1",
        -174.0,
        58.0,
        30,
        "deepboltzer's fork, whose rules differ",
        "its repository",
    ),
    KnownScore("flat PPO, 3M steps", -1854.0, 46.0, None, "jaxborg", "its repository"),
)
"""The first four places of the challenge published no score that we found."""
