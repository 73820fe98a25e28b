"""Try the package's CUDA path: see scripts/check_gpu.sh.

The tests run beside runs on the CPU and on the GPU, whose final returns must agree: the means over
the seeds may differ by three standard errors of their difference. The seconds of an update are of
PPO's learner alone, which is given random steps. The script exits with 1 if a test fails or the
returns differ.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import click

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from workflow_rl.measuring.benchmark import machine_name  # noqa: E402, I001  # Before NumPy and torch.
from workflow_rl import TrainConfig  # noqa: E402
from workflow_rl.agents.algorithm import LearningAgent  # noqa: E402
from workflow_rl.agents.spaces import Spaces  # noqa: E402
from workflow_rl.agents.team import ACTS  # noqa: E402
from workflow_rl.agents.trajectory import Trajectory  # noqa: E402
from workflow_rl.output_files import write_text  # noqa: E402
from workflow_rl.text_table import text_table  # noqa: E402
from workflow_rl.runs.folder import read_metrics  # noqa: E402
from workflow_rl.machine_facts import usable_cores  # noqa: E402
from workflow_rl.runs.learner import make_agent  # noqa: E402
from workflow_rl.runs.resolve import preset_named  # noqa: E402

import numpy as np  # noqa: E402
import torch  # noqa: E402

TASKS = {
    "CartPole-v1": ("--env CartPole-v1 --total-steps 40000", range(5)),
    "cage2-quick": ("--preset cage2-quick --total-episodes 4000", range(3)),
}
"""Options of a run, and its seeds."""
COMPILING = "import workflow_rl.cage2.compiled.preload"
LAST_UPDATES = 3
"""A final return is the mean over these."""
LENGTH = 100
"""Steps of an episode."""
BATCHES = (4_000, 16_000, 64_000, 256_000)
EPOCHS, MINIBATCHES = 4, 4
QUICK = preset_named("cage4-quick")
NETWORKS: dict[str, dict[str, Any]] = {
    **{
        f"{size}-{size}": {
            "env_args": {"observation": "belief", "actions": "by-host"},
            "settings": {"hidden_sizes": (size, size)},
        }
        for size in (64, 512)
    },
    "CAGE-4's": {
        "env": "workflow_rl/CAGE4-v0",
        "env_args": QUICK["env_args"],
        "settings": {
            name: QUICK["settings"][name]
            for name in ("network", "network_args", "hidden_sizes", "critic")
        },
    },
}


def tests_pass(device: str, folder: Path) -> bool:
    """Run the tests of runs on a GPU."""
    command = [sys.executable, "-m", "pytest", "tests/workflow_rl/runs/test_cuda.py"]
    options = ["-n", "0", "--durations", "5", "--basetemp", str(folder / "tests")]
    variables = {**os.environ, "CHECKED_DEVICE": device}
    return not subprocess.run([*command, *options], cwd=ROOT, env=variables).returncode


def final_return(folder: Path, task: str, seed: int, device: str) -> float:
    """Train, and return the mean return of the last updates, or NaN if the run failed."""
    path = folder / f"{task}-{seed}"
    options = f"{TASKS[task][0]} --n-workers 2 --seed {seed} --device {device} --quiet"
    command = [sys.executable, "-m", "workflow_rl", "train-async", *options.split()]
    command += ["--run-dir", str(path)]
    if subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL).returncode:
        return math.nan
    return statistics.fmean(row["return_mean"] for row in read_metrics(path)[-LAST_UPDATES:])


def compared(device: str, folder: Path) -> Iterator[dict[str, Any]]:
    """Yield for each task the final returns of all seeds on both, and whether they agree."""
    places = ("cpu", folder / "on CPU"), (device, folder / "on GPU")
    with ThreadPoolExecutor(max(1, usable_cores() // 2)) as pool:
        runs = {
            task: [
                [pool.submit(final_return, path, task, seed, of) for seed in seeds]
                for of, path in places
            ]
            for task, (_, seeds) in TASKS.items()
        }
        for task, of_devices in runs.items():
            cpu, gpu = ([run.result() for run in of_device] for of_device in of_devices)
            difference = statistics.fmean(gpu) - statistics.fmean(cpu)
            variances = statistics.variance(cpu) + statistics.variance(gpu)
            tolerance = 3 * math.sqrt(variances / len(cpu))
            row = {"task": task, "cpu": cpu, "gpu": gpu, "difference": difference}
            yield {**row, "tolerance": tolerance, "agree": abs(difference) <= tolerance}


def random_steps(spaces: Spaces, n_steps: int, version: int) -> list[Trajectory]:
    """Return episodes in which `n_steps` actions are chosen, all possible and equally likely."""
    random, team = np.random.default_rng(version), spaces.team
    n_actions = np.array(team.n_actions if team else [spaces.distribution.n_outputs])
    n_masks = int(spaces.masked * n_actions.sum())
    trajectories = []
    for episode in range(n_steps // (LENGTH * len(n_actions))):
        rows = random.integers(2, size=(LENGTH + 1, spaces.obs_dim)).astype(np.float32)
        if team is not None:
            team.status(rows)[:] = ACTS
        action = random.integers(n_actions, size=(LENGTH, len(n_actions)))
        log_prob = np.broadcast_to(-np.log(n_actions), action.shape).astype(np.float32)
        if team is None:
            action, log_prob = action[:, 0], log_prob[:, 0]
        rows = np.hstack([rows, np.ones((LENGTH + 1, n_masks), np.float32)])
        reward = random.normal(size=LENGTH)
        steps = (rows[:-1], action, log_prob, reward, rows[-1])
        trajectories.append(Trajectory(episode, "", version, *steps, False, True))
    return trajectories


def update_seconds(agent: LearningAgent, spaces: Spaces, n_steps: int) -> float:
    """Return the seconds of an update."""
    trajectories = random_steps(spaces, n_steps, agent.policy_version)
    begin = time.perf_counter()
    agent.update(trajectories, 0.0)  # It ends by reading numbers from the device.
    return time.perf_counter() - begin


def timed(network: str, device: str, threads: int, longest: float) -> list[float | None]:
    """Return the seconds of an update for each of BATCHES: the median of three on a GPU, and of one
    on the CPU; None for an update that would take longer than `longest`."""
    measured: list[float | None] = []
    expected = 0.0
    for n_steps in BATCHES:
        fields = dict(NETWORKS[network])
        settings = {"epochs": EPOCHS, "minibatch_size": n_steps // MINIBATCHES}
        fields["settings"] = {**fields["settings"], **settings}
        if expected > longest:
            measured.append(None)
            continue
        config = TrainConfig("async", device=device, learner_threads=threads, **fields)
        agent, spaces = make_agent(config), config.environment.spaces()
        if device == "cuda" or not measured:
            update_seconds(agent, spaces, n_steps)
        repeats = 3 if device == "cuda" else 1
        seconds = [update_seconds(agent, spaces, n_steps) for _ in range(repeats)]
        measured.append(statistics.median(seconds))
        expected = statistics.median(seconds) * 4
    return measured


@click.command(help=__doc__)
@click.option("--device", type=click.Choice(["cuda", "cpu"]), default="cuda",
              help="What is compared with the CPU.")  # fmt: skip
@click.option("--out", type=click.Path(path_type=Path), default=Path(), help="Folder of gpu.json.")
@click.option("--parts", default="tests,returns,seconds", help="What to do, by comma.")
@click.option("--longest", default=15.0, help="Leave out updates that would take more seconds.")
def main(device: str, out: Path, parts: str, longest: float) -> None:
    if device == "cuda" and not torch.cuda.is_available():
        raise click.ClickException(f"torch {torch.__version__} finds no CUDA device: --device cpu")
    begin, cores, failed = time.monotonic(), usable_cores(), False
    gpu = torch.cuda.get_device_name() if device == "cuda" else "no GPU"
    results: dict[str, Any] = {"machine": f"{gpu}, {machine_name()}, torch {torch.__version__}"}

    def keep(name: str, value: Any) -> None:
        results[name] = value
        results[f"{name}: end"] = round(time.monotonic() - begin, 1)
        out.mkdir(parents=True, exist_ok=True)
        write_text(out / "gpu.json", json.dumps(results, indent=2) + "\n")

    def show(headings: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        click.echo(f"\n{text_table(headings, rows, markdown=True)}\n")

    click.echo(results["machine"])
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(1) as pool:
        if parts != "seconds":  # Once, before many processes would compile it.
            subprocess.run([sys.executable, "-c", COMPILING], cwd=ROOT, check=True)
        tested = pool.submit(tests_pass, device, Path(name)) if "tests" in parts else None
        if "returns" in parts:
            keep("returns", list(compared(device, Path(name))))
            rows = [
                (
                    *(row["task"], len(row["cpu"])),
                    *(f"{statistics.fmean(row[of]):.1f}" for of in ("cpu", "gpu")),
                    *(f"{row['difference']:+.1f}", f"{row['tolerance']:.1f}"),
                )
                for row in results["returns"]
            ]
            show(("run", "seeds", "return, CPU", "return, GPU", "difference", "tolerance"), rows)
            failed = not all(row["agree"] for row in results["returns"])
        if tested is not None:
            keep("tests", tested.result())
            failed = failed or not results["tests"]
    if "seconds" in parts:
        columns = {"CPU, 1 thread": ("cpu", 1), f"CPU, {cores} threads": ("cpu", cores)}
        columns["GPU"] = (device, 1)
        seconds: dict[str, Any] = {}
        for network in NETWORKS:
            seconds[network] = {
                column: timed(network, *of, longest) for column, of in columns.items()
            }
            keep("seconds", {"batches": BATCHES, **seconds})
        rows = [
            (network, f"{n_steps:,}", *("-" if s is None else f"{s:.3g}" for s in measured))
            for network, of in seconds.items()
            for n_steps, *measured in zip(BATCHES, *of.values(), strict=True)
        ]
        show(("network", "steps", *(f"{column} (s)" for column in columns)), rows)
    click.echo(f"{time.monotonic() - begin:.0f} s in all")
    sys.exit(failed)


if __name__ == "__main__":
    main()
