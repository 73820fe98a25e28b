"""What the screen names after a run can be done: each hint is followed."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from workflow_rl import load_agent
from workflow_rl.commands.main import main
from workflow_rl.runs.folder import read_summary

pytestmark = pytest.mark.system

TINY = "--n-envs 4 --n-workers 1 --hidden-sizes 8 --quiet"


def told(words: str) -> str:
    result = CliRunner().invoke(main, shlex.split(words))
    assert result.exit_code == 0, result.output
    return result.output


def hints(output: str) -> dict[str, str]:
    """What each line's heading names: a command without the program's name, or an expression."""
    lines = (line.partition(": ") for line in output.splitlines() if re.match("[a-z ]+: ", line))
    return {head: re.sub(r"^.*workflow-rl ", "", text.strip()) for head, _, text in lines}


def test_every_hint_after_a_run_on_cage2_can_be_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = f"train-async --simulator compiled --total-episodes 8 {TINY} --run-dir runs/tiny"
    named = hints(told(f"{asked} --max-steps 10"))
    assert {"is it good", "watch it", "all on a page", "train on", "hand it in"} <= named.keys()
    assert "use it" not in named
    assert "sum of these" in told(f"{named['is it good']} --episodes 1 --max-steps 10")
    told(named["watch it"])
    told(named["all on a page"])
    exported = told(named["hand it in"])
    place = hints(exported)["play it"].removeprefix("cd ").partition(" &&")[0]
    play = [sys.executable, "evaluation.py", "--episodes", "2"]
    subprocess.run(play, cwd=place, check=True, capture_output=True)
    told(hints(exported)["pack it"])
    assert Path(f"{place}.zip").is_file()
    told(f"{named['train on']} --quiet")
    assert read_summary(tmp_path / "runs" / "tiny")["episodes"] == 16


def test_every_hint_after_a_run_on_another_environment_can_be_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = f"train-sync --env CartPole-v1 --total-steps 200 --steps-per-update 100 {TINY}"
    named = hints(told(f"{asked} --run-dir runs/pole"))
    assert {"hand it in", "watch it"}.isdisjoint(named)
    told(f"{named['is it good']} --episodes 2")
    told(named["all on a page"])
    told(f"{named['train on']} --quiet")
    summary = read_summary(tmp_path / "runs" / "pole")
    assert summary["finished"]
    assert summary["env_steps"] >= 400
    (path,) = re.findall(r"workflow_rl.load_agent\('(.*)'\).act\(observation\)", named["use it"])
    assert load_agent(path).act([0.0] * 4) in (0, 1)


def test_a_run_that_patience_ended_goes_on_with_more_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = f"train-async --env CartPole-v1 --total-steps 90000 --steps-per-update 100 {TINY}"
    named = hints(told(f"{asked} --learning-rate 1e-9 --patience 3 --run-dir runs/pole"))
    assert named["train on"] == "train-async --resume runs/pole --patience 6"
    before = read_summary(tmp_path / "runs" / "pole")["updates"]
    told(f"{named['train on']} --quiet")
    assert read_summary(tmp_path / "runs" / "pole")["updates"] > before


def test_a_run_that_reached_its_return_goes_on_past_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = f"train-async --env CartPole-v1 --total-steps 6000 --steps-per-update 1000 {TINY}"
    named = hints(told(f"{asked} --stop-at-return 1 --run-dir runs/pole"))
    before = read_summary(tmp_path / "runs" / "pole")["updates"]
    told(f"{named['train on']} --quiet")
    assert read_summary(tmp_path / "runs" / "pole")["updates"] > before


def test_a_page_that_replaces_another_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = f"train-async --env CartPole-v1 --total-steps 200 --steps-per-update 100 {TINY}"
    told(f"{asked} --run-dir runs/pole")
    assert "report: report.html\n" in told("report runs/pole")
    assert "report: report.html (in the place of an earlier one)" in told("report runs/pole")


def test_what_the_challenge_cannot_play_is_not_to_be_handed_in(tmp_path: Path) -> None:
    asked = f"train-async --simulator compiled --total-episodes 4 --max-steps 5 {TINY}"
    named = hints(told(f"{asked} --observation true-state --run-dir {tmp_path / 'run'}"))
    assert "hand it in" not in named


def test_a_folder_of_several_policies_is_said_to_be_scored_by_its_best(tmp_path: Path) -> None:
    asked = f"train-async --env CartPole-v1 --total-steps 200 --steps-per-update 100 {TINY}"
    told(f"{asked} --n-policies 2 --run-dir {tmp_path / 'five'}")
    assert "the best policy alone" in told(f"evaluate {tmp_path / 'five'} --episodes 2 --quiet")
    for number in (0, 1):
        alone = told(f"evaluate {tmp_path / 'five' / f'policy-{number}'} --episodes 2 --quiet")
        assert "the best policy alone" not in alone
    told(f"compare {tmp_path / 'five' / 'policy-0'} {tmp_path / 'five' / 'policy-1'}")


def test_a_preset_of_a_challenge_does_not_blame_the_users_function() -> None:
    asked = ["train-async", "--preset", "cage2-quick", "--env", "tests.any_envs:TargetEnv"]
    result = CliRunner().invoke(main, asked)
    assert result.exit_code == 2
    assert "does not go with this preset, which is for workflow_rl/CAGE2-v0" in result.output
