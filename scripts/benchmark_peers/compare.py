"""This package beside six others: PPO on CAGE-2 against B_line, with the same networks, batches,
epochs and environment.

Every library trains in a process tree of its own, alone on the machine, in turns with the others,
on this package's faster CybORG (cyborg) and on its compiled simulator (compiled); the others on
csle-cyborg as published, too. The environment itself notes when episodes end and with what return.
A run lasts so many seconds from its launch:

- start: until the first episode ends; of this package, which is asked for its metrics and not its
  environment, until the first update of 24 episodes is learned;
- episodes/s: from then on, so with all the learning there is in between;
- memory: the most that all its processes took together (PSS);
- to a return: until the mean of the last 100 episodes of training reached it.

Peers are installed in `.peers`, several GB. Rows are printed as runs end, and at the end go to
--json and the tables to the page.

    python scripts/benchmark_peers/compare.py
    python scripts/benchmark_peers/compare.py --only sb3,async --rounds 1 --seconds 30
"""

from __future__ import annotations

import csv
import functools
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import psutil

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts"), str(HERE)]

import task  # noqa: E402
from client_environments import build_wheel, install, versions  # noqa: E402
from tables import fill, page_tables  # noqa: E402

from workflow_rl import portable  # noqa: E402
from workflow_rl.machine_facts import environment  # noqa: E402
from workflow_rl.measuring.benchmark import in_turns  # noqa: E402
from workflow_rl.output_files import write_text  # noqa: E402

Event = tuple[float, float]
"""When an episode ended, and with what return."""

PACKAGES = {
    "cleanrl": "torch",
    "rllib": "ray",
    "sample_factory": "sample-factory",
    "sb3": "stable-baselines3",
    "tianshou": "tianshou",
    "torchrl": "torchrl",
}
"""By peer, the distribution whose version is told."""
IN_PROCESS = [f"{peer}-{task.IN_PROCESS}" for peer in ("cleanrl", "sb3", "tianshou", "torchrl")]
"""Peers with a process for each env that can do without: better where a step takes little time."""
OURS = {"sync": (), "async": (), "async-rl": ("--async-rl",)}
"""This package's trainers, and their further options."""
ENTRIES = {
    "published": ["ceiling", *PACKAGES],
    "cyborg": ["ceiling", *PACKAGES, *IN_PROCESS, *OURS],
    "compiled": ["ceiling", *PACKAGES, *IN_PROCESS, *OURS],
}
"""By simulator, who trains on it."""
SECONDS = {"published": 60.0, "cyborg": 60.0, "compiled": 40.0}
"""Of a run, unless told; of one without a learner CEILING_SECONDS."""
CEILING_SECONDS = 15.0
TARGETS = (-60.0, -30.0)
WINDOW = 100
POLL_SECONDS, MEMORY_SECONDS = 0.25, 10.0
UNEQUAL = (
    *("PYTHONPATH", "OMP_NUM_THREADS", "MKL_NUM_THREADS", portable.NATIVE),
    *portable.PINS,
)
"""Environment variables of the caller that only some of the libraries would heed, and those with
which this package pins the kernels of its own processes."""
PAGE = ROOT / "docs" / "explanations" / "peers.md"
ROWS = ROOT / "docs" / "figures" / "peers.json"


def own_command(trainer: str, simulator: str, folder: Path) -> list[str]:
    settings = {
        "simulator": simulator,
        "red-agent": task.RED_AGENT,
        "n-envs": task.N_ENVS,
        "n-workers": task.N_CORES,
        "episodes-per-update": task.N_ENVS * task.N_STEPS // 100,
        "total-episodes": task.FOREVER // 1000,
        "hidden-sizes": ",".join(map(str, task.HIDDEN)),
        "epochs": task.EPOCHS,
        "minibatch-size": task.MINIBATCH,
        "learning-rate": task.LEARNING_RATE,
        "learning-rate-final": task.LEARNING_RATE,
        "discount": task.GAMMA,
        "gae-lambda": task.LAMBDA,
        "clip-range": task.CLIP,
        "value-coef": task.VALUE_COEF,
        "entropy-coef": task.ENTROPY_COEF,
        "max-grad-norm": task.MAX_GRAD_NORM,
        "reward-scale": task.REWARD_SCALE,
        "device": "cpu",
        "run-dir": folder / "run",
    }
    options = [f"--{name}={value}" for name, value in settings.items()]
    script = "parallel_train" if trainer == "sync" else "async_train"
    program = str(ROOT / "workflow_rl" / f"{script}_workflow_rl.py")
    return [sys.executable, program, *options, *OURS[trainer], "--quiet"]


