"""Count how large the package is, and hold the figures to the limits in pyproject.toml.

Exits with 1 if one is over its limit.

python scripts/count_house.py [--names]
"""

from __future__ import annotations

import ast
import builtins
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import click
import grimp
import numpy as np
from scipy.sparse.csgraph import connected_components

from workflow_rl.cage2.scenario.actions import BLUE

ROOT = Path(__file__).resolve().parents[1]
GUESTS = ("workflow_rl/cage/", "workflow_rl/cage2/", "workflow_rl/cage4/", "workflow_rl/workflows/")
APART = (*GUESTS, "workflow_rl/studies/", "workflow_rl/cluster/")
"""What general code does not count."""
ROOMS_OF_CAGE2 = ("workflow_rl/cage/", "workflow_rl/cage2/")
ROOMS_OF_CAGE4 = ("workflow_rl/cage/", "workflow_rl/cage4/")
COPIED_OUT = "/submission/files/"
"""What a submission consists of is no module of the package."""
VAGUE = {"one", "own", "its", "left", "those", "these", "each"}
CART_POLE = "--env CartPole-v1 --total-steps 400 --steps-per-update 200"
FEW = "--max-steps 5 --total-episodes 2 --episodes-per-update 2"
CAGE4 = f"--env workflow_rl/CAGE4-v0 {FEW}"
B_LINE = f"--env workflow_rl/CAGE2-v0 --red-agent B_lineAgent {FEW}"
SHORT = "--n-envs 2 --n-workers 1 --hidden-sizes 8 --quiet --run-dir"
COMMANDS = "workflow_rl/commands/"
CONFIG = (
    *(f"agents/{name}.py" for name in ("settings",)),
    *(f"workflow_rl/runs/{name}.py" for name in ("config", "resume", "presets", "resolve")),
)
AFTERWARDS = (f"{COMMANDS}errors.py", f"{COMMANDS}train_report.py")
"""Config and command line are CONFIG, and what a training imports of COMMANDS, but for these: they
speak when `execute` has ended."""
CAGE2 = "workflow_rl/cage2/"
ACTS = {"act", "decide"}
ON_HOSTS = [action for action, kind in BLUE.items() if kind.on_host]
"""The others are Red's, too, or nothing."""
TRUSTS = {
    *("trust", "require_named", "needs_signature", "refused", "TRUST_IT"),
    *("named_by_file", "made_here", "signed", "accept", "sign_named"),
}
"""What says whose a file is, and refuses what only a file names."""
OF_TRUST = ("workflow_rl.runs.trust", "workflow_rl.runs.signature")
PLAYS = {"play_episode", "play_episodes", "play_with_progress"}
ASKS_OF_POPULATION = {"POPULATION_FILE", "is_population", "_is_population", "read_population"}
"""By these names a module asks whether a folder is a population, or reads its file. A list of
files' names asks nothing."""
ONCE = {
    "configs made for a run": "workflow_rl/runs/config.py TrainConfig.__init__",
    "environments resolved for a run": "workflow_rl/environments/source.py environment_of",
    "algorithms looked up for a run": "agents/algorithm.py find",
}


class Watched(NamedTuple):
    """What the main process of a command did.

    imported: the files. calls: how often each function was called, by "FILE NAME". entered: the
    files with functions that were called before the loop of the training began.
    """

    imported: list[str]
    calls: dict[str, int]
    entered: list[str]


