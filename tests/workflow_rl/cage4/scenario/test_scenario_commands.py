import json
import re
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.cli import output_of
from tests.workflow_rl.cage2.scoring.test_replay import data_of
from tests.workflow_rl.reporting.test_report import figures
from workflow_rl.cage4.agent.blue_team import SingleTeam
from workflow_rl.cage4.agent.scripted import make_scripted_team
from workflow_rl.cage4.compiled.simulator import CompiledSimulator
from workflow_rl.cage4.env.environment import Cage4
from workflow_rl.cage4.scenario.scenario4 import RED_AGENTS, Scenario
from workflow_rl.cage4.scoring import report
from workflow_rl.cage4.scoring.protocol import Author, evaluated_episodes, play_protocol
from workflow_rl.cage4.scoring.replays import Cage4Replays
from workflow_rl.cage4.scoring.scoring import Cage4Scoring

ENV = ("--env", "workflow_rl/CAGE4-v0")
STEPS = 60
SCENARIO = Scenario(phishing_rate=0.75, users=4)
GIVEN = ("--phishing-rate", "0.75", "--users", "4")
TINY = (
    *("--episodes-per-update", "2", "--n-envs", "2", "--n-workers", "1"),
    *("--max-steps", "12", "--hidden-sizes", "4", "--quiet"),
)


@pytest.fixture(scope="module")
def totals() -> list[int]:
    """Of two episodes with rules."""
    team, author = make_scripted_team("rules"), Author("", "", "")
    return play_protocol(team, author, episodes=2, steps=STEPS, scenario=SCENARIO).totals


def test_evaluate_plays_it_and_says_so(tmp_path: Path, totals: list[int]) -> None:
    path = tmp_path / "scores.json"
    counts = ("--episodes", "2", "--max-steps", str(STEPS))
    said = output_of("evaluate", "rules", *ENV, *GIVEN, *counts, "--json", path)
    assert "Changed from the challenge: phishing rate 0.75, users 4." in said
    assert "UC, 1st place" not in said
    scores = json.loads(path.read_text())
    assert scores["totals"] == totals
    assert scores["scenario"] == asdict(SCENARIO)


def test_replay_shows_the_evaluations_episode(tmp_path: Path, totals: list[int]) -> None:
    page = tmp_path / "replay.html"
    given = ("--max-steps", str(STEPS), "--episode", "1", "--output", page)
    output_of("replay", "rules", *ENV, *GIVEN, *given)
    (recording,) = data_of(page)["recordings"]
    assert recording["steps"][-1]["total"] == totals[1]
    assert "against FiniteStateRedAgent (phishing rate 0.75, users 4)" in page.read_text()


def test_parity_compares_it(checkout: Path, tmp_path: Path) -> None:
    record = tmp_path / "record.jsonl"
    given = ("--episodes", "1", "--blue", "random", "--red-agent", "FiniteStateRedAgent")
    counts = ("--max-steps", "30", "--n-workers", "1", "--record", record)
    said = output_of("parity", *ENV, *GIVEN, *given, *counts)
    assert "1 episodes, 30 steps, 0 differences" in said
    assert json.loads(record.read_text())["scenario"] == asdict(SCENARIO)


@pytest.fixture(autouse=True)
def short_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "EPISODES", 2)
    monkeypatch.setattr(report, "STEPS", 12)


