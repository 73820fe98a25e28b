"""What is written and shown of an evaluation: tables, result files, and a run's own scores."""

import ast
import itertools
import json
import re

import numpy as np
import pytest

from tests.workflow_rl.cage2.scoring.evaluations import cell, returns, run, save_agent
from workflow_rl.cage2.agent.records import record_of
from workflow_rl.cage2.agent.scripted import scripted_blue
from workflow_rl.cage2.cyborg.simulators import SimulatorVersion
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scenario2 import ACTION_NAMES, RED_AGENTS
from workflow_rl.cage2.scoring.leaderboard import SCRIPTED_SCORES, TOP_SCORES
from workflow_rl.cage2.scoring.players import load_blue
from workflow_rl.cage2.scoring.protocol import evaluate_blue
from workflow_rl.cage2.scoring.scores import ProtocolScores, score_table, step_actions


def test_the_table_shows_the_leaderboards_figures_in_their_cells():
    cells = [
        cell(-1.0, -2.0, max_steps=n, red_agent=red) for n in (30, 50, 100) for red in RED_AGENTS
    ]
    evaluation = ProtocolScores("random", SimulatorVersion("s", "1", "c"), 0, 1.0, cells)
    assert evaluation.is_official
    table = score_table(evaluation)
    rows = [[str(field).strip() for field in row] for row in table.rows]
    meander_50 = next(row for row in rows if row[:2] == ["50", "RedMeanderAgent"])
    assert meander_50[2:5] == ["-1.50", "± 6.35", "0.71"]
    assert meander_50[5:] == ["-8.01", "-8.85", "-8.69", "-10.33", "-10.13", "-12.04", "-171.00"]
    # Nine standard errors of 0.5 and 17 degrees of freedom: 2.110 * 1.5.
    assert rows[-1][:5] == ["", "total", "-13.50", "± 3.16", ""]
    totals = ["-50.26", "-85.80", "-54.57", "-56.90", "-57.05", "-95.47", "-2015.61"]
    assert rows[-1][5:] == totals
    # A line below the cells of each number of steps.
    blocks = itertools.groupby(str(table).splitlines(), lambda line: line.startswith("│"))
    assert [len(list(lines)) for is_row, lines in blocks if is_row][1:] == [3, 3, 3, 1]


@pytest.mark.parametrize("score", [*TOP_SCORES, *SCRIPTED_SCORES.values()], ids=lambda s: s.name)
def test_published_cells_add_up_to_the_published_total(score):
    known = sum(score.b_line) + sum(score.meander) + sum(score.sleep or ())
    # Where the cells of SleepAgent are not published, they can only take away.
    slack = 0.005 if score.sleep else 200
    assert known + 0.05 >= score.total >= known - slack


CELL_LINE = re.compile(r"steps: (\d+), adversary: (\w+), mean: (\S+), standard deviation (\S+)")
EPISODE_LINE = re.compile(r"actions: (\[.*\]), total reward: (\S+)")


def test_the_result_file_has_the_official_format(tmp_path):
    arguments = ["--agent", "react-restore", "--episodes", "2", "--max-steps", "15"]
    run(*arguments, "--output-dir", tmp_path / "results", "--author", "Ada")
    (path,) = (tmp_path / "results").iterdir()
    assert re.fullmatch(r"\d{8}_\d{6}_ReactRestoreAgent\.txt", path.name)
    lines = path.read_text().splitlines()
    simulator = "compiled code, which plays as csle-cyborg 0.0.3"
    assert lines[0] == f"CybORG {simulator}, Scenario2, Commit Hash: 26ce1c1"
    assert lines[1] == "author: Ada, team: none, technique: ReactRestoreAgent"
    assert lines[2].startswith("wrappers: ")

    expected = evaluate_blue(scripted_blue("react-restore"), 2, horizons=(15,), n_workers=1)
    blocks = [lines[first : first + 3] for first in range(3, len(lines), 3)]
    for scored, block in zip(expected.cells, blocks, strict=True):
        steps, red_agent, mean, deviation = CELL_LINE.fullmatch(block[0]).groups()
        assert (int(steps), red_agent) == (scored.max_steps, scored.red_agent)
        assert (float(mean), float(deviation)) == (scored.mean, scored.std)
        for line, trajectory in zip(block[1:], scored.trajectories, strict=True):
            actions, total = EPISODE_LINE.fullmatch(line).groups()
            assert float(total) == trajectory.episode_return
            blue = [pair[0] for pair in ast.literal_eval(actions)]
            assert blue == [ACTION_NAMES[action] for action in trajectory.action]
    b_line = ast.literal_eval(EPISODE_LINE.fullmatch(blocks[0][1]).group(1))
    assert b_line[0][1].startswith("DiscoverRemoteSystems ")


