"""Count how large the package is: what a run imports, the options that --help shows, lines, names.

python scripts/count_house.py
"""

from __future__ import annotations

import ast
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import click
import grimp

ROOT = Path(__file__).resolve().parents[1]
GUESTS = ("workflow_rl/cage/", "workflow_rl/cage2/", "workflow_rl/cage4/", "workflow_rl/workflows/")
APART = (*GUESTS, "workflow_rl/studies/", "workflow_rl/cluster/")
"""What general code does not count."""
VAGUE = {"one", "own", "its", "left", "those", "these", "each"}
RUNS = {
    "CartPole, 400 steps": "--env CartPole-v1 --total-steps 400 --steps-per-update 200",
    "CAGE-4, 10 steps": "--env workflow_rl/CAGE4-v0 --max-steps 5 --total-episodes 2 "
    "--episodes-per-update 2",
}
SHORT = "--n-envs 2 --n-workers 1 --hidden-sizes 8 --quiet --run-dir"
AFTER = """
import atexit, runpy, sys
atexit.register(lambda: print(*sorted({m.__file__ for m in list(sys.modules.values())
    if getattr(m, "__file__", None)}), sep="\\n", file=open(sys.argv[-1] + "/.imported", "w")))
runpy.run_module("workflow_rl", run_name="__main__", alter_sys=True)
"""


def lines_of(*patterns: str) -> dict[str, int]:
    """Return how many lines each file that git knows has."""
    listed = subprocess.run(
        ["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    files = [name for name in listed if (ROOT / name).is_file() and not (ROOT / name).is_symlink()]
    return {name: len((ROOT / name).read_bytes().splitlines()) for name in files}


def imported_by(options: str) -> dict[str, int]:
    """Return the package's files that a training imports in the main process, with their lines."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", AFTER, "train-async", *options.split(), *SHORT.split()]
        subprocess.run([*command, folder], cwd=ROOT, check=True, capture_output=True)
        names = Path(folder, ".imported").read_text().splitlines()
    files = {Path(name).resolve() for name in names}
    all_lines = lines_of("agents/*.py", "workflow_rl/*.py")
    return {name: lines for name, lines in all_lines.items() if ROOT / name in files}


def bindings(tree: ast.AST) -> Iterator[str]:
    """Yield all names that a module binds, those of attributes apart."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg


def public_definitions(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
            yield node.name


def circles() -> int:
    """Return how many groups of files import each other in a circle."""
    graph = grimp.build_graph("workflow_rl", cache_dir=None, exclude_type_checking_imports=True)
    modules = sorted(graph.modules)
    ahead = {module: graph.find_downstream_modules(module) for module in modules}
    return len(
        {
            frozenset(other for other in ahead[module] if module in ahead[other]) | {module}
            for module in modules
            if any(module in ahead[other] for other in ahead[module])
        }
    )


@click.command()
def main() -> None:
    """Print each figure on a line."""
    python = lines_of("agents/*.py", "workflow_rl/*.py")
    for name, options in RUNS.items():
        found = imported_by(options)
        rooms: Counter[str] = Counter()
        for file, lines in found.items():
            rooms["/".join(Path(file).parts[:-1])] += lines
        apart = [room for room in sorted(rooms) if f"{room}/".startswith(APART)]
        click.echo(f"{name}: {sum(found.values())} lines in {len(found)} files; apart: {apart}")
    command = [sys.executable, "-m", "workflow_rl", "train-async", "--env", "CartPole-v1", "--help"]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    n_options = sum(line.startswith(("  -", "  --")) for line in shown.splitlines())
    click.echo(f"options of train-async --env CartPole-v1 --help: {n_options}")
    general = sum(lines for name, lines in python.items() if not name.startswith(APART))
    click.echo(f"general code: {general} lines")
    whole = lines_of("agents/*.py", "workflow_rl/*.py", "scripts/*")
    click.echo(f"package and scripts: {sum(whole.values())} lines")
    trees = {name: ast.parse((ROOT / name).read_text()) for name in python}
    homes = defaultdict(list)
    for name, tree in trees.items():
        for defined in set(public_definitions(tree)):
            homes[defined].append(name)
    double = {name: files for name, files in homes.items() if len(files) > 1}
    click.echo(f"public names defined more than once: {len(double)}")
    for name, files in sorted(double.items()):
        click.echo(f"  {name}: {', '.join(files)}")
    bound = [name for tree in trees.values() for name in bindings(tree)]
    vague = sum(name in VAGUE for name in bound)
    click.echo(f"vague bindings: {vague} of {len(bound)} ({vague / len(bound):.1%})")
    click.echo(f"circles of files: {circles()}")


if __name__ == "__main__":
    main()
