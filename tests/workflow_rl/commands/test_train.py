"""The command line: help, and one clear line for every mistake, with nothing harmed."""

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.cli import call, refused, said_by
from workflow_rl.agents.mbpo.config import MBPOConfig
from workflow_rl.agents.ppo.config import PPOConfig
from workflow_rl.commands.options import spelling
from workflow_rl.runs.checkpoint import read_values, write_values
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.execute import best_of
from workflow_rl.runs.read_checkpoint import load_checkpoint
from workflow_rl.runs.resolve import OF_TEACHERS

TINY = (
    "--n-envs 2 --max-steps 5 --episodes-per-update 2 --total-episodes 4 --hidden-sizes 8 --quiet"
)
OWN = "--env CartPole-v1 --algorithm tests.agents.test_algorithm:Once"
ROOT = Path(__file__).resolve().parents[3]


def contents(path: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in path.rglob("*") if file.is_file()}


@pytest.mark.parametrize(
    ("changes", "best"),
    [
        ({}, 1),
        ({1: {"finished": False}}, 2),
        ({1: {"budgets_hold": False}, 2: {"budgets_hold": True}, 0: {"budgets_hold": True}}, 2),
        ({n: {"budgets_hold": n < 1, "return_mean_recent": n or None} for n in range(3)}, 2),
        ({1: {"budgets_hold": False}, 2: {"finished": False}, 0: {"budgets_hold": False}}, 1),
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
def runs(tmp_path_factory) -> Path:
    """A finished run, one with half its episodes done, and two whose checkpoint is of no use."""
    folder = tmp_path_factory.mktemp("runs")
    said = said_by("train-async", TINY, "--run-dir", folder / "finished")
    assert str(folder / "finished") in said
    assert "worker utilisation" in said
    for name in ("unfinished", "damaged", "reshaped"):
        (folder / name).mkdir()
        for file in ("config.json", "metrics.csv", "checkpoint.safetensors"):
            shutil.copy(folder / "finished" / file, folder / name)
    with_config(folder / "unfinished", total_episodes=8)
    with_config(folder / "reshaped", total_episodes=8, settings={"hidden_sizes": [9]})
    damaged = folder / "damaged" / "checkpoint.safetensors"
    os.truncate(damaged, damaged.stat().st_size // 2)
    return folder


def with_config(run: Path, settings: Any = None, **changes: Any) -> None:
    """Change the config in a run's checkpoint."""
    content = read_values(run / "checkpoint.safetensors")
    content["config"] |= changes
    content["config"]["settings"] |= settings or {}
    write_values(run / "checkpoint.safetensors", content)


@pytest.mark.parametrize("command", ["train-sync", "train-async"])
def test_help_lists_every_config_field_under_a_heading(command):
    said = said_by(command, "--help-all")
    for heading in ("Most used:", "Environment:", "CAGE-2:", "Workers:", "The run:", "PPO:"):
        assert f"\n{heading}\n" in said
    assert "CAGE-4:" not in said
    assert "--gradient-steps" not in said
    config = TrainConfig("sync", algorithm="mbpo")
    shown = said_by(command, "--algorithm mbpo --help-all")
    hidden = {"mode", "settings", "slow_worker_ms", "slow_worker_share", "network_args"}
    hidden |= {*OF_TEACHERS, "min_episodes_per_update"}
    for name in {*config.to_dict(), *MBPOConfig.model_fields} - hidden:
        assert "--" + name.replace("_", "-") in shown
    assert "--network-arg" in said_by(command, "--network gru --help")
    of_teachers = {"teacher_epochs", "teacher_coef", "teacher_until", "teacher_beta"}
    taught = said_by(command, "--teacher champion --help")
    assert all("--" + name.replace("_", "-") in taught for name in of_teachers)
    elsewhere = {"network_args", "policy_of", "critic", *of_teachers}
    for name in PPOConfig.model_fields.keys() - elsewhere:
        assert spelling(name) in said


def test_help_leaves_out_what_few_runs_need() -> None:
    shown = said_by("train-async --help")
    assert said_by("train-async -h") == shown
    assert "--help-all" in shown
    assert "--learning-rate" in shown
    for rare in ("--shared-trunk", "--take-all", "--max-worker-failures"):
        assert rare not in shown
        assert rare in said_by("train-async --help-all")


@pytest.mark.parametrize("command", ["train-async", "tune", "train-population"])
def test_help_shows_what_applies_to_the_environment(command):
    shown = said_by(command, "--env CartPole-v1 --help")
    assert "  --red-agent" not in shown
    assert "--learning-rate" in shown
    cage4 = said_by(command, "--preset cage4-quick --help")
    assert "\nCAGE-4:\n" in cage4
    assert "FiniteStateRedAgent" in cage4
    assert "B_lineAgent" not in cage4


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_no_cuda_device():
    refused(call("train-async", TINY, "--device cuda"), "--device", "cpu")


ON = "train-async --resume"
REFUSED = [
    (f"train-async {TINY} --hidden-sizes 9 --init-from finished", "--init-from does not fit"),
    (f"{ON} finished --final-evaluation 2", "is finished"),
    (f"{ON} finished --learning-rate 3", "has 0.00"),
    (f"{ON} .", "no checkpoint", "checkpoint.safetensors"),
    (f"{ON} damaged", "checkpoint.safetensors", "damaged"),
    (f"{ON} reshaped", "checkpoint.safetensors", "shape"),
    (f"{ON} unfinished --hidden-sizes 64,64", "--hidden-sizes"),
    (f"{ON} unfinished/checkpoint.safetensors", "give the run's"),
]


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: row[0])
def test_what_may_not_go_on_is_refused_and_left_as_it_is(row, runs, monkeypatch):
    monkeypatch.chdir(runs)
    before = contents(runs)
    words, *parts = row
    refused(call(words), *parts)
    assert contents(runs) == before
    assert not list((runs / "runs").glob("*"))


def test_dry_run_prints_the_config_and_leaves_nothing(tmp_path):
    said = said_by("train-sync", TINY, "--dry-run --run-dir", tmp_path / "run")
    assert "envs_per_worker: 1" in said
    assert not (tmp_path / "run").exists()


def origins(options: str) -> dict[str, str]:
    said = said_by("train-async", options, "--dry-run")
    parts = [line.partition(": ")[::2] for line in said.splitlines()]
    return {name: rest.rpartition("  # ")[2] for name, rest in parts}


def test_dry_run_says_where_each_value_comes_from():
    shown = origins(f"{OWN} --gae-lambda 0.5 --seed 3")
    assert shown["epochs"] == "class OnceConfig"
    assert shown["clip_range"] == "class PPOConfig"
    assert shown["minibatch_size"] == shown["total_steps"] == "environment"
    assert shown["gae_lambda"] == shown["seed"] == shown["env"] == "option"
    assert shown["n_envs"] == shown["total_episodes"] == "default"
    shown = origins("--preset cage2-quick --epochs 3 --red-agent B_lineAgent")
    assert shown["n_envs"] == shown["learning_rate"] == shown["observation"] == "preset"
    assert shown["epochs"] == shown["red_agent"] == "option"
    assert shown["max_steps"] == "environment"


@pytest.mark.parametrize("word", ["-h", "--help"])
def test_help_has_an_environments_defaults_but_for_those_of_an_own_class(word):
    shown = " ".join(said_by("train-async", OWN, word).split())
    assert re.search(r"--epochs N (?:(?! --).)*\[default: 1;", shown)
    assert re.search(r"--minibatch-size N (?:(?! --).)*\[default: \(256\);", shown)


def test_a_run_that_diverges_stops_and_keeps_what_was_good(tmp_path):
    """With such a learning rate the second minibatch would make every weight NaN."""
    path = tmp_path / "run"
    said = said_by("train-async", TINY, "--learning-rate 1e30 --run-dir", path, code=1)
    assert "Traceback" not in said
    assert "Error: learning diverged: the " in said
    assert "diverged.npz" in said
    kept = load_checkpoint(path / "checkpoint.safetensors")
    assert kept.training.updates == 0
    assert all(tensor.isfinite().all() for tensor in kept.agent["network"].values())
    with np.load(path / "diverged.npz") as batch:
        assert len(batch["reward"]) == len(batch["obs"]) == batch["length"].sum()
    summary = json.loads((path / "summary.json").read_text())
    assert not summary["finished"]
    assert summary["reason"].startswith("the ")
