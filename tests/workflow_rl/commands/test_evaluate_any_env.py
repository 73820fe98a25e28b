"""`evaluate` on the environment of a run: scores, videos, and one clear line for every mistake."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.workflow_rl.commands.any_env_commands import CART_POLE, TINY, invoke, refused
from workflow_rl.commands.main import main
from workflow_rl.runs.checkpoint import load_checkpoint, save_checkpoint
from workflow_rl.runs.checkpoint_file import read_values, write_values

HAS_MOVIEPY = importlib.util.find_spec("moviepy") is not None


def test_scores_on_the_environment_of_the_run(cart_pole_run: Path) -> None:
    result = invoke(
        "evaluate", str(cart_pole_run), "--episodes", "5", "--n-workers", "2", "--quiet"
    )
    assert result.exit_code == 0, result.output
    assert "CartPole-v1: 5 episodes, seed 0" in result.output
    scores = json.loads((cart_pole_run / "evaluation.json").read_text())
    assert len(scores["returns"]) == len(scores["lengths"]) == 5
    # CartPole gives 1 for every step.
    assert scores["returns"] == scores["lengths"]
    mean = sum(scores["returns"]) / 5
    assert scores["mean"] == pytest.approx(mean)
    assert scores["actions"] == "greedy"
    row = next(line for line in result.output.splitlines() if "return" in line)
    assert f"{mean:.2f}" in row
    assert f"± {scores['interval_95']:.2f}" in row
    assert f"{min(scores['returns']):.2f}" in row
    # One episode in their place has no interval, and is not taken for as good.
    again = invoke("evaluate", str(cart_pole_run), "--episodes", "1", "--n-workers", "1", "--quiet")
    assert "(in the place of those of 5 episodes)" in again.output
    assert "nan" not in again.output


def test_several_agents_are_scored_one_after_another(cart_pole_run: Path, tmp_path: Path) -> None:
    runs = [tmp_path / "a", tmp_path / "b"]
    for run in runs:
        shutil.copytree(cart_pole_run, run)
    other = load_checkpoint(runs[1] / "best.safetensors")
    other.training.best_score = 1.0
    save_checkpoint(runs[1] / "best.safetensors", other)
    names = [str(run) for run in runs]
    played = ["--episodes", "2", "--n-workers", "1", "--quiet"]
    result = invoke("evaluate", *names, *played)
    assert result.exit_code == 0, result.output
    assert all((run / "evaluation.json").exists() for run in runs)
    assert f"compare {names[0]} {names[1]}" in result.output
    assert invoke("compare", *names).exit_code == 0
    refused(invoke("evaluate", *names, *played, "--json", str(tmp_path / "x.json")), "one agent")
    scored = (runs[0] / "evaluation.json").read_bytes()
    more = ["--episodes", "3", "--n-workers", "1", "--quiet"]
    refused(invoke("evaluate", names[0], str(tmp_path / "none"), *more), "no checkpoint at")
    assert (runs[0] / "evaluation.json").read_bytes() == scored


def test_a_report_shows_the_scores_of_the_agent_that_is_there(
    cart_pole_run: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, page = tmp_path / "run", tmp_path / "report.html"
    shutil.copytree(cart_pole_run, path)
    scored = ["evaluate", str(path), "--episodes", "2", "--n-workers", "1", "--quiet"]
    report = ["report", str(path), "--output", str(page)]
    assert invoke(*scored).exit_code == 0
    assert invoke(*report).exit_code == 0
    assert "not scored yet" not in page.read_text()
    best = load_checkpoint(path / "best.safetensors")
    best.training.best_score = 1.0
    save_checkpoint(path / "best.safetensors", best)
    assert invoke(*report).exit_code == 0
    assert "not scored yet" in page.read_text()
    assert f"{path / 'evaluation.json'} does not say that it is of" in caplog.text
    assert invoke(*scored).exit_code == 0
    assert invoke(*report).exit_code == 0
    assert "not scored yet" not in page.read_text()


def test_scores_go_where_they_are_asked_for(cart_pole_run: Path, tmp_path: Path) -> None:
    (cart_pole_run / "evaluation.json").unlink(missing_ok=True)
    options = ["--episodes", "1", "--n-workers", "1", "--quiet"]
    sampled = invoke("evaluate", str(cart_pole_run), "--stochastic", *options)
    assert sampled.exit_code == 0, sampled.output
    assert "sampled actions" in sampled.output
    assert not (cart_pole_run / "evaluation.json").exists()
    target = tmp_path / "scores.json"
    result = invoke(
        "evaluate",
        str(cart_pole_run / "checkpoint.safetensors"),
        "--json",
        str(target),
        "--seed",
        "7",
        *options,
    )
    assert result.exit_code == 0, result.output
    scores = json.loads(target.read_text())
    assert scores["seed"] == 7
    assert scores["std"] is scores["interval_95"] is None


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"env": "NoSuchEnv-v0"}, ["NoSuchEnv-v0 cannot be made"]),
        ({"env_args": {"wheels": 3}}, ["wheels"]),
        ({"total_steps": 0}, ["config", "total_steps"]),
    ],
)
def test_a_run_whose_environment_is_not_here(
    change: dict[str, object], parts: list[str], cart_pole_run: Path, tmp_path: Path
) -> None:
    content = read_values(cart_pole_run / "checkpoint.safetensors")
    content["config"] |= change
    write_values(tmp_path / "changed.safetensors", content)
    refused(invoke("evaluate", str(tmp_path / "changed.safetensors"), "--quiet"), *parts)


def test_mistakes_in_an_evaluation(cart_pole_run: Path, tmp_path: Path) -> None:
    refused(
        invoke("evaluate", str(cart_pole_run / "best.safetensors"), "--which", "best"),
        "--which best",
    )
    refused(invoke("evaluate", str(cart_pole_run), "--simulator", "cyborg"), "--simulator")
    other = ["--env", "workflow_rl/CAGE4-v0"]
    refused(invoke("evaluate", str(cart_pole_run), *other), "--env", "CartPole-v1: leave it out")
    (tmp_path / "file").touch()
    refused(
        invoke("evaluate", str(cart_pole_run), "--json", str(tmp_path / "file" / "x")), "--json"
    )
    refused(invoke("evaluate", str(cart_pole_run), "--video", str(tmp_path / "file")), "--video")


@pytest.mark.skipif(not HAS_MOVIEPY, reason="moviepy is not installed")
def test_a_video_of_the_first_episode(cart_pole_run: Path, tmp_path: Path) -> None:
    options = ["--episodes", "1", "--n-workers", "1", "--quiet", "--video", str(tmp_path / "v")]
    result = invoke("evaluate", str(cart_pole_run), *options)
    assert result.exit_code == 0, result.output
    (video,) = (tmp_path / "v").glob("*.mp4")
    assert f"video: {video}" in result.output
    assert video.stat().st_size > 1000


@pytest.mark.skipif(HAS_MOVIEPY, reason="moviepy is installed")
def test_a_video_without_what_it_takes(cart_pole_run: Path, tmp_path: Path) -> None:
    result = invoke("evaluate", str(cart_pole_run), "--quiet", "--video", str(tmp_path / "v"))
    refused(result, "--video", "moviepy", "pip install")


def test_no_video_of_an_environment_that_draws_no_pictures(tmp_path: Path) -> None:
    env = ["--env", "tests.any_envs:TargetEnv"]
    result = invoke("train-async", *env, *TINY, "--run-dir", str(tmp_path / "run"))
    assert result.exit_code == 0, result.output
    result = invoke("evaluate", str(tmp_path / "run"), "--quiet", "--video", str(tmp_path / "v"))
    refused(result, "--video", "TargetEnv draws no pictures")


def test_no_video_of_a_function_that_takes_no_render_mode(tmp_path: Path) -> None:
    env = ["--env", "tests.any_envs:make_target"]
    result = invoke("train-async", *env, *TINY, "--run-dir", str(tmp_path / "run"))
    assert result.exit_code == 0, result.output
    result = invoke("evaluate", str(tmp_path / "run"), "--quiet", "--video", str(tmp_path / "v"))
    refused(result, "--video", "give it an argument render_mode=None")


def test_one_evaluate_has_the_options_of_every_environment() -> None:
    result = invoke("evaluate", "--help")
    assert result.exit_code == 0
    for option in ("--simulator", "--video", "--trust"):
        assert option in result.output
    refused(invoke("evaluate", "no-such-run"), "no-such-run")


def test_a_final_evaluation(tmp_path: Path) -> None:
    options = [*CART_POLE, *TINY, "--run-dir", str(tmp_path / "run"), "--final-evaluation", "2"]
    result = invoke("train-sync", *options)
    assert result.exit_code == 0, result.output
    assert "2 episodes, seed 0" in result.output
    assert len(json.loads((tmp_path / "run" / "evaluation.json").read_text())["returns"]) == 2


def test_final_evaluation_of_cage2_is_its_own(tmp_path):
    options = ["--simulator", "compiled", "--total-episodes", "4", "--episodes-per-update", "4"]
    options += ["--red-agent", "mixed"]
    options += ["--hidden-sizes", "4", "--final-evaluation", "1", "--quiet"]
    result = CliRunner().invoke(main, ["train-async", *options, "--run-dir", str(tmp_path / "run")])
    assert result.exit_code == 0, result.output
    assert "RedMeanderAgent" in result.output
    assert (tmp_path / "run" / "evaluation.json").exists()
