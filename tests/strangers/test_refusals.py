"""What commands refuse of a stranger's files, and that they write nowhere else."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from click.testing import CliRunner

from tests.strangers.folders import calling, laid_out, poison
from workflow_rl import TrainConfig, train
from workflow_rl.commands.main import main
from workflow_rl.runs.config import ConfigError
from workflow_rl.runs.folder import read_config
from workflow_rl.runs.trust import trusted_config


def test_an_address_in_a_file_is_not_joined(made: Path, folder: Path) -> None:
    resume = laid_out(made, "ppo", "train-async")
    poison(folder, lambda config: config.update(cluster="127.0.0.1:9"))
    result = CliRunner().invoke(main, resume)
    assert result.exit_code == 2
    assert "--cluster 127.0.0.1:9" in result.output
    # Nor by who names only the environment.
    for more in (["--env", "CartPole-v1"], ["--trust"]):
        result = CliRunner().invoke(main, [*resume, *more])
        assert "only the file names the cluster" in result.output
    with pytest.raises(ConfigError, match="only the file names the cluster"):
        train(read_config(Path("run")), "again", env=lambda: gymnasium.make("CartPole-v1"))
    assert CliRunner().invoke(main, [*resume, "--cluster", "none"]).exit_code == 0


def test_an_address_that_the_user_gives_in_python_is_joined(folder: Path) -> None:
    config = TrainConfig("async", env="CartPole-v1", n_workers=1, cluster="127.0.0.1:9")
    assert trusted_config(config) == config


LINKED = {
    "sac memory": ("sac", "train-async", "run/memory"),
    "sac kept": ("sac", "train-async", "run/kept"),
    "policy": ("ppo", "several", "population/policy-0"),
}


@pytest.mark.parametrize("case", LINKED)
def test_folders_that_are_links_are_not_written_into(case: str, made: Path, folder: Path) -> None:
    kind, command, link = LINKED[case]
    arguments = [one for one in laid_out(made, kind, command) if one != "--dry-run"]
    own = folder / "own"
    if Path(link).exists():
        Path(link).rename(own)
    own.mkdir(exist_ok=True)
    (own / "real-000000900-000000999.npy").write_text("the user's")
    before = {path: path.read_bytes() for path in own.rglob("*") if path.is_file()}
    Path(link).symlink_to(own)
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2, result.output
    assert f"{link} is a link" in result.output
    assert {path: path.read_bytes() for path in own.rglob("*") if path.is_file()} == before


def test_no_text_of_a_file_commands_the_terminal(made: Path, folder: Path) -> None:
    command = "\x1b]0;title\x07\x1b[2J"
    for name in ("train-async", "tune", "verify"):
        arguments = laid_out(made, "ppo", name)
        poison(folder, lambda config: config.update(preset=command))
        record = Path("run/machine.json")
        if record.exists():
            values = json.loads(record.read_text())
            machines = [dict.fromkeys(one, command) for one in values["machines"]]
            weights = [command for _ in values["weights"]]
            record.write_text(json.dumps({**values, "machines": machines, "weights": weights}))
        result = CliRunner().invoke(main, arguments, color=True)
        assert "title" in result.output
        assert "\x1b" not in result.output


@pytest.mark.parametrize("command", ["report", "evaluate policy", "plot", "export policy"])
def test_arguments_within_arguments_are_one_line_of_error(
    command: str, made: Path, folder: Path
) -> None:
    """However deep: Python's own copies of them fail at some hundreds."""
    deep: Any = 1
    for _ in range(450):
        deep = [deep]
    arguments = laid_out(made, "ppo", command)
    poison(folder, calling("CartPole-v1", {"deep": deep}))
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert "levels" in result.output


def test_links_in_a_run_folder_lead_to_no_other_file(made: Path, folder: Path) -> None:
    """A command that writes into a stranger's folder replaces the link, or refuses."""
    laid_out(made, "ppo", "plot")
    Path("own").write_text("the user's")
    for name in (".evaluation.json.writing", "learning_curve.png", "evaluation.json", "run_id"):
        Path("run", name).unlink(missing_ok=True)
        Path("run", name).symlink_to(folder / "own")
    for arguments in (
        ["evaluate", "run", "--episodes", "1", "--quiet"],
        ["plot", "run"],
        ["report", "run", "--output", "run/report.html"],
        ["train-async", "--resume", "run", "--total-steps", "96", "--quiet"],
    ):
        CliRunner().invoke(main, arguments)
        assert Path("own").read_text() == "the user's", arguments


def test_an_endless_id_of_a_run_is_one_line_of_error(made: Path, folder: Path) -> None:
    """A small archive can hold a file that is said to be of any size."""
    resume = [one for one in laid_out(made, "ppo", "train-async") if one != "--dry-run"]
    os.truncate("run/run_id", 2**42)
    result = CliRunner().invoke(main, resume)
    assert result.exit_code == 2, result.exception
    assert "is of another run" in result.output
