"""Options that both challenges have, and the commands on CAGE-4."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.workflow_rl.commands.any_env_commands import invoke as run_command
from workflow_rl.commands.main import main

CAGE4 = ("--env", "workflow_rl/CAGE4-v0")


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def shown(*arguments: str) -> dict[str, str]:
    result = invoke("train-async", "--dry-run", *arguments)
    assert result.exit_code == 0, result.output
    lines = [line.rpartition("  # ")[0] for line in result.output.splitlines()]
    return dict(line.split(": ", 1) for line in lines if ": " in line)


def test_an_option_of_both_has_the_default_of_the_environment() -> None:
    assert shown()["max_steps"] == "100"
    assert shown(*CAGE4)["max_steps"] == "500"
    assert shown(*CAGE4)["simulator"] == "compiled"
    assert shown(*CAGE4, "--max-steps", "50")["max_steps"] == "50"


def test_a_preset_names_its_environment() -> None:
    config = shown("--preset", "cage4-quick")
    assert config["env"] == "workflow_rl/CAGE4-v0"
    assert config["observation"] == "belief"


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (
            [*CAGE4, "--red-agent", "B_lineAgent"],
            "'B_lineAgent' is no red agent: choose Finite",
        ),
        ([*CAGE4, "--simulator", "cyborg"], "Invalid value for --simulator: CybORG 4 is needed"),
        (["--red-agent", "DiscoveryFSRed"], "'DiscoveryFSRed' is no red agent: choose B_lineAgent"),
        (
            [*CAGE4, "--opening", "Sleep"],
            "--opening does not apply to workflow_rl/CAGE4-v0 and",
        ),
        (
            ["--env", "CartPole-v1", "--max-steps", "9"],
            "--env workflow_rl/CAGE2-v0, --env w",
        ),
    ],
)
def test_what_cannot_be_is_refused(
    options: list[str], error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WORKFLOW_RL_CYBORG4", raising=False)
    result = invoke("train-async", *options)
    assert result.exit_code == 2
    assert error in result.output.splitlines()[-1]


def test_a_checkout_is_named_for_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKFLOW_RL_CYBORG4", "before")
    config = shown(*CAGE4, "--cyborg4", "checkout")
    assert os.environ["WORKFLOW_RL_CYBORG4"] == str(Path("checkout").absolute())
    assert "checkout" not in "".join(config.values())


def test_scripted_teams_are_scored_by_the_challenges_evaluation(tmp_path: Path) -> None:
    played = ("--episodes", "2", "--max-steps", "6", "--seed", "3", "--quiet")
    written = ("--json", str(tmp_path / "scores.json"), "--output-dir", str(tmp_path / "official"))
    result = invoke("evaluate", "rules", *CAGE4, *played, *written)
    assert result.exit_code == 0, result.output
    assert "2 episodes of one stream with seed 3, 6 steps" in result.output
    scores = json.loads((tmp_path / "scores.json").read_text())
    assert len(scores["totals"]) == 2
    assert (tmp_path / "official" / "scores.txt").read_text().startswith("reward_mean: ")
    again = invoke("evaluate", "--agent", "rules", *CAGE4, *played)
    assert again.output.splitlines()[0] == result.output.splitlines()[0]


def test_a_team_of_another_challenge_is_refused() -> None:
    result = invoke("evaluate", "--agent", "react-remove", *CAGE4)
    assert result.exit_code == 2
    assert "'react-remove' is not one of 'sleep', 'random'" in result.output


def test_check_env_makes_a_team() -> None:
    result = invoke("check-env", "workflow_rl/CAGE4-v0", "--steps", "20")
    assert result.exit_code == 0, result.output
    assert "gymnasium     ok" in result.output


def test_help_shows_the_defaults_that_an_environment_changes() -> None:
    helped = run_command("train-async", "--env", "workflow_rl/CAGE4-v0", "--help-all")
    shown = " ".join(helped.output.split())
    assert "Factor on the rewards that the critic learns from. [default: (0.01); x>0]" in shown