def processes_of(folder: Path) -> Iterator[psutil.Process]:
    """Yield the processes of a run, wherever they are in the tree of processes by now."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(task.LOG_FOLDER) == str(folder):
                yield process


def memory(folder: Path) -> float:
    """Return the MB that a run's processes take; shared pages count once."""
    total = 0.0
    for process in processes_of(folder):
        with suppress(psutil.Error):
            total += process.memory_full_info().pss / 1e6
    return total


def end_all(folder: Path) -> None:
    """Ask a run's processes to end, and kill them 5 s later, with the shared memory they leave."""
    ended: list[int] = []
    for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGKILL):
        remaining = list(processes_of(folder))
        ended += [process.pid for process in remaining]
        for process in remaining:
            with suppress(psutil.Error):
                process.send_signal(number)
        psutil.wait_procs(remaining, timeout=5)
    for pid in ended:
        for file in Path("/dev/shm").glob(f"torch_{pid}_*"):
            file.unlink(missing_ok=True)


def new_events(metrics: Path, n_known: int) -> tuple[list[Event], int]:
    """Return the episodes of updates that this package has written since, as of now."""
    if not metrics.exists():
        return [], n_known
    with metrics.open() as file:
        rows = [row for row in csv.DictReader(file) if row["workers_restarted"]][n_known:]
    now = time.time()
    n_episodes = task.N_ENVS * task.N_STEPS // 100
    events = [(now, float(row["return_mean"])) for row in rows for _ in range(n_episodes)]
    return events, n_known + len(rows)


def noted_events(folder: Path) -> list[Event]:
    lines = [line for path in folder.glob("*.txt") for line in path.read_text().splitlines(True)]
    # The last line of a process that was killed may be half of a line.
    pairs = [line.split() for line in lines if line.endswith("\n")]
    return sorted((float(when), float(total)) for when, total in pairs)


