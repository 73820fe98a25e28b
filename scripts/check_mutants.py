"""Break the code in many small ways, one at a time, and see whether the tests notice.

A mutant that survives is a line that no test holds, or another way to write the same: the report
has each surviving mutant as a diff. Works on a copy of the checkout, with cosmic-ray's operators.

    python scripts/check_mutants.py --sample 20 workflow_rl/collection/assignments.py
"""

from __future__ import annotations

import ast
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from itertools import islice
from pathlib import Path

import click
import grimp
from cosmic_ray.commands import init
from cosmic_ray.mutating import mutate_and_test, mutate_code
from cosmic_ray.plugins import get_operator
from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import MutationSpec, TestOutcome
from tqdm import tqdm

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("agents", "collection", "environments", "runs", "cage2/agent", "cage2/scoring")
SEARCHED = tuple(f"workflow_rl/{room}" for room in ROOMS)
"""Where modules learn, collect, select, score, save or load."""
TEST_FILES = 8
"""How many test files at most have to notice."""
# Types are written with | and never run.
LEFT_OUT = ("core/ReplaceBinaryOperator_BitOr_",)


def mutations_of(module: str, seed: int) -> list[MutationSpec]:
    """Return all mutations of a module of the working directory, in the order of the seed."""
    with tempfile.TemporaryDirectory() as folder:
        database = str(Path(folder) / "session.sqlite")
        with use_db(database, WorkDB.Mode.create) as session:
            init([Path(module)], session, {})
            found = [mutation for item in session.work_items for mutation in item.mutations]
    found = [mutant for mutant in found if not mutant.operator_name.startswith(LEFT_OUT)]
    found.sort(key=lambda mutant: (mutant.operator_name, mutant.start_pos))
    random.Random(f"{seed} {module}").shuffle(found)
    return found


def is_code(mutation: MutationSpec) -> bool:
    """Whether Python can read the mutated module: if not, no test has to notice."""
    operator = get_operator(mutation.operator_name)(**mutation.operator_args)
    source = mutation.module_path.read_text()
    mutated = mutate_code(source, operator, mutation.occurrence)
    try:
        ast.parse(mutated or source)
    except SyntaxError:
        return False
    return mutated is not None


def copy_checkout(folder: Path) -> None:
    """Copy the files that git knows or would add."""
    listing = "git ls-files -z --cached --others --exclude-standard"
    copying = f"{listing} | xargs -0 cp --parents --target-directory {folder} 2>/dev/null"
    subprocess.run(copying, shell=True, cwd=ROOT, check=False)


def command_of(module: str, graph: grimp.ImportGraph) -> str:
    """Return what runs the tests that have to notice: those of the module's own name first, then
    those that import the module or one of its users, the nearest first."""
    name = module.removesuffix(".py").replace("/", ".")
    home, _, last = f"tests.{name}".rpartition(".")
    users = graph.find_modules_that_directly_import(name)
    further = {module for user in users for module in graph.find_modules_that_directly_import(user)}

    def distance(test: str) -> tuple[bool, bool, bool, str]:
        is_own = f".test_{last}" in test
        return not is_own, test not in users, not test.startswith(home), test

    tests = sorted((test for test in graph.modules if ".test_" in test), key=distance)
    found = [
        test for test in tests if test in users | further or test.startswith(f"{home}.test_{last}")
    ]
    files = " ".join(f"{test.replace('.', '/')}.py" for test in found[:TEST_FILES])
    return f"{sys.executable} -m pytest -x -q -p no:cacheprovider {files}"


@click.command(context_settings={"show_default": True})
@click.argument("modules", nargs=-1, metavar="[MODULE]...")
@click.option("--sample", type=click.IntRange(1), default=20, help="Mutants of each module.")
@click.option("--seed", default=0, help="Which mutants.")
@click.option("--timeout", default=300.0, help="Seconds after which a mutant counts as noticed.")
def main(modules: tuple[str, ...], sample: int, seed: int, timeout: float) -> None:
    """Break MODULE..., files or folders, or all that learns, collects, scores, saves or loads."""
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    graph = grimp.build_graph("workflow_rl", "tests", cache_dir=None)
    commands = {
        str(path): command_of(str(path), graph)
        for place in map(Path, modules or SEARCHED)
        for path in ([place] if place.suffix else sorted(place.rglob("[a-z]*.py")))
    }
    total: Counter[str] = Counter()
    noticed: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        copy_checkout(Path(folder))
        os.chdir(folder)
        # Compile the simulator once: the tests' workers would do so at the same time, and be late.
        compile_simulator = "from workflow_rl.cage2.env.environment import Cage2 as C"
        compile_simulator += "; C(simulator='compiled').check()"
        subprocess.run([sys.executable, "-c", compile_simulator], check=True)
        for command in sorted(set(commands.values())):
            unbroken = subprocess.run(command.split(), capture_output=True, text=True)
            if unbroken.returncode:
                raise click.ClickException(f"unbroken, {command} fails:\n{unbroken.stdout[-3000:]}")
        chosen = [
            (module, mutation)
            for module in commands
            for mutation in islice(filter(is_code, mutations_of(module, seed)), sample)
        ]
        for module, mutation in tqdm(chosen, unit="mutant", dynamic_ncols=True):
            result = mutate_and_test([mutation], commands[module], timeout)
            total[module] += 1
            if result.test_outcome is TestOutcome.SURVIVED:
                tqdm.write(f"{result.diff}\n", file=sys.stdout)
            else:
                noticed[module] += 1
        os.chdir(ROOT)
    for module in commands:
        click.echo(f"{module:45} {noticed[module]:4} of {total[module]:4} noticed")
    share = noticed.total() / max(1, total.total())
    click.echo(f"{'all':45} {noticed.total():4} of {total.total():4} noticed: {share:.1%}")


if __name__ == "__main__":
    main()
