"""Commands that are killed lose nothing finished, and remove none of the user's notes and links.

The long version kills every command that writes, 300 times in 44 folders:

    python -m pytest -m slow --timeout 7200 -v -s tests/faults/test_users_files.py
"""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.faults.checks import assert_whole
from tests.faults.main_process import ROOT, of_session
from tests.processes import survivors
from tests.workflow_rl.workflows.test_search_workflow_command import agent

TINY = "--total-episodes 36 --episodes-per-update 12 --n-workers 1 --quiet"
TARGET = f"--env tests.any_envs:TargetEnv {TINY} --checkpoint-every 1"
DUEL = "train-duel --env examples.small_games:Matrix --generations 2 --payoff-episodes 4"
SAC = "--algorithm sac --env Pendulum-v1 --total-steps 800 --steps-per-update 200 --n-workers 1"


class Work(NamedTuple):
    """What is called in a folder, and a file that tells that it is done.

    again: how it goes on once the file of that name is there; else the command is given again.
    """

    command: str
    made: str
    again: tuple[str, str] = ("", "")


RESUME_RUN = ("run/checkpoint.safetensors", "train-async --resume {folder}/run --quiet")
WORKS = {
    "run": Work(
        f"train-async {TARGET} --keep-every 1 --final-evaluation 2 --run-dir {{folder}}/run",
        "run/evaluation.json",
        (RESUME_RUN[0], f"{RESUME_RUN[1]} --final-evaluation 2"),
    ),
    "memory": Work(
        f"train-async {SAC} --warm-up-steps 200 --checkpoint-every 1 --quiet --run-dir "
        "{folder}/run",
        "run/summary.json",
        RESUME_RUN,
    ),
    "duel": Work(f"{DUEL} {TINY} --checkpoint-every 1 --run-dir {{folder}}/duel", "duel/duel.json"),
    "population": Work(
        f"train-population {TARGET} --n-policies 2 --run-dir {{folder}}/run",
        "run/summary.json",
        ("run/population.json", "train-population --resume {folder}/run --quiet"),
    ),
    "tune": Work(
        f"tune {TARGET} --trials 2 --run-dir {{folder}}/study",
        "study/best.json",
        ("study/tune.json", "tune --resume {folder}/study --trials 2 --quiet"),
    ),
    "train-champion": Work(
        "train-champion --run-dir {folder}/run --total-episodes 400 --selection-episodes 32 "
        "--episodes 2 --quiet",
        "run/card.json",
    ),
    "evaluate": Work(
        "evaluate {folder}/run --episodes 20 --quiet --n-workers 1 --json {folder}/scores.json",
        "scores.json",
    ),
    "export": Work("export {folder}/run --format hub --output {folder}/hub", "hub/README.md"),
    "record": Work("record {folder}/run {folder}/own.npz --episodes 20 --quiet", "own.npz"),
    "report": Work("report {folder}/run --output {folder}/report.html", "report.html"),
    "search-workflow": Work(
        "search-workflow {workflow} --episodes 2 --quiet --output {folder}/found",
        "found/workflow.json",
    ),
}
READING = ("evaluate", "export", "record", "report")
"""Works on a finished run."""
RESULTS = {
    *("checkpoint.safetensors", "best.safetensors"),
    *("config.json", "evaluation.json", "card.json"),
}
"""Files that must not be lost, as what is kept. A summary goes when a run goes on."""
FORKED = """
import json, os, sys
import torch, matplotlib
import workflow_rl.api, workflow_rl.runs.execute, workflow_rl.reporting.learning_curve
import workflow_rl.studies.duel
from workflow_rl.commands.main import main
for line in sys.stdin:
    said, *words = json.loads(line)
    pid = os.fork()
    if pid == 0:
        os.setsid()
        file = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, 1), os.dup2(file, 2), os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.argv = ["workflow-rl", *words]
        sys.exit(main(words))
    print(pid, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""
"""A process that is forked for each command, which so starts at once."""
NOTES = "the user's"


class Caller:
    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", FORKED], cwd=ROOT, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def call(self, words: str, said: Path, seconds: float) -> tuple[int, str]:
        """Return the exit code, -9 of a command that is killed, and what it says."""
        self._process.stdin.write(json.dumps([str(said), *words.split()]) + "\n")
        self._process.stdin.flush()
        pid = int(self._process.stdout.readline())
        killing = threading.Timer(seconds, os.kill, (pid, signal.SIGKILL))
        killing.start()
        code = int(self._process.stdout.readline())
        killing.cancel()
        # A helper of multiprocessing that watches for leaks may outlive it for a moment.
        assert not survivors(of_session(pid), 10), words
        return code, said.read_text(errors="replace")

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture
def caller() -> Iterator[Caller]:
    caller = Caller()
    yield caller
    caller.close()


def state_of(path: Path) -> str | None:
    """What a file holds or a link leads to, and None where nothing is."""
    if path.is_symlink():
        return f"link to {os.readlink(path)}"
    return path.read_text(errors="replace") if path.is_file() else None


class Folder:
    """A folder in which commands work, and what the user has in it and beside it."""

    def __init__(self, path: Path, draw: random.Random) -> None:
        self.path, self._draw = path, draw
        self.users: dict[Path, str] = {}
        path.mkdir(parents=True)
        self._own = path.with_name(f"{path.name}-own")
        self._own.mkdir()
        self._note(self._own / "notes")

    def _note(self, path: Path) -> None:
        if not os.path.lexists(path):
            path.write_text(NOTES)
            self.users[path] = NOTES

    def add_notes(self) -> None:
        """In each folder that commands have made, but for temporary ones."""
        for folder, folders, _ in os.walk(self.path):
            folders[:] = [name for name in folders if not name.startswith(".")]
            for name in ("notes.txt", ".draft.writing", "notes.npy", "notes.safetensors"):
                self._note(Path(folder, name))

    def add_links(self, names: list[str]) -> None:
        """And files, in the places of what commands are still to write."""
        own = [self._own, self._own / "notes", self._own / "none"]
        for name in self._draw.sample(names, min(3, len(names))):
            path = self.path / name
            if path.parent.is_dir() and not os.path.lexists(path):
                path.symlink_to(self._draw.choice(own))
                self.users[path] = f"link to {os.readlink(path)}"

    def results(self) -> set[Path]:
        return {
            file for file in self.path.rglob("*") if file.name in RESULTS or "kept" in file.parts
        }

    def assert_kept(self) -> None:
        assert_whole(file for file in self.path.rglob("[!.]*") if file not in self.users)
        gone = {str(path) for path, what in self.users.items() if state_of(path) != what}
        assert not gone
        assert [path.name for path in self._own.iterdir()] == ["notes"]


def calls_in(caller: Caller, name: str, folder: Folder, seconds: float) -> tuple[int, str]:
    command, made, (needs, again) = WORKS[name]
    words = again if needs and (folder.path / needs).exists() else command
    said, workflow = (folder.path.with_name(f"{folder.path.name}.{of}") for of in ("said", "npz"))
    if "{workflow}" in words:
        agent(workflow, workflow="a: User1; b: User2")
    before = folder.results()
    words = words.format(folder=folder.path, workflow=workflow)
    code, told = caller.call(words, said, seconds)
    assert "Traceback" not in told, told
    assert before <= folder.results(), (name, folder.path)
    folder.assert_kept()
    assert code or os.path.lexists(folder.path / made), (name, folder.path, told)
    return code, told


@pytest.mark.parametrize(
    ("kills", "folders"),
    [
        pytest.param(3, 3, marks=pytest.mark.system),
        pytest.param(300, 44, marks=[pytest.mark.slow, pytest.mark.timeout(7200)]),
    ],
)
def test_nothing_finished_and_nothing_of_the_users_goes(kills, folders, caller, tmp_path):
    seconds, names, n_kills = dict[str, float](), dict[str, list[str]](), 0
    trained = Folder(tmp_path / "trained", random.Random(0))
    assert calls_in(caller, "run", trained, 600)[0] == 0
    for number in range(10 * folders):
        if number >= folders and n_kills >= kills:
            break
        name, draw = list(WORKS)[number % len(WORKS)], random.Random(number)
        folder = Folder(tmp_path / f"{number}", draw)
        if name in READING:
            subprocess.run(["cp", "-r", trained.path / "run", folder.path], check=True)
        if name not in seconds:
            whole, start = Folder(tmp_path / f"whole-{number}", draw), time.monotonic()
            for copied in folder.path.iterdir():
                subprocess.run(["cp", "-r", copied, whole.path], check=True)
            code, told = calls_in(caller, name, whole, 600)
            assert code == 0, told
            seconds[name] = time.monotonic() - start
            names[name] = [str(one.relative_to(whole.path)) for one in whole.path.rglob("*")]
        for _ in range(1 + kills // folders):
            delay = 0.1 + draw.random() * draw.uniform(0.0, seconds[name])  # More often early.
            code, _ = calls_in(caller, name, folder, delay)
            n_kills += code == -signal.SIGKILL
            folder.add_notes()
        folder.add_links(names[name])
        code, told = calls_in(caller, name, folder, 600)
        assert code in (0, 1, 2), told
        if "is a link" not in told and code:
            print(f"{number} {name}: {told.strip().splitlines()[-1]}")
    assert n_kills >= kills
