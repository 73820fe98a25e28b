"""Commands that are killed, and go on where the user keeps notes and links, remove none of them.

The long version has 300 kills in 40 folders:

    python -m pytest -m slow --timeout 7200 -v -s tests/faults/test_users_files.py
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TINY = "--total-episodes 36 --episodes-per-update 12 --n-workers 1 --quiet"
TARGET = f"--env tests.any_envs:TargetEnv {TINY} --checkpoint-every 1"
DUEL = "train-duel --env examples.small_games:Matrix --generations 2 --payoff-episodes 4"
SAC = "--algorithm sac --env Pendulum-v1 --total-steps 800 --steps-per-update 200 --n-workers 1"
WORKS = {
    "run": (
        f"train-async {TARGET} --keep-every 1 --run-dir {{folder}}/run",
        ("run/checkpoint.safetensors", "train-async --resume {folder}/run --quiet"),
    ),
    "memory": (
        f"train-async {SAC} --warm-up-steps 200 --checkpoint-every 1 --quiet --run-dir "
        "{folder}/run",
        ("run/checkpoint.safetensors", "train-async --resume {folder}/run --quiet"),
    ),
    "duel": (f"{DUEL} {TINY} --checkpoint-every 1 --run-dir {{folder}}/duel", ("", "")),
    "population": (
        f"train-population {TARGET} --n-policies 2 --run-dir {{folder}}/run",
        ("run/population.json", "train-population --resume {folder}/run --quiet"),
    ),
    "tune": (
        f"tune {TARGET} --trials 2 --run-dir {{folder}}/study",
        ("study/tune.json", "tune --resume {folder}/study --trials 2 --quiet"),
    ),
    "evaluate": ("evaluate {folder}/run --episodes 20 --quiet --n-workers 1", ("", "")),
    "export": ("export {folder}/run --format hub --output {folder}/hub", ("", "")),
    "record": ("record {folder}/run {folder}/own.npz --episodes 20 --quiet", ("", "")),
    "report": ("report {folder}/run --output {folder}/report.html", ("", "")),
}
"""What is called in a folder, and how it goes on once the file of that name is there."""
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

    def assert_kept(self) -> None:
        gone = {str(path) for path, what in self.users.items() if state_of(path) != what}
        assert not gone
        assert [path.name for path in self._own.iterdir()] == ["notes"]


def calls_in(caller: Caller, name: str, folder: Folder, seconds: float) -> tuple[int, str]:
    command, (needs, again) = WORKS[name]
    words = again if needs and (folder.path / needs).exists() else command
    said = folder.path.with_name(f"{folder.path.name}.said")
    code, told = caller.call(words.format(folder=folder.path), said, seconds)
    assert "Traceback" not in told, told
    return code, told


@pytest.mark.parametrize(
    ("kills", "folders"),
    [
        pytest.param(3, 3, marks=pytest.mark.system),
        pytest.param(300, 40, marks=[pytest.mark.slow, pytest.mark.timeout(7200)]),
    ],
)
def test_nothing_of_the_users_goes(kills, folders, caller, tmp_path):
    seconds, names, n_kills, ended = dict[str, float](), dict[str, list[str]](), 0, Counter[str]()
    trained = Folder(tmp_path / "trained", random.Random(0))
    assert calls_in(caller, "run", trained, 600)[0] == 0
    for number in range(10 * folders):
        if number >= folders and n_kills >= kills:
            break
        name, draw = list(WORKS)[number % len(WORKS)], random.Random(number)
        folder = Folder(tmp_path / f"{number}", draw)
        if "{folder}/run " in WORKS[name][0] and not WORKS[name][1][0]:
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
            folder.assert_kept()
            folder.add_notes()
        folder.add_links(names[name])
        code, told = calls_in(caller, name, folder, 600)
        ended[f"{name}: {code}"] += 1
        folder.assert_kept()
        assert code in (0, 1, 2), told
        if "is a link" not in told and code:
            print(f"{number} {name}: {told.strip().splitlines()[-1]}")
    print(n_kills, "kills,", number, "folders;", dict(ended))
    assert n_kills >= kills
