"""Options that both challenges have, and the commands on CAGE-4."""

import json
import os
from pathlib import Path

from tests.cli import call, refused, said_by
from tests.workflow_rl.cage4.conftest import checkout as checkout

CAGE4 = "--env workflow_rl/CAGE4-v0"


def shown(options: str = "") -> dict[str, str]:
    lines = said_by("train-async --dry-run", options).splitlines()
    return dict(line.rpartition("  # ")[0].split(": ", 1) for line in lines if ": " in line)


def test_an_option_of_both_has_the_default_of_the_environment():
    assert shown()["max_steps"] == "100"
    assert shown(CAGE4)["max_steps"] == "500"
    assert shown(CAGE4)["simulator"] == "compiled"
    assert shown(f"{CAGE4} --max-steps 50")["max_steps"] == "50"


def test_a_preset_names_its_environment():
    config = shown("--preset cage4-quick")
    assert config["env"] == "workflow_rl/CAGE4-v0"
    assert config["observation"] == "belief"


def test_a_checkout_is_named_for_the_workers(monkeypatch):
    monkeypatch.setenv("WORKFLOW_RL_CYBORG4", "before")
    config = shown(f"{CAGE4} --cyborg4 checkout")
    assert os.environ["WORKFLOW_RL_CYBORG4"] == str(Path("checkout").absolute())
    assert "checkout" not in "".join(config.values())


def test_scripted_teams_are_scored_by_the_challenges_evaluation(tmp_path):
    played = f"{CAGE4} --episodes 2 --max-steps 6 --seed 3 --quiet"
    written = ["--json", tmp_path / "scores.json", "--output-dir", tmp_path / "official"]
    said = said_by("evaluate rules", played, *written)
    assert "2 episodes of one stream with seed 3, 6 steps" in said
    assert len(json.loads((tmp_path / "scores.json").read_text())["totals"]) == 2
    assert (tmp_path / "official" / "scores.txt").read_text().startswith("reward_mean: ")
    again = said_by("evaluate --agent rules", played)
    assert again.splitlines()[0] == said.splitlines()[0]


def test_check_env_makes_a_team():
    assert "gymnasium     ok" in said_by("check-env workflow_rl/CAGE4-v0 --steps 20")


def test_help_shows_the_defaults_that_an_environment_changes():
    shown = " ".join(said_by("train-async", CAGE4, "--help-all").split())
    assert "Factor on the rewards that the critic learns from. [default: (0.01); x>0]" in shown


def test_episodes_are_compared_with_the_published_simulator_and_remembered(checkout, tmp_path):
    pair = "--blue restores --red-agent FiniteStateRedAgent --max-steps 20 --episodes 2"
    record = ["--n-workers 1 --quiet --record", tmp_path / "record.jsonl"]
    for _ in range(2):
        said = said_by("parity", CAGE4, pair, *record)
        assert "2 episodes, 40 steps, 0 differences" in said
    assert len((tmp_path / "record.jsonl").read_text().splitlines()) == 2


def test_the_published_simulator_is_needed_to_compare(monkeypatch, tmp_path):
    monkeypatch.setenv("WORKFLOW_RL_CYBORG4", "")
    refused(call("parity", CAGE4, "--cyborg4", tmp_path), "holds no CybORG/env.py")
