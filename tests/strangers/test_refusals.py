import json
import logging
import os
import resource
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from click.testing import CliRunner

from tests.cli import output_of
from tests.strangers.folders import calling, laid_out, plant, poison
from workflow_rl import TrainConfig, train
from workflow_rl.commands.main import main
from workflow_rl.errors import ConfigError, UserError
from workflow_rl.runs.checkpoint import read_values, write_values
from workflow_rl.runs.folder import read_config
from workflow_rl.runs.several_policies import finish_population
from workflow_rl.terminal import PrintableFormatter


def test_an_address_in_a_file_is_not_joined(made: Path, folder: Path) -> None:
    resume = laid_out(made, "ppo", "train-async")
    poison(folder, lambda config: config.update(cluster="127.0.0.1:9"))
    assert "--cluster 127.0.0.1:9" in output_of(*resume, code=2)
    with pytest.raises(ConfigError, match="only the file mentions the cluster"):
        train(read_config(Path("run")), "again", env=lambda: gymnasium.make("CartPole-v1"))
    # Nor by who names only the environment.
    for more in (["--env", "CartPole-v1"], ["--trust"]):
        assert "only the file mentions the cluster" in output_of(*resume, *more, code=2)
    output_of(*resume, "--cluster", "none")


def test_an_address_that_the_user_gives_in_python_is_joined(folder: Path) -> None:
    config = TrainConfig("async", env="CartPole-v1", n_workers=1, cluster="127.0.0.1:9")
    with pytest.raises(ConfigError) as refused:
        train(config, "run")
    assert "only the file mentions" not in str(refused.value)


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
    assert f"{link} is a link" in output_of(*arguments, code=2)
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
    assert "levels" in output_of(*arguments, code=2)


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
    assert "is of another run" in output_of(*resume, code=2)


def test_kinds_of_episodes_in_a_checkpoint_are_printable(made: Path, folder: Path) -> None:
    """The bar, the lines of a log file and the closing lines show them."""
    resume = [one for one in laid_out(made, "cage2", "train-async") if one != "--dry-run"]
    content = read_values(Path("run/checkpoint.safetensors"))
    recent = content["training"]["recent_variants"]
    content["training"]["recent_variants"] = ["\x1b]0;title\x07\x9b2J" + "x" * 10_000, *recent[1:]]
    write_values(Path("run/checkpoint.safetensors"), content)
    resume = ["6" if one == "999" else one for one in resume if one != "--quiet"]
    resume = ["--total-episodes" if one == "--total-steps" else one for one in resume]
    result = CliRunner().invoke(main, resume, color=True)
    assert result.exit_code == 0, result.output
    assert "title" in result.output
    assert not {"\x1b", "\x07", "\x9b"} & set(result.output)


def test_what_is_logged_is_printable() -> None:
    record = logging.makeLogRecord({"msg": "%s is left out", "args": ("\x1b]0;title\x07 a\nb",)})
    assert PrintableFormatter("%(message)s").format(record) == (
        "\\x1b]0;title\\x07 a\nb is left out"
    )


@pytest.mark.parametrize(
    ("command", "link"), [("report", "report_files"), ("search-workflow", "workflow")]
)
def test_folders_beside_a_run_that_are_links_are_not_filled(
    command: str, link: str, made: Path, folder: Path
) -> None:
    """A command finds them, without a word of the user's, in the folder in which it is called."""
    arguments = laid_out(made, "cage2", command)
    Path("own").mkdir()
    Path("own", "workflow.html").write_text("the user's")
    Path(link).symlink_to("own")
    assert f"{link} is a link" in output_of(*arguments, code=2)
    assert [path.name for path in Path("own").iterdir()] == ["workflow.html"]


def test_pipes_in_a_run_folder_are_not_waited_for(made: Path, folder: Path) -> None:
    laid_out(made, "ppo", "plot")
    for name in (".evaluation.json.writing", ".learning_curve.png.writing"):
        os.mkfifo(Path("run", name))
    for arguments in (["evaluate", "run", "--episodes", "1", "--quiet"], ["plot", "run"]):
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code == 0, result.output


@pytest.mark.parametrize("kind", ["endless", "pipe"])
def test_the_best_agent_of_a_population_is_a_file(kind: str, made: Path, folder: Path) -> None:
    """Its copy would fill the disk."""
    laid_out(made, "ppo", "several")
    plant(folder, "population/policy-0/best.safetensors", kind)
    for path in ("config.json", "best.safetensors"):
        Path("population/policy-1", path).unlink()
    with pytest.raises(UserError, match="no regular file"):
        finish_population(Path("population"), [], best=0)
    assert not Path("population/best.safetensors").exists()


def test_a_full_disk_is_one_line(made: Path, folder: Path) -> None:
    laid_out(made, "ppo", "plot")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    for arguments in (
        ["plot", "run"],
        ["report", "run"],
        ["export", "run", "--format", "npz", "--output", "out.npz"],
        ["evaluate", "run", "--episodes", "1", "--quiet"],
    ):
        if arguments[0] == "evaluate":
            Path("run/evaluation.json").write_text("the scores before")
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
        try:
            result = CliRunner().invoke(main, arguments)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert result.exit_code in (1, 2), result.output
        assert isinstance(result.exception, SystemExit), arguments
        assert result.output.strip().splitlines()[-1].startswith("Error: ")
        assert "File too large" in result.output
    assert Path("run/evaluation.json").read_text() == "the scores before"
    assert not list(folder.rglob("*.writing"))
