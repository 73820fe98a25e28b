"""Scenario files on the command line: described, trained on, scored, and damaged."""

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage2.scenario.family import ScenarioFamily
from workflow_rl.cage2.scenario.files import write_scenario
from workflow_rl.cage2.scenario.loading import scenario_of
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scoring import report
from workflow_rl.cage2.scoring.report import sections
from workflow_rl.commands.main import main

OFFICE = Scenario.scenario2().add_host("Web0", "OP_Server", "Enterprise")
RED = "tests.own_reds:Restless"
ALONE = "is a family, and Red learns in one network"


@pytest.fixture
def office(tmp_path: Path) -> Path:
    path = tmp_path / "office.yaml"
    write_scenario(OFFICE, path)
    return path


@pytest.fixture
def offices(tmp_path: Path) -> Path:
    """A family."""
    path = tmp_path / "offices.yaml"
    path.write_text("networks: 3\nhosts: {User: [3, 6]}\n")
    return path


def invoke(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


def refused(*words: object) -> str:
    """Return the one line that a command says before it ends with exit code 2."""
    result = invoke(*words)
    assert result.exit_code == 2, result.output
    return result.output.strip().splitlines()[-1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("train-async --dry-run --scenario senario2", "Did you mean scenario2"),
        ("evaluate champion --scenario senario2", "Did you mean scenario2"),
        # A damaged file ends each command.
        *(
            (f"{command} damaged.yaml", "damaged.yaml:.*there is no image Server")
            for command in (
                "describe-scenario",
                *("train-sync --scenario", "evaluate sleep --scenario", "train-duel --scenario"),
            )
        ),
        # A file of the user's is not overwritten.
        ("describe-scenario scenario2 --write office.yaml", "exists already"),
        ("describe-scenario offices.yaml --json x.json", "--draw"),
        ("describe-scenario scenario2 --draw 1", "goes with a family"),
        # What CybORG cannot play.
        ("train-sync --scenario offices.yaml --simulator cyborg", "choose compiled"),
        ("evaluate any-network --simulator cyborg", "--simulator.*plays one scenario"),
        ("evaluate champion1b --simulator cyborg", "--simulator.*CAGE-1's package"),
        # What is made for Scenario 2.
        ("train-sync --scenario office.yaml --observation belief", "choose table"),
        ("train-sync --scenario office.yaml --actions by-host-timed", "choose all"),
        ("train-sync --scenario moved.yaml", "choose RedMeanderAgent or SleepAgent"),
        ("evaluate sleep --scenario moved.yaml --red-agent B_lineAgent", "or SleepAgent"),
        ("replay sleep --scenario moved.yaml --red-agent B_lineAgent", "or SleepAgent"),
        # What a family lacks.
        (f"train-sync --scenario offices.yaml --red-agent {RED}", "of your own: families have"),
        (
            f"evaluate any-network --scenario offices.yaml --red-agent {RED}",
            "of your own: families have",
        ),
        ("train-duel --scenario offices.yaml", ALONE),
        ("exploit any-network --scenario offices.yaml --run-dir run", ALONE),
        ("train-sync --env workflow_rl/CAGE2-red-v0 --scenario offices.yaml", ALONE),
        ("train-sync --scenario offices.yaml --teacher decoys", "plays one scenario, and offices"),
    ],
)
def test_a_mistake_is_one_line(
    words: str, message: str, office: Path, offices: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(office.parent)
    damaged = office.read_text().replace("image: OP_Server", "image: Server", 1)
    office.with_name("damaged.yaml").write_text(damaged)
    write_scenario(OFFICE.enter_at("User2"), office.with_name("moved.yaml"))
    there = {path: path.read_bytes() for path in office.parent.glob("*.yaml")}
    assert re.search(message, refused(*words.split()))
    assert {path: path.read_bytes() for path in office.parent.glob("*.yaml")} == there
    assert not (office.parent / "run").exists()


def test_a_scenario_is_described_drawn_and_written(tmp_path: Path):
    outputs = {kind: tmp_path / f"office.{kind}" for kind in ("yaml", "json", "svg")}
    words = ("--write", outputs["yaml"], "--json", outputs["json"], "--picture", outputs["svg"])
    result = invoke("describe-scenario", "scenario2", *words)
    assert result.exit_code == 0, result.output
    assert "13 hosts in 3 subnets" in result.output
    assert "B_lineAgent: plays" in result.output
    facts = json.loads(outputs["json"].read_text())
    assert facts["hosts"]["User1"]["leads_to"] == ["Enterprise1"]
    assert facts["hosts"]["Defender"]["red"] == {
        "found_from": ["Enterprise"], "exploits": [], "is_held": False
    }  # fmt: skip
    assert outputs["svg"].read_text().lstrip().startswith("<?xml")
    assert scenario_of(outputs["yaml"]).is_scenario2


def test_a_family_is_described_and_its_networks(offices: Path):
    assert "3 networks like scenario2" in invoke("describe-scenario", offices).output
    assert "offices-7 " in invoke("describe-scenario", offices, "--draw", 7).output


EXPLOIT = (
    *("--simulator", "compiled", "--max-steps", 10, "--n-workers", 1, "--quiet"),
    *("--total-episodes", 4, "--episodes-per-update", 4, "--n-envs", 4, "--n-policies", 1),
    *("--selection-episodes", 2, "--episodes", 2),
)


def test_the_weakest_point_of_any_network_in_an_office(office: Path, tmp_path: Path):
    red = tmp_path / "red"
    result = invoke("exploit", "any-network", "--scenario", office, *EXPLOIT, "--run-dir", red)
    assert result.exit_code == 0, result.output
    assert "B_lineAgent (minus Blue)" in result.output
    words = ("--side", "Red", "--scenario", office, *EXPLOIT)
    result = invoke("exploit", red, *words, "--run-dir", tmp_path / "blue")
    assert result.exit_code == 0, result.output
    assert "minus Red" not in result.output  # The champion plays Scenario 2's hosts alone.
    write_scenario(scenario_of(office).change_host("Web0", confidentiality="High"), office)
    again = refused("exploit", "any-network", "--scenario", office, *EXPLOIT, "--run-dir", red)
    assert "holds other attackers, which differ in scenario" in again


def test_the_weakest_point_of_the_champion_among_other_links(tmp_path: Path):
    """It sees its belief of Scenario 2, which envs of other scenarios do not show."""
    write_scenario(
        Scenario.scenario2().change_host("User1", leads_to=["Enterprise0"]), tmp_path / "of.yaml"
    )
    words = ("--scenario", tmp_path / "of.yaml", *EXPLOIT, "--run-dir", tmp_path / "run")
    result = invoke("exploit", "champion", *words)
    assert result.exit_code == 0, result.output
    assert "B_lineAgent (minus Blue)" in result.output


def test_a_duel_in_an_office_does_not_print_the_office(office: Path, tmp_path: Path):
    sizes = (*EXPLOIT[:7], "--total-episodes", 4, "--episodes-per-update", 4, "--n-envs", 4)
    sizes += ("--payoff-episodes", 2, "--generations", 1, "--run-dir", tmp_path / "duel")
    result = invoke("train-duel", "--scenario", office, "--start", "Blue=any-network", *sizes)
    assert result.exit_code == 0, result.output
    assert "scenario=FILE" in result.output.splitlines()[-1]
    others = refused("train-duel", "--start", "Blue=any-network", *sizes)
    assert "is a duel with scenario office" in others
    assert len(others) < 500


def test_a_run_keeps_its_scenario(office: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    run = tmp_path / "run"
    small = ("--max-steps", 5, "--n-envs", 1, "--quiet")
    options = ("--total-episodes", 4, "--episodes-per-update", 4, *small)
    assert invoke("train-sync", "--scenario", office, "--run-dir", run, *options).exit_code == 0
    kept = json.loads((run / "config.json").read_text())["scenario"]
    assert kept == scenario_of(office).text
    write_scenario(scenario_of(office).change_host("Web0", confidentiality="High"), office)
    again = ("train-sync", "--resume", run, "--total-episodes", 8, "--quiet")
    assert "the run to resume has office " in refused(*again, "--scenario", office)
    office.unlink()
    assert invoke(*again).exit_code == 0
    scored = ("--episodes", 2, "--max-steps", 5, "--n-workers", 1, "--quiet")
    result = invoke("evaluate", run, *scored)
    assert result.exit_code == 0, result.output
    assert "in office " in result.output
    assert "winner" not in result.output
    assert "has other hosts" in refused("evaluate", run, "--scenario", "scenario2", *scored)
    page = tmp_path / "replay.html"
    assert invoke("replay", run, "--output", page).exit_code == 0
    assert "The network: office " in page.read_text()
    monkeypatch.setattr(report, "EPISODES", 2)
    assert invoke("report", run, "--output", tmp_path / "report.html").exit_code == 0
    assert "Against RedMeanderAgent: percentage" in (tmp_path / "report.html").read_text()
    assert "The network: office " in next((tmp_path / "report_files").iterdir()).read_text()
    assert "has other hosts" in refused("replay", run, "--scenario", "scenario2")


def test_a_report_shows_scenarios_and_families(
    office: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    own = SimpleNamespace(environment=Cage2())
    monkeypatch.setattr("workflow_rl.cage2.scoring.report.read_config", lambda path: own)
    family = ScenarioFamily.from_ranges({"networks": 2, "hosts": {"User": [3, 5]}})
    texts = [scenario_of(office).text, family.text]
    runs: list[Any] = [
        SimpleNamespace(
            name=f"run{number}",
            path=tmp_path / f"run{number}",
            config={"scenario": text, "red_agent": "B_lineAgent"},
            evaluation=None,
        )
        for number, text in enumerate(texts)
    ]
    network, drawn, *_ = sections(runs, tmp_path)
    assert network.title.startswith("In office ")
    assert drawn.title == f"In {family}"
    assert "2 networks like scenario2" in str(drawn)
