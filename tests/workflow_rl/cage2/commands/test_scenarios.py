"""Scenario files on the command line: described, trained on, scored, and damaged."""

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.cli import output_of
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage2.scenario.family import ScenarioFamily
from workflow_rl.cage2.scenario.files import write_scenario
from workflow_rl.cage2.scenario.loading import scenario_of
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scoring import report
from workflow_rl.cage2.scoring.report import sections

OFFICE = Scenario.scenario2().add_host("Web0", "OP_Server", "Enterprise")
RED = "tests.own_reds:Restless"
ALONE = "is a family, and Red learns in one network"
NOT_OWN = "cannot play in a family: choose"
DAMAGED = "damaged.yaml:.*there is no image Server"


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


def refused(*words: object) -> str:
    """Return the one line that a command says before it ends with exit code 2."""
    return output_of(*words, code=2).strip().splitlines()[-1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("train-async --dry-run --scenario senario2", "Did you mean scenario2"),
        ("evaluate champion --scenario senario2", "Did you mean scenario2"),
        # A damaged file ends each command.
        ("describe-scenario damaged.yaml", DAMAGED),
        ("train-sync --scenario damaged.yaml", DAMAGED),
        ("evaluate sleep --scenario damaged.yaml", DAMAGED),
        ("train-duel --scenario damaged.yaml", DAMAGED),
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
        (f"train-sync --scenario offices.yaml --red-agent {RED}", NOT_OWN),
        (f"evaluate any-network --scenario offices.yaml --red-agent {RED}", NOT_OWN),
        ("train-duel --scenario offices.yaml", ALONE),
        ("exploit any-network --scenario offices.yaml --run-dir run", ALONE),
        ("train-sync --env workflow_rl/CAGE2-red-v0 --scenario offices.yaml", ALONE),
        ("train-sync --scenario offices.yaml --teacher decoys", "plays one scenario, and offices"),
    ],
)
def test_a_mistake_is_one_line(words, message, office, offices, monkeypatch):
    monkeypatch.chdir(office.parent)
    damaged = office.read_text().replace("image: OP_Server", "image: Server", 1)
    office.with_name("damaged.yaml").write_text(damaged)
    write_scenario(OFFICE.enter_at("User2"), office.with_name("moved.yaml"))
    there = {path: path.read_bytes() for path in office.parent.glob("*.yaml")}
    assert re.search(message, refused(*words.split()))
    assert {path: path.read_bytes() for path in office.parent.glob("*.yaml")} == there
    assert not (office.parent / "run").exists()


def test_a_scenario_is_described_drawn_and_written(tmp_path):
    outputs = {kind: tmp_path / f"office.{kind}" for kind in ("yaml", "json", "svg")}
    words = ("--write", outputs["yaml"], "--json", outputs["json"], "--picture", outputs["svg"])
    said = output_of("describe-scenario", "scenario2", *words)
    assert "13 hosts in 3 subnets" in said
    assert "B_lineAgent: plays" in said
    facts = json.loads(outputs["json"].read_text())
    assert facts["hosts"]["User1"]["leads_to"] == ["Enterprise1"]
    of_red = {"found_from": ["Enterprise"], "exploits": [], "is_held": False}
    assert facts["hosts"]["Defender"]["red"] == of_red
    assert outputs["svg"].read_text().lstrip().startswith("<?xml")
    assert scenario_of(outputs["yaml"]).is_scenario2


def test_a_family_is_described_and_its_networks(offices):
    assert "3 networks like scenario2" in output_of("describe-scenario", offices)
    assert "offices-7 " in output_of("describe-scenario", offices, "--draw", 7)


EXPLOIT = (
    *("--simulator", "compiled", "--max-steps", 10, "--n-workers", 1, "--quiet"),
    *("--total-episodes", 4, "--episodes-per-update", 4, "--n-envs", 4, "--n-policies", 1),
    *("--selection-episodes", 2, "--episodes", 2),
)


