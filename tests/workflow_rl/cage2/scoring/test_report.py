import json
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest

from tests.cli import output_of
from tests.html_pages import assert_valid
from tests.workflow_rl.cage2.scoring.test_recording import save_run
from tests.workflow_rl.cage2.scoring.test_replay import data_of
from tests.workflow_rl.reporting.test_report import figures, make_run, page_of, section
from workflow_rl.agents.ppo.agent import PPOAgent
from workflow_rl.agents.ppo.config import PPOConfig
from workflow_rl.cage2.agent.scripted import scripted_blue
from workflow_rl.cage2.scenario2 import ACTION_NAMES, ENV_ID, RED_AGENTS
from workflow_rl.cage2.scoring import report
from workflow_rl.cage2.scoring.leaderboard import TOP_SCORES
from workflow_rl.cage2.scoring.players import load_blue
from workflow_rl.cage2.scoring.protocol import evaluate_blue
from workflow_rl.cage2.scoring.scores import ProtocolScores
from workflow_rl.output_files import sha256_of
from workflow_rl.runs.checkpoint import Checkpoint, save_checkpoint
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.training_state import TrainingState

EPISODES = 4


@pytest.fixture(autouse=True)
def few_episodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "EPISODES", EPISODES)
    monkeypatch.setattr(report, "EPISODES_ON_THE_WAY", 2)


def evaluated(run: Path, **how: Any) -> ProtocolScores:
    return evaluate_blue(load_blue(run), EPISODES, n_workers=1, horizons=[100], **how)


def cage2_run(path: Path, **env_args: object) -> Path:
    env_args = {"red_agent": "mixed", **env_args}
    run = make_run(path, env=ENV_ID, total_steps=None, env_args=env_args)
    for name in ("best.safetensors", "checkpoint.safetensors"):
        save_run(run / name, **env_args)
    return run