def lines_of(*patterns: str) -> dict[str, int]:
    """Return how many lines each file that git knows has."""
    listed = subprocess.run(
        ["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    files = [name for name in listed if (ROOT / name).is_file() and not (ROOT / name).is_symlink()]
    return {name: len((ROOT / name).read_bytes().splitlines()) for name in files}


def watched(options: str, folder: Path) -> Watched:
    """Train, and return what the main process imports and calls of the package."""
    seen = folder / ".watched"
    script = str(ROOT / "scripts" / "watched_command.py")
    command = [sys.executable, script, str(seen), "train-async", *options.split(), str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return Watched(**json.loads(seen.read_text()))


def of_runs(lines: dict[str, int]) -> Iterator[tuple[str, int]]:
    """Yield the figures of trainings. lines: those of each file of the package."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run")
        path.mkdir()
        run = watched(f"{CART_POLE} {SHORT}", path)
        again = watched("--total-steps 800 --quiet --resume", path)
    imported = lines.keys() & run.imported
    yield "lines that a CartPole run imports", sum(map(lines.__getitem__, imported))
    yield "files of guests, studies and cluster in it", count_in(imported, APART)
    with tempfile.TemporaryDirectory() as folder:
        others = tuple(room for room in APART if room not in ROOMS_OF_CAGE4)
        cage4 = watched(f"{CAGE4} {SHORT}", Path(folder))
    # The first run may compile the simulator, with functions that are not on the route.
    for _ in range(2):
        with tempfile.TemporaryDirectory() as folder:
            b_line = watched(f"{B_LINE} {SHORT}", Path(folder))
    yield "files of other guests in a CAGE-4 run", count_in(lines.keys() & cage4.imported, others)
    # Before the loop, the main process plays a step, by the route that workers take.
    cage2 = count_in(lines.keys() & {*b_line.entered}, ROOMS_OF_CAGE2)
    yield "files of cage from --red-agent to a compiled step", cage2
    command_line = {name for name in imported if name.startswith(COMMANDS)} - {*AFTERWARDS}
    yield (
        "lines of config and command line",
        sum(lines[name] for name in {*command_line, *CONFIG}),
    )
    for name, function in ONCE.items():
        yield name, run.calls[function]
    yield "files entered before the loop of a resume", len(lines.keys() & {*again.entered})


def count_in(files: Iterable[str], rooms: tuple[str, ...]) -> int:
    return sum(name.startswith(rooms) for name in files)


def n_options() -> int:
    """Return how many options `train-async` shows for CartPole."""
    command = [sys.executable, "-m", "workflow_rl", "train-async", "--env", "CartPole-v1", "--help"]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return sum(line.startswith(("  -", "  --")) for line in shown.splitlines())


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


def place_in_guest(file: str) -> str:
    """Return where a file stands in its guest, or its whole path."""
    for guest in GUESTS:
        file = file.removeprefix(guest)
    return file


def homes(trees: dict[str, ast.Module]) -> dict[str, list[str]]:
    """Return the files of each public name that is defined more than once."""
    files = defaultdict(list)
    for file, tree in trees.items():
        if COPIED_OUT not in file:
            for name in set(public_definitions(tree)):
                files[name].append(file)
    return {name: sorted(found) for name, found in sorted(files.items()) if len(found) > 1}


def are_twins(files: Iterable[str]) -> bool:
    """Return whether files stand in the same place of their guests: they define the same thing."""
    return len(set(map(place_in_guest, files))) == 1


def simulators(trees: dict[str, ast.Module]) -> int:
    """Return the most names of simulators that a guest's `SIMULATORS` has."""
    return max(
        len(ast.literal_eval(node.value))
        for file, tree in trees.items()
        if file.startswith((CAGE2, "workflow_rl/cage4/"))
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "SIMULATORS"
    )


def env_classes(trees: dict[str, ast.Module]) -> list[str]:
    """Return the public classes of CAGE-2 that are called an Env or Envs."""
    return [
        name
        for file, tree in trees.items()
        if file.startswith(CAGE2)
        for name in public_definitions(tree)
        if name.endswith(("Env", "Envs"))
    ]


def ways_of_acting(trees: dict[str, ast.Module]) -> list[str]:
    """Return the classes of CAGE-2 that choose Blue's actions.

    They define `act` or `decide`, and not `begin`, which red agents have. A subclass of one of them
    is another agent, and no other way of acting.
    """
    found: dict[str, ast.ClassDef] = {}
    for file, tree in trees.items():
        if not file.startswith(CAGE2) or COPIED_OUT in file or "red" in Path(file).stem:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                methods = {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
                if methods & ACTS and "begin" not in methods:
                    found[node.name] = node
    bases = {name: set(map(ast.unparse, node.bases)) for name, node in found.items()}
    return sorted(name for name in found if not bases[name] & found.keys())


def words_of(tree: ast.AST) -> Iterator[str]:
    """Yield the words of the texts and of the identifiers of a module, docstrings apart."""
    docstrings = set()
    for node in ast.walk(tree):
        # A text that stands alone documents what stands before it.
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            docstrings.add(node.value)
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if node not in docstrings:
                yield from re.findall(r"\w+", node.value)
        elif isinstance(node, ast.Name | ast.Attribute | ast.alias):
            yield str(getattr(node, "id", getattr(node, "attr", getattr(node, "name", ""))))


def files_that_know(actions: Iterable[str], trees: dict[str, ast.Module]) -> int:
    """Return in how many files of CAGE-2 the best known of Blue's actions occurs.

    It occurs by its name in a text, or as a constant: "Restore", or RESTORE.
    """
    words = {file: {*words_of(tree)} for file, tree in trees.items() if file.startswith(CAGE2)}
    return max(
        sum(bool({action, action.upper()} & of_file) for of_file in words.values())
        for action in actions
    )


def knows_trust(tree: ast.AST) -> bool:
    """Return whether a module names one of TRUSTS, a module of OF_TRUST or the option --trust. Its
    comments and docstrings do not count."""
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=module) if module in OF_TRUST:
                return True
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                if name in TRUSTS:
                    return True
            case ast.keyword(arg=name) | ast.alias(name=name) | ast.FunctionDef(name=name):
                if name in TRUSTS:
                    return True
            case ast.Constant(value=str(text)):
                if text in TRUSTS or text == "--trust":
                    return True
    return False


def evaluators(trees: dict[str, ast.Module]) -> list[str]:
    """Return the functions of what CAGE-2 is played by that play episodes from specs.

    They call one of PLAYS, or hold a loop in which an agent acts and what it acts in steps. Modules
    that compare simulators are left out.
    """
    rooms = ("workflow_rl/cage/", CAGE2, "workflow_rl/workflows/")
    found = []
    for file, tree in trees.items():
        if not file.startswith(rooms) or COPIED_OUT in file or "parity" in Path(file).stem:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                in_loops = set[str]()
                for loop in filter(
                    lambda part: isinstance(part, ast.For | ast.While), ast.walk(node)
                ):
                    in_loops |= called_in(loop)
                if called_in(node) & PLAYS or (in_loops & ACTS and "step" in in_loops):
                    found.append(f"{file} {node.name}")
    return found


def error_classes(trees: Mapping[str, ast.Module]) -> list[str]:
    """Return the classes that derive from an exception, by one of Python or of these modules."""
    bases = {
        node.name: {*map(ast.unparse, node.bases)}
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    of_python = {
        name
        for name, value in vars(builtins).items()
        if isinstance(value, type) and issubclass(value, BaseException)
    }
    found = set[str]()
    while more := {n for n in bases.keys() - found if bases[n] & (of_python | found)}:
        found |= more
    return sorted(found)


def files_asking_of_population(trees: Mapping[str, ast.Module]) -> list[str]:
    """Return the files that use a name of ASKS_OF_POPULATION. To define a name is no use of it."""
    return [file for file, tree in trees.items() if ASKS_OF_POPULATION & {*uses_in(tree)}]


def uses_in(tree: ast.AST) -> Iterator[str]:
    """Yield the identifiers that a module imports or reads."""
    for node in ast.walk(tree):
        if isinstance(node, ast.alias):
            yield node.name
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
            yield node.id if isinstance(node, ast.Name) else node.attr


def called_in(tree: ast.AST) -> set[str]:
    """Return the names of the functions and methods that are called."""
    functions = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return {getattr(function, "attr", getattr(function, "id", "")) for function in functions}


def of_guests(lines: dict[str, int], trees: dict[str, ast.Module]) -> Iterator[tuple[str, int]]:
    """Yield the figures of the CAGE rooms. lines, trees: of each file of the package."""
    yield "lines of guests", sum(lines[name] for name in lines if name.startswith(GUESTS))
    tests = lines_of(*(f"tests/{guest}*.py" for guest in GUESTS))
    yield "lines of the guests' tests", sum(tests.values())
    yield "names of simulators", simulators(trees)
    yield "env classes of CAGE-2", len(env_classes(trees))
    yield "ways of acting as Blue of CAGE-2", len(ways_of_acting(trees))
    yield "files that know one of Blue's actions of CAGE-2", files_that_know(ON_HOSTS, trees)
    yield "evaluators of CAGE-2", len(evaluators(trees))


def circles() -> int:
    """Return how many groups of files import each other in a circle."""
    graph = grimp.build_graph("workflow_rl", cache_dir=None, exclude_type_checking_imports=True)
    modules = sorted(graph.modules)
    imports = np.zeros((len(modules), len(modules)), bool)
    for row, module in zip(imports, modules, strict=True):
        row[[modules.index(name) for name in graph.find_modules_directly_imported_by(module)]] = (
            True
        )
    _, group = connected_components(imports, connection="strong")
    return int((np.bincount(group) > 1).sum())


def of_sources(lines: dict[str, int]) -> Iterator[tuple[str, int]]:
    """Yield the figures of the sources. lines: those of each file of the package."""
    general = [name for name in lines if not name.startswith(APART)]
    yield "lines of general code", sum(lines[name] for name in general)
    yield "files of general code", len(general)
    yield "lines of package and scripts", sum(lines.values()) + sum(lines_of("scripts/*").values())
    trees = {name: ast.parse((ROOT / name).read_text()) for name in lines}
    general_trees = {name: trees[name] for name in general}
    yield "error classes of general code", len(error_classes(general_trees))
    asking = files_asking_of_population(general_trees)
    yield "files that ask for a population", len(asking)
    double = homes(trees).values()
    twins = sum(map(are_twins, double))
    yield "public names with two meanings", len(double) - twins
    yield "public names that guests share (twins)", twins
    bound = [name for tree in trees.values() for name in bindings(tree)]
    vague = sum(name in VAGUE for name in bound)
    yield "vague bindings of 10,000", round(10_000 * vague / len(bound))
    yield "circles of files", circles()
    yield "files that know trust", sum(map(knows_trust, trees.values()))
    yield from of_guests(lines, trees)


def figures() -> dict[str, int]:
    """Return all figures by name."""
    lines = lines_of("agents/*.py", "workflow_rl/*.py")
    options = ("options of train-async --env CartPole-v1 --help", n_options())
    return dict([*of_runs(lines), options, *of_sources(lines)])


def limits() -> dict[str, int]:
    """Return the most that figures may be, by name."""
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return dict(project["tool"]["count_house"])


@click.command(help=__doc__)
@click.option("--names", is_flag=True, help="Print the names that are defined more than once.")
def main(names: bool) -> None:
    if names:
        lines = lines_of("agents/*.py", "workflow_rl/*.py")
        for name, files in homes({n: ast.parse((ROOT / n).read_text()) for n in lines}).items():
            click.echo(f"{'twin' if are_twins(files) else 'name'} {name}: {', '.join(files)}")
        return
    most, found = limits(), figures()
    for name, figure in found.items():
        click.echo(f"{name}: {figure} (at most {most[name]})")
    if over := [name for name, figure in found.items() if figure > most[name]]:
        raise click.ClickException(f"over its limit: {', '.join(over)}")
    if lost := [name for name in ONCE if not found[name]]:
        raise click.ClickException(f"nothing was counted: {', '.join(lost)}")


if __name__ == "__main__":
    main()
