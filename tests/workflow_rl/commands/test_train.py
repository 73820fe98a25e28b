"""The command line: help, and one clear line for every mistake, with nothing harmed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result

from tests.workflow_rl.commands.any_env_commands import refused
from workflow_rl.agents.mbpo.config import MBPOConfig
from workflow_rl.agents.ppo.config import PPOConfig
from workflow_rl.commands.main import main
from workflow_rl.runs.checkpoint import load_checkpoint
from workflow_rl.runs.checkpoint_file import read_values, write_values
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.execute import best_of
from workflow_rl.runs.resolve import OF_TEACHERS

TINY = [
    *("--n-envs", "2", "--max-steps", "5", "--episodes-per-update", "2", "--total-episodes", "4"),
    *("--hidden-sizes", "8", "--quiet"),
]
ROOT = Path(__file__).resolve().parents[3]


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def contents(path: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in path.rglob("*") if file.is_file()}


@pytest.mark.parametrize(
    ("changes", "best"),
    [
        ({}, 1),
        ({1: {"finished": False}}, 2),
        ({1: {"return_mean_recent": None}}, 2),
        ({1: {"skipped_episodes": [999, 998, 997]}}, 1),
        ({1: {"skipped_episodes": [999, 998, 997, 700]}}, 2),
        ({1: {"skipped_episodes": [999, 998, 997, 699]}}, 1),
    ],
)
def test_the_best_policy_is_the_one_with_the_highest_return(changes, best) -> None:
    """Of those that came to their end, and whose last 300 episodes all but 1% could be played."""
    summaries = [
        {
            **{"finished": True, "return_mean_recent": mean, "episodes": 1000},
            **{"skipped_episodes": [3], **changes.get(number, {})},
        }
        for number, mean in enumerate([-9.0, -1.0, -4.0])
    ]
    assert best_of(summaries) == best


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "finished"
    result = invoke("train-async", *TINY, "--run-dir", str(path))
    assert result.exit_code == 0, result.output
    assert str(path) in result.output
    assert "worker utilisation" in result.output
    return path


@pytest.fixture
def unfinished(finished, tmp_path) -> Path:
    """A run with half its episodes done."""
    path = tmp_path / "unfinished"
    path.mkdir()
    for name in ("config.json", "metrics.csv", "checkpoint.safetensors"):
        (path / name).write_bytes((finished / name).read_bytes())
    content = read_values(path / "checkpoint.safetensors")
    content["config"]["total_episodes"] = 8
    write_values(path / "checkpoint.safetensors", content)
    return path


@pytest.mark.parametrize("command", ["train-sync", "train-async"])
def test_help_lists_every_config_field_under_a_heading(command):
    result = invoke(command, "--help-all")
    assert result.exit_code == 0
    for heading in ("Most used:", "Environment:", "CAGE-2:", "Workers:", "The run:", "PPO:"):
        assert f"\n{heading}\n" in result.output
    assert "CAGE-4:" not in result.output
    assert "--gradient-steps" not in result.output
    config = TrainConfig("sync", algorithm="mbpo")
    shown = invoke(command, "--algorithm", "mbpo", "--help-all").output
    hidden = {"mode", "settings", "slow_worker_ms", "slow_worker_share", "network_args"}
    hidden |= {*OF_TEACHERS, "min_episodes_per_update"}
    for name in {*config.to_dict(), *MBPOConfig.model_fields} - hidden:
        assert "--" + name.replace("_", "-") in shown
    assert "--network-arg" in invoke(command, "--network", "gru", "--help").output
    of_teachers = {"teacher_epochs", "teacher_coef", "teacher_until", "teacher_beta"}
    taught = invoke(command, "--teacher", "champion", "--help").output
    assert all("--" + name.replace("_", "-") in taught for name in of_teachers)
    elsewhere = {"network_args", "policy_of", "critic", *of_teachers}
    for name in PPOConfig.model_fields.keys() - elsewhere:
        assert "--" + name.replace("_", "-") in result.output


def test_help_leaves_out_what_few_runs_need() -> None:
    shown = invoke("train-async", "--help").output
    assert invoke("train-async", "-h").output == shown
    assert "--help-all" in shown
    assert "--learning-rate" in shown
    for rare in ("--shared-trunk", "--take-all", "--max-worker-failures"):
        assert rare not in shown
        assert rare in invoke("train-async", "--help-all").output


@pytest.mark.parametrize("command", ["train-async", "tune", "train-population"])
def test_help_shows_what_applies_to_the_environment(command):
    shown = invoke(command, "--env", "CartPole-v1", "--help").output
    assert "  --red-agent" not in shown
    assert "--learning-rate" in shown
    cage4 = invoke(command, "--preset", "cage4-quick", "--help").output
    assert "\nCAGE-4:\n" in cage4
    assert "FiniteStateRedAgent" in cage4
    assert "B_lineAgent" not in cage4


@pytest.mark.parametrize("script", ["async_train_workflow_rl.py", "parallel_train_workflow_rl.py"])
def test_help_does_not_wait_for_torch(script):
    code = f"""
