"""CAGE-1's nine cells stand beside its leaderboard."""

import importlib.util

import pytest

from tests.workflow_rl.cage2.scoring.evaluations import run
from workflow_rl.cage2.scoring.leaderboard import TOP_SCORES_1B, compared_scores


@pytest.mark.parametrize("score", TOP_SCORES_1B, ids=lambda score: score.name)
def test_totals_are_sums_of_nine_cells(score):
    cells = (score.sum_against(red) for red in ("B_lineAgent", "RedMeanderAgent", "SleepAgent"))
    assert sum(cells) == pytest.approx(score.total, abs=0.01)


def test_scores_of_other_networks_have_none_beside_them():
    assert compared_scores("another network") == ()


CELLS = ("--agent", "decoys", "--scenario", "scenario1b", "--episodes", 2)


def test_a_red_agent_of_csle_cyborgs_kind_does_not_play_by_other_rules():
    red = "csle_cyborg.agents.simple_agents.b_line:B_lineAgent"
    said = run(*CELLS, "--red-agent", red, code=2)
    if importlib.util.find_spec("CybORG") is None:
        assert "CAGE-1's package CybORG is not installed" in said


def test_an_agent_is_scored_by_the_rules_of_challenge_1():
    assert "-30.07" in run(*CELLS)  # Mindrake's total of all cells.
