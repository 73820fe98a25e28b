"""What is drawn and told of a duel: whom each agent met, and what has been measured since."""

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.cli import output_of
from tests.html_pages import assert_valid
from workflow_rl.cage2.cyborg.simulators import SimulatorVersion
from workflow_rl.cage2.scoring.scores import CellScore, ProtocolScores
from workflow_rl.errors import UserError
from workflow_rl.studies.duel_dir import DuelRecord, read_measured
from workflow_rl.studies.policies_figure import duel_figure, figure_of_folder

RECORD = DuelRecord(
    {},
    {},
    {"Blue": ["champion", "generation-1/Blue.npz"], "the_$Reds": ["a", "b", "generation-1/R.npz"]},
    [[-1.0, -2.0, -9.0], [-3.0, -2.5, -4.0]],
    [[0.1] * 3] * 2,
    [{"Blue": [1.0], "the_$Reds": [0.0, 1.0]}, {"Blue": [0.25, 0.75], "the_$Reds": [0.5, 0, 0.5]}],
    [{"Blue": [1.0], "the_$Reds": [0.25, 0.75]}],
)


@pytest.fixture
def duel(tmp_path: Path) -> Path:
    path = tmp_path / "duel"
    path.mkdir()
    RECORD.write(path)
    return path


def leave(file: Path, found: Any) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(found))


def scores_of(returns: list[float]) -> ProtocolScores:
    """A score of CAGE-2, which is not of the whole protocol."""
    trajectories = [SimpleNamespace(episode_return=value) for value in returns]
    cell = CellScore(30, "B_lineAgent", trajectories)
    return ProtocolScores("champion", SimulatorVersion("a", "b", "c"), 0, 1.0, [cell])


def measure(path: Path) -> None:
    """What `evaluate` and `exploit` leave."""
    leave(path / "start/Blue/evaluation.json", scores_of([-54.5, -53.5]).to_dict())
    leave(path / "generation-1/Blue/evaluation.json", {"mean": -60, "interval_95": None})
    scores = [{"mean": 700, "interval_95": 5}, {"mean": 900, "interval_95": 6}]
    attackers = [{"run": f"policy-{n}", **score} for n, score in enumerate(scores)]
    found = {"agent": "champion", "side": "Blue", "attackers": attackers, "worst": 1, "fixed": {}}
    leave(path / "start/attackers/exploit.json", found)
    leave(path / "start/later/exploit.json", found | {"worst": 0})
    # They attacked an agent of another generation.
    leave(path / "generation-1/attackers/exploit.json", found)


def test_the_lineage_has_a_line_to_everybody_that_was_met():
    axes = {axes.get_title(): axes for axes in duel_figure(RECORD).axes}
    (lineage,) = [axes[title] for title in axes if title.startswith("Whom")]
    lines = [line for line in lineage.lines if line.get_linestyle() == "-"]
    drawn = sorted((line.get_linewidth() / 4, *line.get_xdata()) for line in lines)
    np.testing.assert_allclose(drawn, [(0.25, 1, 0), (0.75, 1, 0), (1, 1, 0)])
    (gains,) = axes["Exploitability of the mixtures, by agents of the table"].lines
    assert list(gains.get_ydata()) == [(-2 + 9) / 2, (-3.5 + 5.25) / 2]
    (shares,) = axes["Mixtures of Blue"].images
    assert shares.get_array().tolist() == [[1.0, 0.25], [0.0, 0.75]]
    # Each line ends where the agent stands that was met.
    heights = {text.get_text(): text.xy[1] for text in lineage.texts}
    (thin,) = [line for line in lines if line.get_linewidth() == 1]
    assert list(thin.get_ydata()) == [1, heights["0: a"]]


def test_agents_of_one_generation_stand_together():
    agents = {**RECORD.agents, "the_$Reds": [*RECORD.agents["the_$Reds"], "generation-1/R.2.npz"]}
    shares = {"Blue": [0.25, 0.75], "the_$Reds": [0.5, 0, 0.25, 0.25]}
    record = dataclasses.replace(
        RECORD, duel={"responses": "the_$Reds=2"}, agents=agents, payoffs=[[0.0] * 4] * 2,
        intervals=[[0.1] * 4] * 2, mixtures=[RECORD.mixtures[0], shares],
    )  # fmt: skip
    axes = {axes.get_title(): axes for axes in duel_figure(record).axes}
    (lineage,) = [axes[title] for title in axes if title.startswith("Whom")]
    places = {text.get_text(): text.xy for text in lineage.texts}
    assert places["2"][0] == places["3"][0] == 1
    assert places["2"][1] != places["3"][1]
    # Blue met a and b, and both Reds met Blue.
    assert len([line for line in lineage.lines if line.get_linestyle() == "-"]) == 4


def test_what_was_measured_is_read_and_drawn(duel):
    assert read_measured(duel, RECORD) == ({"Blue": {}, "the_$Reds": {}},) * 2
    n_axes = len(figure_of_folder(duel).axes)
    measure(duel)
    scores, attacks = read_measured(duel, RECORD)
    assert scores["Blue"] == {0: (-54, pytest.approx(6.353, abs=1e-3)), 1: (-60, 0)}
    assert attacks["Blue"] == {0: (900, 6)}
    assert len(figure_of_folder(duel).axes) == n_axes + 2
    assert output_of("plot", duel).split()[-1] == str(duel / "duel.png")
    assert (duel / "duel.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    "damage", [{"mean": "x", "interval_95": 1}, {"mean": 1, "interval_95": -1}, {"mean": 1}, [1]]
)
def test_a_damaged_score_is_named(duel, damage):
    leave(duel / "generation-1/Blue/evaluation.json", damage)
    with pytest.raises(UserError, match=r"Blue.evaluation\.json cannot be read"):
        figure_of_folder(duel)


def test_a_duel_in_which_nobody_has_played_yet_is_one_line(duel):
    agents = {side: [] for side in RECORD.agents}
    DuelRecord({}, {}, agents).write(duel)
    for command in ("plot", "report"):
        assert "has no payoffs yet" in output_of(command, str(duel), code=2)


def test_the_report_has_the_picture_and_both_tables(duel):
    measure(duel)
    output_of("report", duel, "--output", duel / "report.html")
    text = (duel / "report.html").read_text()
    assert_valid(text)
    assert "data:image/png;base64," in text
    assert "−9.00 ± 0.10" in text  # noqa: RUF001
    assert "a 25%, b 75%" in text
    assert "champion 25%, generation-1/Blue.npz 75%" in text
    assert "−54.0 ± 6.4" in text  # noqa: RUF001
    assert "900.0 ± 6.0" in text
