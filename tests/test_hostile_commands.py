"""Forty hostile environments through every command that plays environments, and from Python."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.hostile_envs import DEEDS, SLEEP, write_module
from tests.tiny_runs import same_weights

ROOT = Path(__file__).resolve().parents[1]
DEADLINE = 3.0
MOST_SECONDS = 60.0
TRAIN = ("--total-steps", "40", "--steps-per-update", "20", "--n-envs", "2", "--n-workers", "1",
         "--hidden-sizes", "4", "--quiet", "--device", "cpu")  # fmt: skip
FROM_PYTHON = """
import sys
sys.path.insert(0, {root!r})
from tests.process_state import process_state
from workflow_rl import TrainConfig, evaluate, load_agent, train
from workflow_rl.runs.config import ConfigError
config = TrainConfig("async", env={env!r}, total_steps=40, steps_per_update=20, n_envs=2,
    n_workers=1, settings=dict(hidden_sizes=(4,)), worker_timeout={deadline}, device="cpu")
before = process_state()
try:
    print({call})
except ValueError as error:
    assert "\\n" not in str(error)
    print(f"Error: {{error}}")
    sys.exit(2)
finally:
    after = process_state()
    print("changed:" + ",".join(name for name in after if after[name] != before[name]))
"""
CALLS = {
    "train": "train(config, 'new')",
    "resume": "train(config.changed(total_steps=80), 'resumed', resume=True)",
    "evaluate": "evaluate('run', episodes=4, n_workers=1, worker_timeout={deadline}).returns",
    "load_agent": "load_agent('run').act([0.5, -0.5])",
}
COMMANDS = {
    "train": ("train-async", "--env", "{env}", *TRAIN, "--run-dir", "new"),
    "train-sync": ("train-sync", "--env", "{env}", *TRAIN, "--run-dir", "new"),
    "resume": ("train-async", "--resume", "resumed", "--total-steps", "80", "--quiet"),
    "evaluate": ("evaluate", "run", "--episodes", "4", "--n-workers", "1", "--quiet"),
    "check-env": ("check-env", "{env}", "--steps", "20", "--seconds", "1"),
    "replay": ("replay", "run"),
}


class Zygote:
    """See `zygote.py`."""

    def __init__(self, home: Path) -> None:
        self._home = home
        variables = {**os.environ, "XDG_STATE_HOME": str(home / "state"), "PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.zygote"], cwd=ROOT,
            env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(self, folder: Path, **job: Any) -> tuple[int, str]:
        """The exit code and what was printed."""
        output = self._home / "output"
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        asked = {"folder": str(folder), "output": str(output), **job}
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline()), output.read_text()


@pytest.fixture(scope="module")
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    made = Zygote(tmp_path_factory.mktemp("zygote"))
    yield made
    made.process.kill()
    made.process.wait()


def outcomes(zygote: Zygote, folder: Path, env: str, deadline: float) -> dict[str, tuple[int, str]]:
    """What every command and call gives on an environment. Leaves the runs `new-...`."""
    found = {}
    for way, jobs in (("command", COMMANDS), ("program", CALLS)):
        for name, job in jobs.items():
            for run in ("new", "resumed"):
                shutil.rmtree(folder / run, ignore_errors=True)
            shutil.copytree(folder / "run", folder / "resumed")
            if way == "command":
                words = [word.format(env=env) for word in job]
                asked: Any = words + ["--worker-timeout", str(deadline)] * (name != "replay")
            else:
                call = str(job).format(deadline=deadline)
                asked = FROM_PYTHON.format(root=str(ROOT), env=env, deadline=deadline, call=call)
            start = time.monotonic()
            code, output = zygote.run(folder, **{way: asked})
            assert time.monotonic() < start + MOST_SECONDS, (way, name, output)
            found[f"{way} {name}"] = code, output
            for run in ("new", "resumed"):
                shutil.rmtree(folder / f"{run}-{way}-{name}", ignore_errors=True)
                if (folder / run).exists():
                    (folder / run).rename(folder / f"{run}-{way}-{name}")
    return found


@pytest.fixture(scope="module")
def twin(
    zygote: Zygote, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, tuple[int, str]]]:
    """A folder with a run, and what all gives for the harmless twin."""
    folder = tmp_path_factory.mktemp("twin")
    (folder / "game.py").write_text("from tests.hostile_envs import Harmless as Env\n")
    words = ["train-async", "--env", "game:Env", *TRAIN, "--run-dir", "run"]
    code, output = zygote.run(folder, command=words)
    assert code == 0, output
    found = outcomes(zygote, folder, "game:Env", 60.0)
    assert {name for name, (code, _) in found.items() if code} == {"command replay"}, found
    return folder, found


def _changed(output: str) -> list[str]:
    """The parts of the process's state that a call has changed."""
    lines = [line for line in output.splitlines() if line.startswith("changed:")]
    return lines[0].split(":")[1].split(",") if lines else []


@pytest.mark.slow
@pytest.mark.parametrize("name", DEEDS)
def test_every_command_and_call_is_as_with_the_harmless_twin_or_is_refused_in_a_line(
    name: str, zygote: Zygote, twin: tuple[Path, dict[str, tuple[int, str]]], tmp_path: Path
) -> None:
    folder, harmless = twin
    hostile = folder / "hostile"
    shutil.rmtree(hostile, ignore_errors=True)
    for kind in ("new", "resumed"):
        for run in folder.glob(f"{kind}-*"):
            if not run.name.endswith("-twin"):
                shutil.rmtree(folder / f"{run.name}-twin", ignore_errors=True)
                run.rename(folder / f"{run.name}-twin")
    file = folder / f"{write_module(folder, name).partition(':')[0]}.py"
    file.replace(folder / "game.py")
    deadline = DEADLINE if DEEDS[name].hangs or name == "stops_clock" else 60.0
    wrong = []
    for job, (code, output) in outcomes(zygote, folder, "game:Env", deadline).items():
        _, way, command = ("", *job.split())
        lines = [line for line in output.splitlines() if "Error: " in line]
        if code == 0 and command in ("evaluate", "load_agent"):
            numbers = re.compile(r"-?\d+\.\d+|\[.*\]")
            is_right = numbers.findall(output)[:3] == numbers.findall(harmless[job][1])[:3]
        elif code == 0 and command in ("train", "train-sync", "resume"):
            run = f"{'resumed' if command == 'resume' else 'new'}-{way}-{command}"
            is_right = same_weights(folder / run, folder / f"{run}-twin")
        elif code == 1 and command == "check-env":
            is_right = "fail" in output
        else:
            is_right = code == 0 or (code == 2 and len(lines) == 1 and "Traceback" not in output)
        if code == 0 and DEEDS[name].is_refused and command in ("train", "train-sync", "resume"):
            is_right = False
        changed = {*_changed(output)} - {*_changed(harmless[job][1])}
        if not is_right or changed:
            wrong.append((job, code, output[-1500:]))
        print(name, job, code, (lines or output.splitlines() or [""])[-1][:200])
    left = [one for one in psutil.process_iter(["cmdline"]) if one.info["cmdline"] == list(SLEEP)]
    for process in left:
        process.send_signal(signal.SIGKILL)
    assert not left
    assert not psutil.Process(zygote.process.pid).children()
    assert not wrong, wrong