def test_the_actions_of_a_step_are_those_of_the_record_after_it():
    records = np.zeros(3, record_of(Scenario.scenario2()))
    records["red_action"] = [b"", b"Impact Op_Server0", b"Sleep"]
    (played,) = cell(-1.0).trajectories
    trajectory = played._replace(obs=records[:2], last_obs=records[2, ...], action=np.arange(2))
    told = step_actions(trajectory, ACTION_NAMES)
    assert told == [("Sleep", "Impact Op_Server0"), ("Monitor", "Sleep")]


def test_a_run_folders_scores_are_kept_in_it(tmp_path):
    save_agent(tmp_path / "checkpoint.safetensors")
    options = ["--episodes", "1", "--seed", "3"]
    said = run(tmp_path, *options)
    assert "csle-cyborg 0.0.3" in said
    assert "older simulator" in said

    expected = evaluate_blue(load_blue(tmp_path), 1, 3)
    scores = json.loads((tmp_path / "evaluation.json").read_text())
    name = "compiled code, which plays as csle-cyborg"
    assert scores["simulator"] == {"name": name, "version": "0.0.3", "commit": "26ce1c1"}
    assert scores["checked"] == "9 of 9 episodes have the same total on csle-cyborg 0.0.3."
    assert (scores["actions"], scores["seed"]) == ("greedy", 3)
    assert scores["agent"] == str(tmp_path / "checkpoint.safetensors")
    assert scores["official_protocol"] is True
    assert scores["total"] == pytest.approx(expected.total)
    by_cell = {(cell["max_steps"], cell["red_agent"]): cell["returns"] for cell in scores["cells"]}
    assert by_cell == returns(expected)

    # Fewer episodes take the place of more, and say so.
    written = f"scores: {tmp_path / 'evaluation.json'}"
    assert said.endswith(f"{written}\n")
    scores["cells"][4]["returns"] *= 100
    (tmp_path / "evaluation.json").write_text(json.dumps(scores))
    again = run(tmp_path, *options)
    assert f"{written} (in the place of those of 100 episodes a cell)" in again
    assert "nan" not in again

    # Another checkpoint, sampled actions or part of the cells leave the run's own scores alone.
    before = (tmp_path / "evaluation.json").read_bytes()
    for other in (["--stochastic"], ["--which", "latest"], ["--max-steps", "5"]):
        run(tmp_path, "--max-steps", "6", *other, "--episodes", "1")
    assert (tmp_path / "evaluation.json").read_bytes() == before
    file = ("--json", tmp_path / "sampled.json")
    run(tmp_path, *options, "--max-steps", 3, "--stochastic", *file)
    assert json.loads((tmp_path / "sampled.json").read_text())["actions"] == "sampled"


def test_one_episode_has_no_deviation(tmp_path):
    path = tmp_path / "scores.json"
    run("--agent", "sleep", "--episodes", 1, "--max-steps", 2, "--json", path)
    scores = json.loads(path.read_text())
    assert scores["cells"][0]["std"] is None
    assert scores["total_interval_95"] is None
