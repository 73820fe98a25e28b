"""Scenario files on the command line: described, trained on, scored, and damaged."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from workflow_rl.cage2.scenario.family import ScenarioFamily
from workflow_rl.cage2.scenario.files import write_scenario
from workflow_rl.cage2.scenario.loading import scenario_of
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scoring import report
from workflow_rl.cage2.scoring.report import sections
from workflow_rl.commands.main import main

FAMILY = "networks: 3\nhosts: {User: [3, 6]}\n"


@pytest.fixture
def office(tmp_path: Path) -> Path:
    path = tmp_path / "office.yaml"
    write_scenario(Scenario.scenario2().add_host("Web0", "OP_Server", "Enterprise"), path)
    return path


def invoke(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


def refused(*words: object) -> str:
    """Return the one line that a command says before it ends with exit code 2."""
    result = invoke(*words)
    assert result.exit_code == 2, result.output
    return result.output.strip().splitlines()[-1]


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


def test_a_family_is_described_and_its_networks(tmp_path: Path):
    path = tmp_path / "offices.yaml"
    path.write_text(FAMILY)
    assert "3 networks like scenario2" in invoke("describe-scenario", path).output
    assert "offices-7 " in invoke("describe-scenario", path, "--draw", 7).output
    assert "--draw" in refused("describe-scenario", path, "--json", tmp_path / "x.json")
    assert "goes with a family" in refused("describe-scenario", "scenario2", "--draw", 1)
    words = ("train-sync", "--scenario", path, "--run-dir", tmp_path / "run")
    assert "choose compiled" in refused(*words, "--simulator", "cyborg")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "command",
    ["describe-scenario {}", "train-sync --scenario {}", "evaluate sleep --scenario {}",
     "train-duel --scenario {}"],
)  # fmt: skip
def test_a_damaged_file_ends_each_command(command: str, office: Path):
    office.write_text(office.read_text().replace("image: OP_Server", "image: Server", 1))
    line = refused(*command.format(office).split())
    assert "office.yaml:" in line
    assert "there is no image Server" in line


def test_what_is_made_for_scenario2_says_so(office: Path, tmp_path: Path):
    train = ("train-sync", "--scenario", office, "--run-dir", tmp_path / "run")
    assert "choose table" in refused(*train, "--observation", "belief")
    assert "choose all" in refused(*train, "--actions", "by-host-timed")
    moved = scenario_of(office).enter_at("User2")
    write_scenario(moved, office)
    assert "RedMeanderAgent or SleepAgent" in refused(*train)


def test_red_learns_in_one_network(tmp_path: Path):
    path = tmp_path / "offices.yaml"
    path.write_text(FAMILY)
    for command in (
        "train-duel --simulator compiled",
        "exploit any-network --simulator compiled",
        "train-sync --env workflow_rl/CAGE2-red-v0",
    ):
        line = refused(*command.split(), "--scenario", path, "--run-dir", tmp_path / "run")
        assert "is a family, and Red learns in one network" in line


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


def test_no_other_agent_teaches_in_a_family(tmp_path: Path):
    path = tmp_path / "offices.yaml"
    path.write_text(FAMILY)
    words = ("train-sync", "--scenario", path, "--simulator", "compiled", "--teacher", "decoys")
    assert "plays one scenario, and offices" in refused(*words, "--run-dir", tmp_path / "run")


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


def test_a_report_shows_scenarios_and_families(office: Path, tmp_path: Path):
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
