"""Scores on CAGE Challenges 2 and 1: published scores, and scores of the package's agents.

A cell is one red agent and one length of episodes. Its score is the mean total reward of 1000
episodes, unless a note gives another number. None means that the source gives no figure."""

import functools
import json
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from workflow_rl.cage2.red.roster import REDS
from workflow_rl.cage2.scenario2 import HORIZONS, RED_AGENTS, SCENARIO1B, SCENARIO2

LEADERBOARD_NOTE = (
    "champion and winner were scored on this simulator: champion comes with the package; winner is "
    "the agent that Cardiff University released, which won the challenge (300 episodes a cell). "
    "Columns marked * are the challenge's leaderboard. They were scored on an older simulator, "
    "whose Red is weaker, and do not compare with the other columns."
)

LEADERBOARD_NOTE_1B = (
    "champion1b comes with the package. Columns marked * are the final leaderboard of CAGE "
    "Challenge 1, scored on its own CybORG 1.2, by whose rules scenario1b is played."
)


class PublishedScore(NamedTuple):
    """Mean returns of 30, 50 and 100 steps against each red agent, and the sum of all nine cells.

    name: the agent's heading in a table, in one or two lines."""

    name: str
    b_line: tuple[float, float, float]
    meander: tuple[float, float, float]
    sleep: tuple[float, float, float] | None
    total: float

    def cell(self, max_steps: int, red_agent: str) -> float | None:
        """Return one cell's mean, or None if it was not published."""
        of_reds = dict(zip(RED_AGENTS, (self.b_line, self.meander, self.sleep), strict=True))
        cells = of_reds.get(red_agent)
        if cells is None:
            return None
        return dict(zip(HORIZONS, cells, strict=True)).get(max_steps)

    def sum_against(self, red_agent: str) -> float:
        """Return the sum of a red agent's three cells."""
        return sum(self.cell(max_steps, red_agent) or 0.0 for max_steps in HORIZONS)


NONE_LOST = (0.0, 0.0, 0.0)

# fmt: off
# The source is the table in the README of https://github.com/cage-challenge/cage-challenge-1.
TOP_SCORES_1B = (
    PublishedScore("Mindrake*", (-2.63, -4.71, -11.01), (-2.28, -3.60, -5.84), NONE_LOST, -30.07),
    PublishedScore("Raytheon\nSRG*", (-3.87, -6.81, -14.06), (-3.27, -6.66, -14.68), NONE_LOST,
                   -49.35),
    PublishedScore("CUABv2*", (-6.87, -12.67, -27.47), (-6.00, -16.87, -49.13), NONE_LOST, -119.01),
    PublishedScore("CUABv1*", (-8.10, -19.22, -59.66), (-9.39, -30.62, -86.77), NONE_LOST, -213.76),
)

TOP_SCORES = (
    # The total is the sum of these six cells, because the agent loses nothing to SleepAgent.
    PublishedScore("winner", (-5.06, -12.63, -37.24), (-5.61, -8.85, -16.43), NONE_LOST, -85.8),
    PublishedScore("winner*", (-3.47, -6.41, -13.76), (-5.64, -8.69, -16.60), NONE_LOST,
                   -54.57),
    PublishedScore("Keeping-\nit-RL*", (-3.48, -5.85, -11.39), (-6.47, -10.33, -19.38), NONE_LOST,
                   -56.90),
    PublishedScore("Mindrake*", (-3.53, -6.20, -12.78), (-6.76, -10.13, -17.65), NONE_LOST,
                   -57.05),
    PublishedScore("CCS\nPPO*", (-8.75, -14.92, -30.19), (-7.31, -12.04, -22.21), None, -95.47),
)

SCRIPTED_SCORES = {
    "react-restore": PublishedScore(
        "React-\nRestore*", (-58.83, -93.05, -184.34), (-44.29, -85.75, -192.63), None, -823.89
    ),
    "random": PublishedScore("Random*", (-154, -347, -727), (-33, -171, -566), None, -2015.61),
    "sleep": PublishedScore("Sleep*", (-219, -480, -1134), (-39, -268, -972), None, -3112.2),
}

# Scores on the current simulator, by `evaluate --agent random --episodes 300` and so on.
SCRIPTED_HERE = (
    PublishedScore("sleep", (-216.73, -480.08, -1133.65), (-43.07, -271.16, -972.04), NONE_LOST,
                   -3116.74),
    PublishedScore("random", (-160.70, -339.72, -725.39), (-33.79, -165.26, -621.19),
                   (-2.69, -4.41, -9.24), -2062.38),
    PublishedScore("react-remove", (-95.43, -296.87, -937.82), (-20.73, -99.87, -612.01), NONE_LOST,
                   -2062.72),
    PublishedScore("react-restore", (-35.70, -122.99, -517.53), (-13.49, -37.91, -197.10),
                   NONE_LOST, -924.72),
    PublishedScore("decoys", (-9.61, -16.79, -35.65), (-7.18, -11.57, -22.56), NONE_LOST, -103.36),
)
# fmt: on


@functools.cache
def champion_score(name: str = "champion") -> PublishedScore:
    """Return a released agent's score on the current simulator, from the agent's card."""
    card = Path(__file__).parents[1] / "agent" / "released" / f"{name}.json"
    scores = json.loads(card.read_text())["evaluation"]
    means = {(cell["red_agent"], cell["max_steps"]): cell["mean"] for cell in scores["cells"]}

    def cells_of(red_agent: str) -> tuple[Any, ...]:
        return tuple(round(means[red_agent, max_steps], 2) for max_steps in HORIZONS)

    b_line, meander, sleep = map(cells_of, RED_AGENTS)
    return PublishedScore(name, b_line, meander, sleep, round(scores["total"], 2))


def compared_scores(scenario: str = SCENARIO2) -> tuple[PublishedScore, ...]:
    """Return the scores that are shown beside an agent's score. A released agent's score is first.

    scenario: the scenario's text. Only the challenges' own scenarios have scores."""
    if scenario == SCENARIO1B:
        return (champion_score("champion1b"), *TOP_SCORES_1B)
    return (champion_score(), *TOP_SCORES) if scenario == SCENARIO2 else ()


def known_returns(args: Mapping[str, Any]) -> dict[str, float]:
    """Return mean returns of the scripted agents, the challenge's winner and the champion, by name.

    args: the arguments of the `environment.Cage2` in which the episodes are played. If the
    challenge does not score episodes of this length, there are no returns."""
    red_agents = REDS.read(args["red_agent"]).variants
    known = {}
    for score in (*SCRIPTED_HERE, TOP_SCORES[0], champion_score()):
        cells = [score.cell(args["max_steps"], red_agent) for red_agent in red_agents]
        returns = [cell for cell in cells if cell is not None]
        if len(returns) == len(cells):
            known[score.name] = round(statistics.mean(returns), 2)
    return known
