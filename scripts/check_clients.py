"""Do the examples learn, each with its client installed beside this package?

For every file of `examples/` an environment of its own, `.clients/NAME`, with the package by its
ranges and the versions of `examples/requirements/NAME.txt`; several GB in all. There the example
runs in full, once a seed. Rows go to docs/figures/clients.json as examples end, replacing those of
the same example, and the table of all of them to docs/how-to/clients.md. One that fails has
no row. Exits with 1 if an example fails, or if with some seed the example misses its target. The
target on CAGE-2 is a mean return of -60 in 100 further episodes. The target on CAGE-4 is -5,000 in
the last update.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from client_environments import build_wheel, install, versions  # noqa: E402

from workflow_rl.output_files import write_text  # noqa: E402

PAGE = ROOT / "docs" / "how-to" / "clients.md"
ROWS = ROOT / "docs" / "figures" / "clients.json"
CLIENTS = {
    "sb3_ppo": "stable-baselines3",
    "sb3_maskable_ppo": "sb3-contrib",
    "cleanrl_ppo": "torch",
    "rllib_ppo": "ray",
    "torchrl_ppo": "torchrl",
    "tianshou_ppo": "tianshou",
    "optuna_search": "optuna",
    "rllib_cage4": "ray",
    "torchrl_cage4": "torchrl",
}
"""By example, the package whose version the table gives."""
TARGETS = {"rllib_cage4": -5000.0, "torchrl_cage4": -5000.0}
"""By example, the return that it has to reach where that is not TARGET. Random actions reach this
return on CAGE-4."""
TARGET = -60.0
RESULT = re.compile(r"^(\d+) steps in (\d+) s; return (-?\d+\.\d)$", re.MULTILINE)
TABLE = re.compile(r"(?<=<!-- table -->\n).*(?=<!-- end -->)", re.DOTALL)


class ExampleError(Exception):
    """An example did not end with its result."""


def run_example(python: Path, name: str, seed: int, steps: int | None) -> dict[str, Any]:
    """Run an example, and return its seed, steps, seconds and return. Raises ExampleError."""
    variables = {**os.environ, "SEED": str(seed), **({"STEPS": str(steps)} if steps else {})}
    variables.pop("PYTHONPATH", None)
    command = [str(python), str(ROOT / "examples" / f"{name}.py")]
    with tempfile.TemporaryDirectory() as folder:
        shown = subprocess.run(
            command, cwd=folder, env=variables, check=False, capture_output=True, text=True
        )
    found = RESULT.search(shown.stdout)
    if shown.returncode or found is None:
        raise ExampleError(f"{name} exited with {shown.returncode}:\n{shown.stdout}{shown.stderr}")
    about = {"seed": seed, "steps": int(found[1]), "seconds": int(found[2])}
    return {**about, "return": float(found[3])}


def learnt(name: str, row: dict[str, Any]) -> bool:
    return all(run["return"] >= TARGETS.get(name, TARGET) for run in row["runs"])


def table(rows: dict[str, dict[str, Any]]) -> str:
    """Return the table of the page, in Markdown."""
    lines = [
        "| example | client | Gymnasium | steps | seconds | seeds | return | lowest | ok |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name in filter(rows.__contains__, CLIENTS):
        row, runs = rows[name], rows[name]["runs"]
        returns = [run["return"] for run in runs]
        cells = [
            f"[`{name}`](#{name})",
            f"{CLIENTS[name]} {row['version']}",
            row["gymnasium"],
            f"{runs[0]['steps']:,}",
            f"{statistics.median(run['seconds'] for run in runs):.0f}",
            f"{len(runs)}",
            f"{statistics.median(returns):.1f}",
            f"{min(returns):.1f}",
            "yes" if learnt(name, row) else "no",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def write_row(name: str, row: dict[str, Any] | None) -> None:
    """Replace the row of an example; None if the example failed."""
    # Read again: another call of this script may have written meanwhile.
    rows = json.loads(ROWS.read_text()) if ROWS.exists() else {}
    rows.pop(name, None)
    if row:
        rows[name] = row
    write_text(ROWS, json.dumps(rows, indent=1) + "\n")
    write_text(PAGE, TABLE.sub(lambda _: table(rows), PAGE.read_text()))


@click.command(help=__doc__, context_settings={"show_default": True})
@click.option("--client", "names", type=click.Choice(list(CLIENTS)), multiple=True, help="Not all.")
@click.option("--seeds", type=click.IntRange(1), default=1, help="Runs of each.")
@click.option("--steps", type=click.IntRange(1), help="Fewer, to try it: nothing is written.")
def main(names: tuple[str, ...], seeds: int, steps: int | None) -> None:
    rows: dict[str, dict[str, Any]] = {}
    names = names or tuple(CLIENTS)
    with tempfile.TemporaryDirectory() as folder:
        wheel = build_wheel(Path(folder))
        for name in names:
            requirements = ROOT / "examples" / "requirements" / f"{name}.txt"
            try:
                python = install(ROOT / ".clients" / name, wheel, requirements)
                version, gymnasium = versions(python, [CLIENTS[name], "gymnasium"]).values()
                runs = [run_example(python, name, seed, steps) for seed in range(seeds)]
                rows[name] = {"version": version, "gymnasium": gymnasium, "runs": runs}
                click.echo(f"{name}: {rows[name]}")
            except (ExampleError, subprocess.CalledProcessError) as error:
                click.echo(error, err=True)
            if steps is None:
                write_row(name, rows.get(name))
    if failed := [name for name in names if name not in rows]:
        raise click.ClickException(f"failed: {', '.join(failed)}")
    if steps is None and not all(learnt(name, row) for name, row in rows.items()):
        raise click.ClickException("not all examples reached their target")


if __name__ == "__main__":
    main()
