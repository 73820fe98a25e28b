"""This package beside six others: PPO on CAGE-2 against B_line, with the same networks, batches,
epochs and environment.

Every library trains in a process tree of its own, alone on the machine, in turns with the others,
on csle-cyborg as published (cyborg-stock) and on this package's faster CybORG (cyborg); this
package on its compiled simulator as well. The environment itself notes when episodes end and with
what return. A run lasts so many seconds from its launch:

- start: until the first episode ends; of this package, which is asked for its metrics and not its
  environment, until the first update of 24 episodes is learned;
- episodes/s: from then on, so with all the learning there is in between;
- memory: the most that all its processes took together (PSS);
- to a return: until the mean of the last 100 episodes of training reached it.

Peers are installed in `.peers`, several GB. Rows are printed as runs end, and at the end go to
--json, the tables to the page, the chart to --plot.

    python scripts/benchmark_peers/compare.py
    python scripts/benchmark_peers/compare.py --only sb3,async --rounds 1 --seconds 30
"""

from __future__ import annotations

import csv
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import psutil
from tqdm import tqdm

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts"), str(HERE)]

import task  # noqa: E402
from environments import IN_PROCESS, PACKAGES, install, versions  # noqa: E402
from tables import chart, fill, page_tables  # noqa: E402

from workflow_rl import portable  # noqa: E402
from workflow_rl.output_files import write_text  # noqa: E402
from workflow_rl.runs.machine import environment  # noqa: E402

Event = tuple[float, float]
"""When an episode ended, and with what return."""

TARGETS = (-60.0, -30.0)
WINDOW = 100
POLL_SECONDS = 0.25
MEMORY_SECONDS = 10.0
PAGE = ROOT / "docs" / "explanations" / "peers.md"
FIGURES = ROOT / "docs" / "figures"
OURS = {"sync": (), "async": (), "async-rl": ("--async-rl",)}
"""This package's trainers, and what they are called with besides."""
SECONDS = {"cyborg-stock": 60.0, "cyborg": 60.0, "compiled": 20.0}
"""Of a run, unless told; of one without a learner CEILING_SECONDS."""
CEILING_SECONDS = 15.0


UNEQUAL = ("PYTHONPATH", "OMP_NUM_THREADS", "MKL_NUM_THREADS", portable.NATIVE)
"""Environment variables of the caller's that some of them would heed."""


def in_process(peer: str) -> str:
    return f"{peer}-{task.IN_PROCESS}"


def entries(only: Sequence[str]) -> list[tuple[str, str]]:
    """A round: who trains on which simulator."""
    names = {
        "cyborg-stock": ["ceiling", *PACKAGES, "async"],
        "cyborg": ["ceiling", *PACKAGES, *map(in_process, IN_PROCESS), *OURS],
        "compiled": ["ceiling", *OURS],
    }
    return [
        (name, simulator)
        for simulator, all_names in names.items()
        for name in all_names
        if not only or name in only
    ]


