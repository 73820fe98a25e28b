"""The command `record`, and training from what it wrote."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.workflow_rl.commands.any_env_commands import CART_POLE, TINY, invoke, refused

PLAYED = ["--episodes", "3", "--n-workers", "1", "--quiet"]


def test_what_a_run_plays_is_written_and_copied(cart_pole_run: Path, tmp_path: Path) -> None:
    file = str(tmp_path / "episodes.npz")
    result = invoke("record", str(cart_pole_run), file, *PLAYED)
    assert result.exit_code == 0, result.output
    assert f"{cart_pole_run} on CartPole-v1: mean return" in result.output
    assert "in 3 episodes" in result.output
    with np.load(file) as arrays:  # As anybody reads it.
        assert len(arrays["obs"]) == len(arrays["action"]) == arrays["length"].sum()
        assert np.array_equal(arrays["reward"], np.ones(len(arrays["obs"])))
    run = ["--teacher", file, "--teacher-epochs", "1", "--run-dir", str(tmp_path / "run")]
    copied = invoke("train-async", *CART_POLE, *TINY, *run)
    assert copied.exit_code == 0, copied.output
    assert f"copied {file}: mean return" in copied.output
    again = invoke("verify", str(tmp_path / "run"))
    assert again.exit_code == 0, again.output


def test_a_scripted_agent_of_a_guest(tmp_path: Path) -> None:
    view = ["--simulator", "compiled", "--max-steps", "5", "--observation", "history"]
    result = invoke("record", "decoys", str(tmp_path / "x.npz"), *PLAYED, *view)
    assert result.exit_code == 0, result.output
    assert "decoys on workflow_rl/CAGE2-v0: mean return" in result.output


def test_a_team_of_a_guest(tmp_path: Path) -> None:
    view = ["--env", "workflow_rl/CAGE4-v0", "--simulator", "compiled", "--max-steps", "5"]
    view += ["--observation", "belief", "--actions", "suspects"]
    result = invoke("record", "rules", str(tmp_path / "x.npz"), *PLAYED, *view)
    assert result.exit_code == 0, result.output
    with np.load(tmp_path / "x.npz") as arrays:
        assert arrays["action"].shape == (arrays["length"].sum(), 5)


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["nobody", "x.npz"], ["AGENT", "nobody"]),
        (["champion", "x.npz", *CART_POLE], ["AGENT", "other observations"]),
        (["no_such_module:act", "x.npz", *CART_POLE], ["AGENT", "no_such_module"]),
        (["math:floor", "x.npz", "--env", "no_such_module:Env"], ["--env", "no_such_module"]),
        (["math:no_such_name", "x.npz", *CART_POLE], ["AGENT", "defines no no_such_name"]),
        (["decoys", "x.parquet"], ["FILE", ".npz"]),
        (["decoys", "no/such/folder/x.npz"], ["FILE", "no/such/folder"]),
        (["decoys", "x.npz", "--env-arg", "color=red"], ["color"]),
    ],
)
def test_mistakes(
    arguments: list[str], parts: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refused(invoke("record", *arguments), *parts)
    assert not list(tmp_path.iterdir())


def test_a_file_of_other_spaces_is_one_line(cart_pole_run: Path, tmp_path: Path) -> None:
    file = str(tmp_path / "x.npz")
    assert invoke("record", str(cart_pole_run), file, *PLAYED).exit_code == 0
    pendulum = ["--env", "Pendulum-v1", *TINY, "--run-dir", str(tmp_path / "run")]
    refused(invoke("train-async", *pendulum, "--teacher", file), "--teacher", "obs_dim 4")
    assert not (tmp_path / "run").exists()