import runpy, sys
sys.argv = [{script!r}, "--help"]
try:
    runpy.run_path({str(ROOT / "workflow_rl" / script)!r}, run_name="__main__")
except SystemExit:
    pass
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd="/", stdout=subprocess.DEVNULL)


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--red-agent", "Nobody"], ["--red-agent", "Nobody", "B_lineAgent"]),
        (["--n-envs", "0"], ["--n-envs", "0", "1<=x"]),
        (["--n-envs", "many"], ["--n-envs", "many"]),
        (["--n-envs", "4", "--n-workers", "5"], ["--n-workers", "5", "4"]),
        (["--n-envs", "9", "--n-workers", "2", "--envs-per-worker", "2"], ["--envs-per-worker"]),
        (["--clip-range", "-1"], ["--clip-range", "-1"]),
        (["--discount", "1.5"], ["--discount", "1.5"]),
        (["--learning-rate", "nan"], ["--learning-rate", "nan"]),
        (["--worker-timeout", "inf"], ["--worker-timeout", "inf"]),
        (["--seed", "99999999999999999999"], ["--seed", "99999999999999999999"]),
        (["--hidden-sizes", "64,x"], ["--hidden-sizes", "64,x", "64,64"]),
        (["--resume"], ["--resume FOLDER"]),
        (["--simulator", "cyborg-stock"], ["cyborg-stock", "compiled"]),
    ],
)
def test_mistakes_in_the_options(arguments, parts, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for command in ("train-sync", "train-async"):
        refused(invoke(command, *arguments), *parts)
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
@pytest.mark.parametrize("interruption", [KeyboardInterrupt, click.Abort])
def test_ctrl_c_before_the_training_is_one_line(interruption, tmp_path, monkeypatch):
    def interrupted(*arguments):
        raise interruption

    monkeypatch.setattr("workflow_rl.commands.train.new_config", interrupted)
    result = invoke("train-async", *TINY, "--run-dir", str(tmp_path / "run"))
    assert result.exit_code == 130
    assert result.output.split() == ["stopped", "by", "SIGINT"]


def test_an_agent_that_does_not_fit_leaves_no_folder(finished, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = invoke("train-async", *TINY, "--hidden-sizes", "9", "--init-from", str(finished))
    refused(result, "--init-from does not fit")
    assert not list((tmp_path / "runs").iterdir())


def test_no_cuda_device():
    refused(invoke("train-async", *TINY, "--device", "cuda"), "--device", "cpu")


def test_a_run_dir_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("mine")
    refused(invoke("train-async", *TINY, "--run-dir", str(tmp_path / "file" / "run")), "file/run")
    assert (tmp_path / "file").read_text() == "mine"


def test_a_run_dir_in_use(finished):
    before = contents(finished)
    refused(invoke("train-async", *TINY, "--run-dir", str(finished)), "not empty", "--resume")
    assert contents(finished) == before


def test_a_finished_run_does_not_go_on_with_less(finished):
    before = contents(finished)
    result = invoke("train-async", "--resume", str(finished), "--total-episodes", "3")
    refused(result, "--total-episodes", "3", "finished, after 4", "give more")
    assert contents(finished) == before


def test_resuming_without_a_checkpoint(tmp_path):
    refused(
        invoke("train-async", "--resume", str(tmp_path)), "no checkpoint", "checkpoint.safetensors"
    )


def test_resuming_a_damaged_checkpoint(unfinished):
    content = (unfinished / "checkpoint.safetensors").read_bytes()
    (unfinished / "checkpoint.safetensors").write_bytes(content[: len(content) // 2])
    before = contents(unfinished)
    refused(invoke("train-async", "--resume", str(unfinished)), "checkpoint.safetensors", "damaged")
    assert contents(unfinished) == before


def test_resuming_a_checkpoint_of_another_shape(unfinished):
    content = read_values(unfinished / "checkpoint.safetensors")
    content["config"]["settings"]["hidden_sizes"] = [9]
    write_values(unfinished / "checkpoint.safetensors", content)
    before = contents(unfinished)
    refused(invoke("train-async", "--resume", str(unfinished)), "checkpoint.safetensors", "shape")
    assert contents(unfinished) == before


def test_resuming_with_another_trainer_or_other_learning(unfinished):
    before = contents(unfinished)
    refused(
        invoke("train-sync", "--resume", str(unfinished)), "a run of train-async", "resume it with"
    )
    refused(
        invoke("train-async", "--resume", str(unfinished), "--seed", "5"), "--seed", "5", "has 0"
    )
    refused(
        invoke("train-async", "--resume", str(unfinished), "--hidden-sizes", "64,64"),
        "--hidden-sizes",
    )
    refused(
        invoke("train-async", "--resume", str(unfinished), "--run-dir", "elsewhere"), "elsewhere"
    )
    refused(
        invoke("train-async", "--resume", str(unfinished / "checkpoint.safetensors")),
        "give the run's",
    )
    assert contents(unfinished) == before


def test_resuming_with_other_workers(unfinished):
    options = ["--run-dir", str(unfinished), "--resume", "--n-workers", "1", "--seed", "0"]
    result = invoke("train-async", *options, "--quiet")
    assert result.exit_code == 0, result.output
    assert (unfinished / "summary.json").exists()


def test_resuming_unrolls_with_other_envs(unfinished):
    content = read_values(unfinished / "checkpoint.safetensors")
    unrolls = {"num_steps_per_env": 5, "episodes_per_update": None, "steps_per_update": 10}
    content["config"].update(unrolls)
    write_values(unfinished / "checkpoint.safetensors", content)
    before = contents(unfinished)
    result = invoke("train-async", "--resume", str(unfinished), "--n-envs", "3")
    refused(result, "--n-envs", "3", "has 2", "leave it out")
    assert contents(unfinished) == before
    same = ["--n-envs", "2", "--n-workers", "2", "--quiet"]
    result = invoke("train-async", "--resume", str(unfinished), *same)
    assert result.exit_code == 0, result.output


def test_dry_run_prints_the_config_and_leaves_nothing(tmp_path):
    result = invoke("train-sync", *TINY, "--dry-run", "--run-dir", str(tmp_path / "run"))
    assert result.exit_code == 0
    assert "envs_per_worker: 1" in result.output
    assert not (tmp_path / "run").exists()


def origins(*options: str) -> dict[str, str]:
    result = invoke("train-async", *options, "--dry-run")
    assert result.exit_code == 0, result.output
    parts = [line.partition(": ")[::2] for line in result.output.splitlines()]
    return {name: rest.rpartition("  # ")[2] for name, rest in parts}


def test_dry_run_says_where_each_value_comes_from():
    own = ["--env", "CartPole-v1", "--algorithm", "tests.agents.test_algorithm:Once"]
    shown = origins(*own, "--gae-lambda", "0.5", "--seed", "3")
    assert shown["epochs"] == "class OnceConfig"
    assert shown["clip_range"] == "class PPOConfig"
    assert shown["minibatch_size"] == shown["total_steps"] == "environment"
    assert shown["gae_lambda"] == shown["seed"] == shown["env"] == "option"
    assert shown["n_envs"] == shown["total_episodes"] == "default"
    shown = origins("--preset", "cage2-quick", "--epochs", "3", "--red-agent", "B_lineAgent")
    assert shown["n_envs"] == shown["learning_rate"] == shown["observation"] == "preset"
    assert shown["epochs"] == shown["red_agent"] == "option"
    assert shown["max_steps"] == "environment"


@pytest.mark.parametrize("word", ["-h", "--help"])
def test_help_has_an_environments_defaults_but_for_those_of_an_own_class(word):
    own = ["--env", "CartPole-v1", "--algorithm", "tests.agents.test_algorithm:Once", word]
    shown = " ".join(invoke("train-async", *own).output.split())
    assert re.search(r"--epochs N (?:(?! --).)*\[default: 1;", shown)
    assert re.search(r"--minibatch-size N (?:(?! --).)*\[default: \(256\);", shown)


def test_a_run_that_diverges_stops_and_keeps_what_was_good(tmp_path):
    """With such a learning rate the second minibatch would make every weight NaN."""
    path = tmp_path / "run"
    result = invoke("train-async", *TINY, "--learning-rate", "1e30", "--run-dir", str(path))
    assert result.exit_code == 1, result.output
    assert "Traceback" not in result.output
    assert "Error: learning diverged: the " in result.output
    assert "diverged.npz" in result.output
    kept = load_checkpoint(path / "checkpoint.safetensors")
    assert kept.training.updates == 0
    assert all(tensor.isfinite().all() for tensor in kept.agent["network"].values())
    with np.load(path / "diverged.npz") as batch:
        assert len(batch["reward"]) == len(batch["obs"]) == batch["length"].sum()
    summary = json.loads((path / "summary.json").read_text())
    assert not summary["finished"]
    assert summary["reason"].startswith("the ")


def test_an_algorithm_of_the_users_own(tmp_path):
    name = "tests.agents.test_algorithm:REINFORCE"
    options = ["--env", "CartPole-v1", "--total-steps", "100", "--quiet", "--algorithm", name]
    refused(invoke("train-async", *options, "--setting", "nonsense=1"), "--setting nonsense", name)
    refused(invoke("train-async", *options, "--setting", "passes=0"), "--setting passes", "0")
    refused(invoke("train-async", *options, "--epochs", "1"), "--epochs", "--algorithm ppo")
    run = tmp_path / "run"
    result = invoke("train-async", *options, "--setting", "passes=2", "--run-dir", str(run))
    assert result.exit_code == 0, result.output
    assert json.loads((run / "config.json").read_text())["settings"]["passes"] == 2


@pytest.mark.parametrize("asked", [[], ["--total-episodes", "4"], TINY])
def test_a_finished_run_has_nothing_left_to_do(asked: list[str], finished: Path) -> None:
    before = contents(finished)
    result = invoke("train-async", "--resume", str(finished), *asked)
    assert result.exit_code == 0, result.output
    (line,) = result.output.splitlines()
    assert line.endswith(
        f"{finished} is finished, with all its 4 episodes: to go on, give a larger --total-episodes"
    )
    assert contents(finished) == before


def test_a_finished_run_is_not_yet_scored(finished: Path) -> None:
    score = ("--final-evaluation", "2")
    refused(invoke("train-async", "--resume", str(finished), *score), "is finished")
    refused(invoke("train-async", "--resume", str(finished), "--learning-rate", "3"), "has 0.00")