def run_one(name: str, simulator: str, python: str, seconds: float) -> dict[str, Any]:
    """Train for so many seconds. Raises ClickException if the training ends by itself."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        metrics, n_rows, events = folder / "run" / "metrics.csv", 0, list[Event]()
        variables = {key: text for key, text in os.environ.items() if key not in UNEQUAL}
        variables[task.LOG_FOLDER] = str(folder)
        if name in OURS:
            command = own_command(name, simulator, folder)
        elif name == "ceiling":
            command = [python, str(HERE / "task.py"), simulator]
            variables["PYTHONPATH"] = str(ROOT)
        else:
            peer, *how = name.split("-", 1)
            command = [python, str(HERE / f"{peer}_ppo.py"), simulator, *how]
            # Ray leaves what it writes there.
            variables |= {"HOME": str(folder), "RAY_TMPDIR": str(folder), portable.NATIVE: "1"}
        start, peak, looked = time.time(), 0.0, 0.0
        with (folder / "output").open("wb") as output:
            process = subprocess.Popen(
                command, cwd=folder, env=variables, stdout=output, stderr=output
            )
            try:
                while time.time() < start + seconds and process.poll() is None:
                    time.sleep(POLL_SECONDS)
                    news, n_rows = new_events(metrics, n_rows)
                    events += news
                    if time.time() > looked + MEMORY_SECONDS:
                        peak, looked = max(peak, memory(folder)), time.time()
                ended_itself = process.poll() is not None
            finally:
                end_all(folder)
                process.wait()
        if ended_itself:
            told = (folder / "output").read_text(errors="replace")[-3000:]
            raise click.ClickException(f"{name} on {simulator} did not train:\n{told}")
        return row_of(events or noted_events(folder), start) | {"megabytes": round(peak)}


def row_of(events: Sequence[Event], start: float) -> dict[str, Any]:
    """Return what a run came to. Seconds are from the launch; None for what was not reached."""
    times = [when for when, _ in events]
    totals = [total for _, total in events]
    means = [statistics.fmean(totals[max(0, n - WINDOW) : n]) for n in range(1, len(events) + 1)]
    reached: dict[str, float | None] = {f"{target:g}": None for target in TARGETS}
    for target in TARGETS:
        for when, mean in list(zip(times, means, strict=True))[WINDOW - 1 :]:
            if mean >= target:
                reached[f"{target:g}"] = round(when - start, 2)
                break
    # Envs in lockstep end their first episodes within moments of one another: count from the last.
    counted_from = max((when for when in times if when <= times[0] + 1.0), default=0.0)
    n_later = sum(when > counted_from for when in times)
    return {
        "start": round(times[0] - start, 2) if events else None,
        "episodes": len(events),
        "rate": round(n_later / (times[-1] - counted_from), 3) if n_later else 0.0,
        "last_return": round(means[-1], 1) if events else None,
        "reached": reached,
    }


def installed(names: Sequence[str]) -> dict[str, Path]:
    """Install the peers among the names, and return the Python of each."""
    pythons = {}
    with tempfile.TemporaryDirectory() as folder:
        for peer in PACKAGES:
            if not {peer, f"{peer}-{task.IN_PROCESS}"}.isdisjoint(names):
                wheel = next(Path(folder).glob("*.whl"), None) or build_wheel(Path(folder))
                # Sample Factory asks for Gymnasium below 1.0 and NumPy below 2, and works with
                # those that the environment needs: its file names all packages.
                pinned = HERE / f"{peer}_ppo.txt"
                shared = ROOT / "examples" / "requirements" / f"{peer}_ppo.txt"
                requirements = pinned if pinned.exists() else shared
                pythons[peer] = install(
                    ROOT / ".peers" / peer, wheel, requirements, pinned.exists()
                )
    return pythons


def turn(
    name: str, simulator: str, pythons: Mapping[str, Path], seconds: float | None, index: int
) -> dict[str, Any]:
    lasts = seconds or (CEILING_SECONDS if name == "ceiling" else SECONDS[simulator])
    about = {"name": name, "simulator": simulator, "round": index, "seconds": lasts}
    python = str(pythons.get(name.partition("-")[0], sys.executable))
    row = about | run_one(name, simulator, python, lasts)
    click.echo(json.dumps(row))
    return row


@click.command(help=__doc__, context_settings={"show_default": True})
@click.option("--only", default="", metavar="NAME,...", help="Not all; nothing is written.")
@click.option("--rounds", type=click.IntRange(1), default=2)
@click.option("--seconds", type=click.FloatRange(1), help="Of every run, instead of 15 to 60.")
@click.option(
    "--simulator",
    "simulators",
    multiple=True,
    type=click.Choice(list(ENTRIES)),
    show_default="all",
    help="The rows of the others stay. May be given again.",
)
@click.option("--json", "rows_file", type=Path, default=ROWS, metavar="FILE")
def main(
    only: str, rounds: int, seconds: float | None, simulators: tuple[str, ...], rows_file: Path
) -> None:
    everyone = {name for names in ENTRIES.values() for name in names}
    names = only.split(",") if only else list(everyone)
    if unknown := sorted(set(names) - everyone):
        raise click.BadParameter(f"there is no {unknown[0]}", param_hint="--only")
    pythons = installed(names)
    turns = {
        f"{name} on {simulator}": functools.partial(turn, name, simulator, pythons, seconds)
        for simulator in simulators or ENTRIES
        for name in ENTRIES[simulator]
        if name in names
    }
    before = json.loads(ROWS.read_text()) if simulators else {"measured": {}, "rows": []}
    kept = [row for row in before["rows"] if row["simulator"] not in simulators]
    measured = [row for rows in in_turns(turns, rounds, quiet=False).values() for row in rows]
    about = {"date": datetime.now(UTC).date().isoformat(), **environment()}
    told = {
        "measured": {**before["measured"], **dict.fromkeys(simulators or ENTRIES, about)},
        "versions": {
            peer: versions(python, [PACKAGES[peer], "gymnasium", "numpy", "torch"])
            for peer, python in pythons.items()
        },
        "rows": [*kept, *measured],
    }
    click.echo(page_tables(told))
    if not only:
        write_text(rows_file, json.dumps(told, indent=1) + "\n")
        write_text(PAGE, fill(PAGE, told))


if __name__ == "__main__":
    main()