def test_the_weakest_point_of_any_network_in_an_office(office, tmp_path):
    red = tmp_path / "red"
    asked = ("exploit", "any-network", "--scenario", office, *EXPLOIT, "--run-dir", red)
    assert "B_lineAgent (minus Blue)" in output_of(*asked)
    words = ("--side", "Red", "--scenario", office, *EXPLOIT)
    said = output_of("exploit", red, *words, "--run-dir", tmp_path / "blue")
    assert "minus Red" not in said  # The champion plays Scenario 2's hosts alone.
    write_scenario(scenario_of(office).change_host("Web0", confidentiality="High"), office)
    assert "holds other attackers, which differ in scenario" in refused(*asked)


def test_the_weakest_point_of_the_champion_among_other_links(tmp_path):
    """It sees its belief of Scenario 2, which envs of other scenarios do not show."""
    write_scenario(
        Scenario.scenario2().change_host("User1", leads_to=["Enterprise0"]), tmp_path / "of.yaml"
    )
    words = ("--scenario", tmp_path / "of.yaml", *EXPLOIT, "--run-dir", tmp_path / "run")
    assert "B_lineAgent (minus Blue)" in output_of("exploit", "champion", *words)


def test_a_duel_in_an_office_does_not_print_the_office(office, tmp_path):
    sizes = (*EXPLOIT[:7], "--total-episodes", 4, "--episodes-per-update", 4, "--n-envs", 4)
    sizes += ("--payoff-episodes", 2, "--generations", 1, "--run-dir", tmp_path / "duel")
    said = output_of("train-duel", "--scenario", office, "--start", "Blue=any-network", *sizes)
    assert "scenario=FILE" in said.splitlines()[-1]
    others = refused("train-duel", "--start", "Blue=any-network", *sizes)
    assert "is a duel with scenario office" in others
    assert len(others) < 500


def test_a_run_keeps_its_scenario(office, tmp_path, monkeypatch):
    run = tmp_path / "run"
    small = ("--max-steps", 5, "--n-envs", 1, "--quiet")
    options = ("--total-episodes", 4, "--episodes-per-update", 4, *small)
    output_of("train-sync", "--scenario", office, "--run-dir", run, *options)
    kept = json.loads((run / "config.json").read_text())["scenario"]
    assert kept == scenario_of(office).text
    write_scenario(scenario_of(office).change_host("Web0", confidentiality="High"), office)
    again = ("train-sync", "--resume", run, "--total-episodes", 8, "--quiet")
    assert "the run to resume has office " in refused(*again, "--scenario", office)
    office.unlink()
    output_of(*again)
    scored = ("--episodes", 2, "--max-steps", 5, "--n-workers", 1, "--quiet")
    said = output_of("evaluate", run, *scored)
    assert "in office " in said
    assert "winner" not in said
    assert "has other hosts" in refused("evaluate", run, "--scenario", "scenario2", *scored)
    page = tmp_path / "replay.html"
    output_of("replay", run, "--output", page)
    assert "The network: office " in page.read_text()
    monkeypatch.setattr(report, "EPISODES", 2)
    output_of("report", run, "--output", tmp_path / "report.html")
    assert "Against RedMeanderAgent: percentage" in (tmp_path / "report.html").read_text()
    assert "The network: office " in next((tmp_path / "report_files").iterdir()).read_text()
    assert "has other hosts" in refused("replay", run, "--scenario", "scenario2")


def test_a_report_shows_scenarios_and_families(office, tmp_path, monkeypatch):
    own = SimpleNamespace(environment=Cage2())
    monkeypatch.setattr("workflow_rl.cage2.scoring.report.read_config", lambda path: own)
    family = ScenarioFamily.from_ranges({"networks": 2, "hosts": {"User": [3, 5]}})
    runs: list[Any] = []
    for text in (scenario_of(office).text, family.text):
        name, config = f"run{len(runs)}", {"scenario": text, "red_agent": "B_lineAgent"}
        path = tmp_path / name
        runs.append(SimpleNamespace(name=name, path=path, config=config, evaluation=None))
    network, drawn, *_ = sections(runs, tmp_path)
    assert network.title.startswith("In office ")
    assert drawn.title == f"In {family}"
    assert "2 networks like scenario2" in str(drawn)