def test_replays_are_the_best_median_and_worst_episodes_of_the_evaluation(tmp_path):
    run = cage2_run(tmp_path / "a run")
    text = page_of(tmp_path, run)
    evaluation = evaluated(run)
    links = re.findall(r'<a href="(report_files/[^"]+)">([^<]+) \(episode (\d+)\)</a>', text)
    assert len(links) == 6
    worst = f"replay &#x27;a run&#x27; --red-agent B_lineAgent --episode {links[2][2]}\n"
    assert f"python -m workflow_rl {worst}" in text
    for cell, three in zip(evaluation.cells, (links[:3], links[3:])):  # noqa: B905 (SleepAgent's)
        returns = sorted(cell.returns, reverse=True)
        expected = [returns[0], returns[EPISODES // 2], returns[-1]]
        for (link, shown, episode), wanted in zip(three, expected, strict=True):
            assert float(shown.replace("−", "-").replace(",", "")) == pytest.approx(wanted)  # noqa: RUF001
            page = tmp_path / link.replace("%20", " ")
            assert_valid(page.read_text())
            (one,) = data_of(page)["recordings"]
            assert (one["red_agent"], one["episode"]) == (cell.red_agent, int(episode))
            assert one["steps"][-1]["total"] == pytest.approx(wanted)
            assert one["agent"] == "a run"
            assert "Every step was compared with csle-cyborg" in page.read_text()


def test_of_many_runs_there_are_three_replays_each(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "MOST_IN_DETAIL", 1)
    runs = [cage2_run(tmp_path / name) for name in ("one", "two")]
    text = page_of(tmp_path, *runs)
    of_one = evaluated(runs[0], red_agents=RED_AGENTS[:2])
    returns = [value for cell in of_one.cells for value in cell.returns]
    links = re.findall(r'<a href="report_files/one-[^"]+">([^ <]+) \((\w+), episode', text)
    shown = [float(value.replace("−", "-").replace(",", "")) for value, _ in links]  # noqa: RUF001
    expected = sorted(returns, reverse=True)
    assert shown == pytest.approx([expected[0], expected[EPISODES], expected[-1]])
    assert len(list((tmp_path / "report_files").iterdir())) == 6


def test_how_often_each_action_is_used(tmp_path):
    run = cage2_run(tmp_path / "run")
    (run / "kept").mkdir()
    save_run(run / "kept" / "000010.safetensors")
    text = page_of(tmp_path, run)
    evaluation = evaluated(run, red_agents=["B_lineAgent"])
    counts = Counter(int(i) for one in evaluation.cells[0].trajectories for i in one.action)
    (table,) = re.findall(
        r"<h4>Uses in an episode against B_lineAgent</h4>(.*?)</table>", text, re.DOTALL
    )
    rows = re.findall(r'<th scope="row">(.*?)</th>(.*?)</tr>', table)
    uses = {name: re.findall(r">([\d.]+)</td>", cells)[-1] for name, cells in rows}
    expected = {ACTION_NAMES[i]: f"{n / EPISODES:.2f}" for i, n in counts.items()}
    assert {name: shown for name, shown in uses.items() if shown != "0.00"} == expected
    for red_agent in RED_AGENTS:
        assert f"<figcaption>Against {red_agent}</figcaption>" in text
    # The heat maps hold the same uses, by host and time.
    maps = next(figure for figure in figures(text) if figure.data[0].type == "heatmap")
    played = np.array([one.action for one in evaluation.cells[0].trajectories])
    for kind in maps.data:
        share = np.array(kind.customdata, dtype=float)
        for row, host in enumerate(kind.y):
            of = [
                i for i, n in enumerate(ACTION_NAMES)
                if (n.startswith("Decoy") and n.endswith(f" {host}") if kind.name == "Decoy"
                    else n == f"{kind.name} {host}" or (host == report.NO_HOST and n == kind.name))
            ]  # fmt: skip
            used = np.isin(played, of).reshape(EPISODES, 20, 5).mean(axis=(0, 2))
            assert share[row] == pytest.approx(100 * used, abs=0.051)
    assert sum(np.array(kind.customdata, float).sum() for kind in maps.data) == pytest.approx(2000)
    assert "Training does not record which actions were used" in text


def test_scores_stand_beside_the_leaderboard(tmp_path):
    run, other = cage2_run(tmp_path / "run"), cage2_run(tmp_path / "other")
    evaluation = evaluate_blue(scripted_blue("sleep"), 2, n_workers=1, horizons=[30, 50, 100])
    digest = {"agent_sha256": sha256_of(run / "best.safetensors")}
    (run / "evaluation.json").write_text(json.dumps({**evaluation.to_dict(), **digest}))
    scores = section(page_of(tmp_path, run, other), "Scores beside the leaderboard")
    cell = evaluation.cells[-2]
    shown = f"100 steps, RedMeanderAgent {cell.mean:,.2f} ± {cell.interval_95:,.2f}"
    assert shown in scores.replace("−", "-")  # noqa: RUF001
    assert f"Total {evaluation.total:,.2f}" in scores.replace("−", "-")  # noqa: RUF001
    assert "not scored yet" in scores
    # They are those of an agent: of no other.
    shutil.copy(run / "evaluation.json", other)
    save_run(other / "best.safetensors", red_agent="B_lineAgent")
    copied = section(page_of(tmp_path, other), "Scores beside the leaderboard")
    assert "Total not scored yet" in copied
    assert f"{TOP_SCORES[0].total:.2f}" in scores.replace("−", "-")  # noqa: RUF001


def test_only_those_it_was_trained_against_and_only_what_can_be_played(tmp_path):
    one = cage2_run(tmp_path / "one", red_agent="RedMeanderAgent")
    page_of(tmp_path, one)
    names = sorted(path.name for path in (tmp_path / "report_files").iterdir())
    assert names == [f"one-RedMeanderAgent-{which}.html" for which in ("best", "median", "worst")]
    shutil.rmtree(tmp_path / "report_files")
    seeing = cage2_run(tmp_path / "seeing", simulator="compiled", observation="true-state")
    empty = make_run(tmp_path / "empty", env=ENV_ID, total_steps=None)
    text = page_of(tmp_path, seeing, empty)
    assert section(text, "Replays") == "No checkpoint that could be played."
    assert not (tmp_path / "report_files").exists()


def test_a_run_on_another_environment_beside_it(tmp_path):
    text = page_of(tmp_path, cage2_run(tmp_path / "one"), make_run(tmp_path / "other"))
    assert "other not scored yet" in section(text, "Scores")
    assert "one" in section(text, "What Blue does")
    assert "other" not in section(text, "What Blue does")


def test_a_damaged_checkpoint_is_one_line(tmp_path):
    run = cage2_run(tmp_path / "run")
    (run / "best.safetensors").write_bytes(b"nothing")
    words = ("report", run, "--output", tmp_path / "report.html")
    assert "best.safetensors is damaged" in output_of(*words, code=2)
    assert not (tmp_path / "report.html").exists()
    config = TrainConfig("async", env="CartPole-v1", settings=PPOConfig(hidden_sizes=(8,)))
    agent = PPOAgent(config.settings, config.environment.spaces(), seed=1)
    other = Checkpoint(config.to_dict(), agent.state_dict(), TrainingState())
    save_checkpoint(run / "best.safetensors", other)
    said = output_of(*words, code=2)
    assert "best.safetensors was trained on CartPole-v1, not on CAGE-2" in said


@pytest.mark.parametrize("name", ["n" * 250, "\udcff#%", "é" * 120])
def test_replays_of_a_run_of_any_name(name, tmp_path):
    text = page_of(tmp_path, cage2_run(tmp_path / name, red_agent="B_lineAgent"))
    links = re.findall(r'<a href="report_files/([^"]+)">', text)
    assert len(links) == 3
    assert {unquote(link) for link in links} == {
        path.name for path in (tmp_path / "report_files").iterdir()
    }


def test_no_two_runs_have_the_same_replays(tmp_path):
    """Their names differ by what no file name may have."""
    runs = [cage2_run(tmp_path / name / "run", red_agent="B_lineAgent") for name in ("a/b", "a-b")]
    text = page_of(tmp_path, *runs)
    links = re.findall(r'<a href="report_files/([^"]+)">', text)
    assert len(links) == len(set(links)) == 6
    shown = [data_of(tmp_path / "report_files" / link)["recordings"][0]["agent"] for link in links]
    assert shown == ["a/b/run"] * 3 + ["a-b/run"] * 3