def test_a_run_names_it_and_is_scored_in_it(tmp_path: Path) -> None:
    path = tmp_path / "run"
    scored = ("--total-episodes", "2", "--final-evaluation", "1", "--run-dir", path)
    said = output_of("train-async", *ENV, *GIVEN, *TINY, *scored)
    assert Scenario.among(json.loads((path / "config.json").read_text())) == SCENARIO
    assert json.loads((path / "evaluation.json").read_text())["scenario"] == asdict(SCENARIO)
    assert "For comparison" not in said
    assert "learned in another scenario" not in said
    told = "learned in another scenario: phishing rate 0.75, users 4."
    assert told in output_of("evaluate", path, "--episodes", "1")
    output_of("report", path, "--output", tmp_path / "report.html")
    given = ("--max-steps", "12", "--output", tmp_path / "replay.html")
    assert told in output_of("replay", path, *given)
    assert "learned" not in output_of("replay", path, *given, *GIVEN)
    # What Blue does, by the report.
    page = (tmp_path / "report.html").read_text()
    team = SingleTeam(Cage4Replays().load(path, None, None).make(1))
    played = list(evaluated_episodes(team, CompiledSimulator(RED_AGENTS[1], 12), 2, 0))
    worst = min(range(2), key=lambda number: played[number].total)
    assert f"replay run --red-agent {RED_AGENTS[1]} --episode {worst}" in page
    maps = [figure for figure in figures(page) if figure.data[0].type == "heatmap"]
    assert len(maps) == 3
    shown = {(kind.name, y): sum(map(float, row)) for kind in maps[1].data
             for y, row in zip(kind.y, kind.customdata, strict=True)}  # fmt: skip
    taken = [(agent, words) for one in played for step in one.actions
             for agent, words in step.items() if words != "Sleep"]  # fmt: skip
    assert sum(shown.values()) == pytest.approx(100 * len(taken) / 2)
    on_servers = [words for _, words in taken if words.startswith("Analyse operational_zone_a")
                  and "server" in words]  # fmt: skip
    of_kind = shown.get(("Analyse", "Operational A, servers"), 0)
    assert of_kind == pytest.approx(100 * len(on_servers) / 2)
    monitors = taken.count(("blue_agent_0", "Monitor"))
    assert shown.get(("Monitor", "blue_agent_0"), 0) == pytest.approx(100 * monitors / 2)


def test_a_run_in_several_scenarios_is_scored_in_each(tmp_path: Path) -> None:
    names = ["challenge", "more-phishing"]
    given = [word for name in names for word in ("--scenarios", name)]
    path = tmp_path / "run"
    scored = ("--total-episodes", "4", "--final-evaluation", "2", "--run-dir", path)
    said = output_of("train-async", *ENV, *given, *TINY, *scored)
    assert "mean total reward of 4 episodes" in said
    assert "evaluation in 2 scenarios on compiled" in said
    scores = json.loads((path / "evaluation.json").read_text())
    assert list(scores["scenarios"]) == names
    parts = list(scores["scenarios"].values())
    assert [part["scenario"]["phishing_rate"] for part in parts] == [0.01, 0.75]
    assert scores["totals"] == scores["returns"] == parts[0]["totals"] + parts[1]["totals"]
    assert scores["mean"] == pytest.approx((parts[0]["mean"] + parts[1]["mean"]) / 2)
    output_of("train-async", "--resume", path, "--total-episodes", "6", "--quiet")
    output_of("report", path, "--output", tmp_path / "report.html")
    evaluate = ("evaluate", path, "--episodes", "2", "--max-steps", "12")
    said = output_of(*evaluate)
    assert "learned in several scenarios: challenge, more-phishing." in said
    files = ("--output-dir", tmp_path / "files", "--json", tmp_path / "scores.json")
    said = output_of(*evaluate, *given, *files)
    assert re.search("(best.safetensors|run), more-phishing", said)
    assert "learned" not in said
    again = json.loads((tmp_path / "scores.json").read_text())
    assert [len(part["totals"]) for part in again["scenarios"].values()] == [2, 2]
    assert sorted(folder.name for folder in (tmp_path / "files").iterdir()) == names


def test_a_name_does_not_go_with_values() -> None:
    given = ("--scenarios", "more-phishing", "--users", "4")
    said = output_of("evaluate", "rules", *ENV, *given, code=2)
    assert "--scenarios: have values of their own: leave out users 4" in said


def test_its_scores_are_not_the_agents_own() -> None:
    scoring = Cage4Scoring()
    args = Cage4(longest_red_action=1).args
    settings = scoring.settings_for(args)
    assert settings.longest_red_action == 1
    assert not scoring.is_whole(settings)
    assert scoring.is_whole(settings.changed(longest_red_action=4))
    for reds, scored in (("DiscoveryFSRed=1", "DiscoveryFSRed"), ("runs/red", RED_AGENTS[0])):
        assert scoring.settings_for(Cage4(red_agent=reds).args).red_agent == (scored,)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--phishing-rate", "-0.1"),
        ("--false-alert-rate", "2"),
        ("--aggressive-scan-detection", "nan"),
        ("--stealth-scan-detection", "1.5"),
        ("--longest-red-action", "0"),
        ("--users", "11"),
        ("--servers", "0"),
    ],
)
@pytest.mark.parametrize("command", ["train-async", "evaluate", "replay", "parity"])
def test_a_value_out_of_range_is_one_line(command: str, option: str, value: str) -> None:
    agent = ["rules"] if command in ("evaluate", "replay") else []
    said = output_of(command, *agent, *ENV, option, value, code=2)
    assert said.count("Error: ") == 1
    assert f"for '{option}'" in said
