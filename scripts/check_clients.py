"""Do the examples learn, each with its client installed beside this package?

For every file of `examples/` an environment of its own, `.clients/NAME`, with the package by its
ranges and the versions of `examples/requirements/NAME.txt`; several GB in all. There the example
runs in full, once a seed. Rows go to docs/figures/clients.json as examples end, replacing those of
the same example, and the table of all of them to docs/how-to/clients.md. One that fails has no row.
Exits with 1 if one fails, or stays below -60 with some seed: the mean return of 100 further
episodes.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from workflow_rl.output_files import write_text

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
ROWS, PAGE = DOCS / "figures" / "clients.json", DOCS / "how-to" / "clients.md"
BUILT_FROM = ("agents", "workflow_rl", "LICENSE", "README.md", "pyproject.toml", "setup.py")
CLIENTS = {
    "sb3_ppo": "stable-baselines3",
    "sb3_maskable_ppo": "sb3-contrib",
    "cleanrl_ppo": "torch",
    "rllib_ppo": "ray",
    "torchrl_ppo": "torchrl",
    "tianshou_ppo": "tianshou",
    "optuna_search": "optuna",
}
"""Of each example, the package whose version the table gives."""
TARGET = -60.0
RESULT = re.compile(r"^(\d+) steps in (\d+) s; return (-?\d+\.\d)$", re.MULTILINE)
TABLE = re.compile(r"(?<=<!-- table -->\n).*(?=<!-- end -->)", re.DOTALL)


class ExampleError(Exception):
    """An example that did not end with its result."""


def build_wheel(folder: Path) -> Path:
    """Of a copy: a build leaves files in its folder."""
    source = folder / "source"
    source.mkdir()
    for name in (*BUILT_FROM, "requirements.txt"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, source / name)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir"]
    subprocess.run([*command, str(folder), str(source)], check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def install(name: str, wheel: Path) -> Path:
    """An environment for the example, made unless it is there. Returns its Python."""
    environment = ROOT / ".clients" / name
    python = environment / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    requirements = ROOT / "examples" / "requirements" / f"{name}.txt"
    subprocess.run([*pip, str(wheel), "-r", str(requirements)], check=True)
    # The same version may be there already, of other code.
    subprocess.run([*pip, "--no-deps", "--force-reinstall", str(wheel)], check=True)
    return python


def installed_version(python: Path, package: str) -> str:
    code = f"from importlib.metadata import version; print(version({package!r}))"
    shown = subprocess.run([str(python), "-c", code], check=True, capture_output=True, text=True)
    return shown.stdout.strip().partition("+")[0]


def run_example(python: Path, name: str, seed: int, steps: int | None) -> dict[str, Any]:
    """One run: its seed, the env steps trained on, the seconds they took, the return.

    Raises ExampleError.
    """
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
    return {
        "seed": seed,
        "steps": int(found[1]),
        "seconds": int(found[2]),
        "return": float(found[3]),
    }


def check(name: str, wheel: Path, seeds: int, steps: int | None) -> dict[str, Any]:
    """The row of an example: versions and runs. Raises ExampleError, CalledProcessError."""
    python = install(name, wheel)
    return {
        "version": installed_version(python, CLIENTS[name]),
        "gymnasium": installed_version(python, "gymnasium"),
        "runs": [run_example(python, name, seed, steps) for seed in range(seeds)],
    }


def learnt(row: dict[str, Any]) -> bool:
    return all(run["return"] >= TARGET for run in row["runs"])


def table(rows: dict[str, dict[str, Any]]) -> str:
    lines = [
        "| example | client | Gymnasium | steps | seconds | seeds | return | lowest | ok |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name in CLIENTS:
        if name not in rows:
            continue
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
            "yes" if learnt(row) else "no",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def write_row(name: str, row: dict[str, Any] | None) -> None:
    """None: the example has failed."""
    # Read again, for another call may have written meanwhile.
    rows = json.loads(ROWS.read_text()) if ROWS.exists() else {}
    rows = {**rows, name: row} if row else {other: rows[other] for other in rows if other != name}
    write_text(ROWS, json.dumps(rows, indent=1) + "\n")
    write_text(PAGE, TABLE.sub(lambda _: table(rows), PAGE.read_text()))


@click.command(context_settings={"show_default": True})
@click.option("--client", "names", type=click.Choice(list(CLIENTS)), multiple=True, help="Not all.")
@click.option("--seeds", type=click.IntRange(1), default=1, help="Runs of each.")
@click.option("--steps", type=click.IntRange(1), help="Fewer, to try it: nothing is written.")
def main(names: tuple[str, ...], seeds: int, steps: int | None) -> None:
    """Run the examples, each in an environment of its own, and write docs/how-to/clients.md."""
    names = names or tuple(CLIENTS)
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        wheel = build_wheel(Path(folder))
        for name in names:
            try:
                rows[name] = check(name, wheel, seeds, steps)
                click.echo(f"{name}: {rows[name]}")
            except (ExampleError, subprocess.CalledProcessError) as error:
                click.echo(error, err=True)
            if steps is None:
                write_row(name, rows.get(name))
    failed = [name for name in names if name not in rows]
    if failed:
        raise click.ClickException(f"failed: {', '.join(failed)}")
    if steps is None and not all(learnt(rows[name]) for name in names):
        raise click.ClickException(f"not all examples reached {TARGET:g}")


if __name__ == "__main__":
    main()
