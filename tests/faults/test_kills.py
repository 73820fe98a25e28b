"""Every command that writes is killed again and again: nothing finished is lost, and it goes on.

KILLS says how many kills there are in all, two commands at a time:

    KILLS=300 python -m pytest -m slow --timeout 14400 -v -s tests/faults/test_kills.py
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.faults.checks import assert_whole
from tests.faults.main_process import ROOT, of_session
from tests.processes import survivors
from tests.workflow_rl.workflows.test_search_workflow_command import agent

KILLS = int(os.environ.get("KILLS", "14"))
IN_ONE_FOLDER = 3
"""Kills before a folder's work is brought to its end."""
MOST_SECONDS = 1200.0
CAGE2 = "--simulator compiled --observation belief --actions by-host --red-agent attackers"
SMALL = "--total-episodes 48 --episodes-per-update 12 --n-workers 1 --checkpoint-every 1"
TINY = f"--env tests.any_envs:TargetEnv {SMALL}"


@dataclass(frozen=True)
class Work:
    """What a command does in a folder. made: a file that tells that the work is done.

    again: how it goes on once the file of that name is there; else the command is given again.
    """

    command: str
    made: str
    again: tuple[str, str] = ("", "")


WORKS = {
    "train": Work(
        f"train-async --n-envs 6 --hidden-sizes 8 {CAGE2} {SMALL} --keep-every 1 --quiet "
        "--final-evaluation 2 --run-dir {folder}/run",
        "run/evaluation.json",
        (
            "run/checkpoint.safetensors",
            "train-async --resume {folder}/run --quiet --final-evaluation 2",
        ),
    ),
    "evaluate": Work("evaluate {run} --episodes 5 --json {folder}/scores.json", "scores.json"),
    "tune": Work(
        f"tune {TINY} --trials 2 --quiet --run-dir {{folder}}/study",
        "study/best.json",
        ("study/tune.json", "tune --resume {folder}/study --trials 2 --quiet"),
    ),
    "train-champion": Work(
        "train-champion --run-dir {folder}/run --total-episodes 400 --selection-episodes 32 "
        "--episodes 2 --quiet",
        "run/card.json",
    ),
    "export": Work("export {run} --format npz --output {folder}/agent.npz", "agent.npz"),
    "search-workflow": Work(
        "search-workflow {workflow} --episodes 2 --quiet --output {folder}/found",
        "found/workflow.json",
    ),
}


def results(folder: Path) -> set[Path]:
    """What must not be lost. A summary goes when a run goes on, and memory when it is replaced."""
    names = {
        "checkpoint.safetensors",
        "best.safetensors",
        "config.json",
        "evaluation.json",
        "card.json",
    }
    return {file for file in folder.rglob("*") if file.name in names or "kept" in file.parts}


class Killer:
    """Kills commands at random moments of their lives. n_kills: so far; seconds: of each work."""

    def __init__(self, inputs: dict[str, Path]) -> None:
        self.inputs = inputs
        self.n_kills: Counter[str] = Counter()
        self.seconds: dict[str, float] = {}

    def live(self, work: Work, folder: Path, delay: float | None) -> tuple[int, str]:
        """Run the command until it ends or is killed. Return its exit code and what it says."""
        needs, again = work.again
        words = again if needs and (folder / needs).exists() else work.command
        arguments = words.format(folder=folder, **self.inputs).split()
        with (folder / ".said").open("w+") as said:
            process = subprocess.Popen(
                [sys.executable, "-m", "workflow_rl", *arguments],
                cwd=ROOT, stdout=said, stderr=said, start_new_session=True,
            )  # fmt: skip
            try:
                process.wait(MOST_SECONDS if delay is None else delay)
            except subprocess.TimeoutExpired:
                assert delay is not None, f"{arguments} does not end"
                process.send_signal(signal.SIGKILL)
            finally:
                if delay is None and process.poll() is None:
                    process.kill()
            process.wait()
            # A helper of multiprocessing that watches for leaks may outlive it for a moment.
            assert not survivors(of_session(process.pid), 10), arguments
            return process.returncode, (folder / ".said").read_text()

    def strike(self, name: str, folder: Path, seed: int) -> None:
        """Kill the work in a new folder a few times, then bring it to its end."""
        work, draw = WORKS[name], random.Random(seed)
        folder.mkdir(parents=True)
        for _ in range(IN_ONE_FOLDER):
            before = results(folder)
            code, said = self.live(work, folder, draw.uniform(0.5, self.seconds[name]))
            self.n_kills[name] += code == -signal.SIGKILL
            assert before <= results(folder), (name, folder)
            assert_whole(folder.rglob("[!.]*"))
            if code != -signal.SIGKILL:
                self.assert_ended(name, folder, code, said)
                return
        self.assert_ended(name, folder, *self.live(work, folder, None))

    def assert_ended(self, name: str, folder: Path, code: int, said: str) -> None:
        """The work is done, or the command says in one line why and what to do."""
        assert "Traceback" not in said, said
        work = WORKS[name]
        # A run that was killed after its end, before its evaluation, is finished.
        is_done = code == 0 or (code == 2 and "finished" in said)
        assert is_done or code == 2, (name, folder, code, said)
        if code == 0:
            assert (folder / work.made).exists(), (name, folder, said)
        assert_whole(folder.rglob("[!.]*"))
        if code == 2 and not is_done:
            print(f"{name} says how: {said.strip().splitlines()[-1]}")


@pytest.fixture(scope="module")
def killer(tmp_path_factory: pytest.TempPathFactory) -> Killer:
    made = tmp_path_factory.mktemp("made")
    inputs = {"run": made / "run", "workflow": made / "workflow.npz"}
    agent(inputs["workflow"], workflow="a: User1; b: User2")
    killer = Killer(inputs)
    command = f"train-async --n-envs 6 --hidden-sizes 8 {CAGE2} {SMALL} --quiet --run-dir {{run}}"
    assert killer.live(Work(command, ""), made, None)[0] == 0
    for name, work in WORKS.items():
        folder = made / name
        folder.mkdir()
        start = time.monotonic()
        code, said = killer.live(work, folder, None)
        assert code == 0, said
        killer.seconds[name] = time.monotonic() - start
        print(f"{name}: {killer.seconds[name]:.1f} s undisturbed")
    return killer


@pytest.mark.slow
def test_commands_that_are_killed_lose_nothing_finished(killer, tmp_path):
    numbers = itertools.count()

    def strike_all(worker: int) -> None:
        while killer.n_kills.total() < KILLS:
            number = next(numbers)
            name = list(WORKS)[number % len(WORKS)]
            killer.strike(name, tmp_path / f"{number}-{name}", number)

    strike: Callable[[int], None] = strike_all
    with ThreadPoolExecutor(2) as both:
        list(both.map(strike, range(2)))
    print(dict(killer.n_kills))
    assert killer.n_kills.total() >= KILLS