def own_command(trainer: str, simulator: str, folder: Path) -> list[str]:
    script = "parallel_train" if trainer == "sync" else "async_train"
    first, second = task.HIDDEN
    stock = ["--stock-simulator"] if simulator == "cyborg-stock" else ["--simulator", simulator]
    settings = {
        "red-agent": task.RED_AGENT,
        "n-envs": task.N_ENVS,
        "n-workers": task.N_CORES,
        "episodes-per-update": task.N_ENVS * task.N_STEPS // 100,
        "total-episodes": task.FOREVER // 1000,
        "hidden-sizes": f"{first},{second}",
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
    program = str(ROOT / "workflow_rl" / f"{script}_workflow_rl.py")
    return [sys.executable, program, *options, *stock, *OURS[trainer], "--quiet"]


def processes_of(folder: Path) -> Iterator[psutil.Process]:
    """Those that were started for a run, wherever in the tree of processes they are by now."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(task.LOG_FOLDER) == str(folder):
                yield process


def memory(folder: Path) -> float:
    """MB, shared pages counted once."""
    total = 0.0
    for process in processes_of(folder):
        with suppress(psutil.Error):
            total += process.memory_full_info().pss / 1e6
    return total


def end_all(folder: Path) -> None:
    """Asked first, and killed 5 s later. Who is killed leaves shared memory behind: it goes too."""
    ended: list[int] = []
    for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGKILL):
        left = list(processes_of(folder))
        ended += [process.pid for process in left]
        for process in left:
            with suppress(psutil.Error):
                process.send_signal(number)
        psutil.wait_procs(left, timeout=5)
    for pid in ended:
        for file in Path("/dev/shm").glob(f"torch_{pid}_*"):
            file.unlink(missing_ok=True)


def new_events(metrics: Path, n_known: int) -> tuple[list[Event], int]:
    """The episodes of updates that this package has written since, as of now, with their mean."""
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
    # The last line of a process that was killed may be half of one.
    pairs = [line.split() for line in lines if line.endswith("\n")]
    return sorted((float(when), float(total)) for when, total in pairs)


def run_one(name: str, simulator: str, python: str, seconds: float) -> dict[str, Any]:
    """Train for so long. Its row; raises ClickException if it ends by itself."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        metrics, n_rows, events = folder / "run" / "metrics.csv", 0, []
        if name in OURS:
            command = own_command(name, simulator, folder)
        else:
            peer, *how = name.split("-", 1)
            script = "ceiling" if name == "ceiling" else f"{peer}_ppo"
            command = [python, str(HERE / f"{script}.py"), simulator, *how]
        variables = {key: text for key, text in os.environ.items() if key not in UNEQUAL}
        variables[task.LOG_FOLDER] = str(folder)
        if name == "ceiling":
            variables["PYTHONPATH"] = str(ROOT)
        elif name not in OURS:
            # Ray leaves what it writes there.
            variables |= {"HOME": str(folder), "RAY_TMPDIR": str(folder)}
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
        events = events or noted_events(folder)
        if ended_itself:
            told = (folder / "output").read_text(errors="replace")[-3000:]
            raise click.ClickException(f"{name} on {simulator} did not train:\n{told}")
    return row_of(events, start) | {"megabytes": round(peak)}


def mean_of_last(events: Sequence[Event]) -> float:
    return statistics.fmean(total for _, total in events[-WINDOW:])


def row_of(events: Sequence[Event], start: float) -> dict[str, Any]:
    """Seconds are from the launch; null for what was not reached."""
    if not events:
        never = {f"{target:g}": None for target in TARGETS}
        return {
            "start": None,
            "episodes": 0,
            "rate": 0.0,
            "last_return": None,
            "reached": never,
        }
    times = [when for when, _ in events]
    means = [mean_of_last(events[: index + 1]) for index in range(len(events))]
    reached = {
        f"{target:g}": next(
            (
                round(when - start, 2)
                for index, (when, mean) in enumerate(zip(times, means, strict=True))
                if index + 1 >= WINDOW and mean >= target
            ),
            None,
        )
        for target in TARGETS
    }
    n_later = len(events) - times.count(times[0])
    return {
        "start": round(times[0] - start, 2),
        "episodes": len(events),
        "rate": round(n_later / (times[-1] - times[0]), 3) if n_later else 0.0,
        "last_return": round(means[-1], 1),
        "reached": reached,
    }


@click.command(help=__doc__, context_settings={"show_default": True})
@click.option("--only", default="", metavar="NAME,...", help="Not all; nothing is written.")
@click.option("--rounds", type=click.IntRange(1), default=2)
@click.option("--seconds", type=click.FloatRange(1), help="Of every run, instead of 15 to 60.")
@click.option("--try", "is_trial", is_flag=True, help="Write nothing.")
@click.option(
    "--json",
    "rows_file",
    type=click.Path(path_type=Path),
    default=FIGURES / "peers.json",
    metavar="FILE",
)
@click.option(
    "--plot",
    type=click.Path(path_type=Path),
    default=FIGURES / "peers.png",
    metavar="FILE",
)
def main(
    only: str, rounds: int, seconds: float | None, is_trial: bool, rows_file: Path, plot: Path
) -> None:
    names = [name for name in only.split(",") if name]
    known = {"ceiling", *PACKAGES, *map(in_process, IN_PROCESS), *OURS}
    unknown = sorted(set(names) - known)
    if unknown:
        raise click.BadParameter(f"there is no {unknown[0]}", param_hint="--only")
    round_ = entries(names)
    pythons = {}
    with tempfile.TemporaryDirectory() as folder:
        for peer in PACKAGES:
            if any(name in (peer, in_process(peer)) for name, _ in round_):
                pythons[peer] = str(install(peer, Path(folder)))
    told = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": environment(),
        "versions": {peer: versions(Path(python), peer) for peer, python in pythons.items()},
    }
    rows: list[dict[str, Any]] = []
    for index in range(rounds):
        # Every round begins with another, that no one always follows the same.
        shift = index * len(round_) // rounds
        for name, simulator in tqdm(round_[shift:] + round_[:shift], desc=f"round {index + 1}"):
            lasts = seconds or (CEILING_SECONDS if name == "ceiling" else SECONDS[simulator])
            about = {"name": name, "simulator": simulator, "round": index, "seconds": lasts}
            python = pythons.get(name.partition("-")[0], sys.executable)
            rows.append(about | run_one(name, simulator, python, lasts))
            click.echo(json.dumps(rows[-1]))
    click.echo(page_tables(told | {"rows": rows}))
    if not (is_trial or names):
        write_text(rows_file, json.dumps(told | {"rows": rows}, indent=1) + "\n")
        chart(told | {"rows": rows}).savefig(plot, dpi=120)
        write_text(PAGE, fill(PAGE, told | {"rows": rows}))


if __name__ == "__main__":
    main()
