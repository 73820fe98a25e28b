"""Published CAGE Challenge 2 scores to read one's own beside.

Every cell is the mean total reward of 1000 episodes, except where the note says otherwise; None
where a source gives no figure.
"""

from __future__ import annotations

from typing import NamedTuple

LEADERBOARD_NOTE = (
    "Columns marked * are the challenge's leaderboard: scored at commit 606813b, before commit "
    "9421c8e (19 Aug 2022) made Red forget ports when it scans a host again. They do not compare "
    "with scores on the current simulator. CardiffUni without * are the winner's released weights, "
    "measured on the current simulator (300 episodes a cell)."
)


class PublishedScore(NamedTuple):
    """Mean returns after 30, 50 and 100 steps, by red agent, and the sum of all nine cells.

    name: as a table's heading, in one or two lines.
    """

    name: str
    b_line: tuple[float, float, float]
    meander: tuple[float, float, float]
    sleep: tuple[float, float, float] | None
    total: float

    def cell(self, max_steps: int, red_agent: str) -> float | None:
        """One cell's mean, None if it was not published."""
        cells = {
            "B_lineAgent": self.b_line,
            "RedMeanderAgent": self.meander,
            "SleepAgent": self.sleep,
        }[red_agent]
        if cells is None or max_steps not in (30, 50, 100):
            return None
        return cells[(30, 50, 100).index(max_steps)]


NONE_LOST = (0.0, 0.0, 0.0)

# fmt: off
TOP_SCORES = (
    PublishedScore("Cardiff\nUni", (-5.06, -12.63, -37.24), (-5.61, -8.85, -16.43), None, -85.8),
    PublishedScore("Cardiff\nUni*", (-3.47, -6.41, -13.76), (-5.64, -8.69, -16.60), NONE_LOST,
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
# fmt: on
