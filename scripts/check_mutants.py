"""Break the code in many small ways, one at a time, and see whether the tests notice.

A mutant that survives is a line that no test holds, or another way to write the same: the report
has each surviving mutant as a diff. Works on a copy of the checkout, with cosmic-ray's operators.
The tests that run are those that reach the mutated line, as coverage.py saw them.

    python scripts/check_mutants.py --draw 20 workflow_rl/collection
"""

from __future__ import annotations

import ast
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import click
from cosmic_ray.commands import init
from cosmic_ray.mutating import mutate_and_test, mutate_code
from cosmic_ray.plugins import get_operator
from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import MutationSpec, TestOutcome
from coverage import CoverageData
from tqdm import tqdm

ROOT = Path(__file__).resolve().parents[1]
PLACES = ("agents", "workflow_rl")
COMPILED = ("compiled", "files", "jit.py")
"""What numba compiles: its tests take minutes for each mutant. And what a submission copies."""
TESTS = 30
"""How many tests at most have to notice."""
PYTEST = (sys.executable, "-m pytest -x -q -p no:cacheprovider -m 'not slow'")
# Types are written with | and never run.
LEFT_OUT = ("core/ReplaceBinaryOperator_BitOr_",)
NUMBERS = "core/NumberReplacer"
COVERAGE = "--cov=workflow_rl --cov=agents --cov-context=test --cov-report="


def mutations_of(module: Path, seed: int) -> Iterator[MutationSpec]:
    """Yield all mutations of a module, those of default values apart, in the order of the seed."""
    with tempfile.TemporaryDirectory() as folder:
        database = str(Path(folder) / "session.sqlite")
        with use_db(database, WorkDB.Mode.create) as session:
            init([module], session, {})
            found = [mutation for item in session.work_items for mutation in item.mutations]
    found.sort(key=lambda mutant: (mutant.operator_name, mutant.start_pos))
    random.Random(f"{seed} {module}").shuffle(found)
    settings = set(setting_lines(ast.parse(module.read_text())))
    for mutant in found:
        is_setting = mutant.operator_name == NUMBERS and mutant.start_pos[0] in settings
        if not is_setting and not mutant.operator_name.startswith(LEFT_OUT) and is_code(mutant):
            yield mutant


def setting_lines(tree: ast.Module) -> Iterator[int]:
    """Yield the lines of constants, of fields' defaults and of parameters' defaults."""
    for node in ast.walk(tree):
        values: list[ast.expr | None] = []
        if isinstance(node, ast.Module | ast.ClassDef):
            values = [
                part.value for part in node.body if isinstance(part, ast.Assign | ast.AnnAssign)
            ]
        elif isinstance(node, ast.arguments):
            values = [*node.defaults, *node.kw_defaults]
        for value in filter(None, values):
            yield from range(value.lineno, (value.end_lineno or value.lineno) + 1)


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
    copying = f"{listing} | xargs -0 cp --parents -P --target-directory {folder} 2>/dev/null"
    subprocess.run(copying, shell=True, cwd=ROOT, check=False)


class Reached:
    """Which tests reach a line. data: what coverage.py saw, with a context for each test."""

    def __init__(self, data: CoverageData) -> None:
        self._lines = {file: data.contexts_by_lineno(file) for file in data.measured_files()}

    def command(self, mutation: MutationSpec) -> str:
        """Return what runs the tests that have to notice a mutant.

        Those of the module's own name come first, then those that reach few lines of the module.
        Where no test reaches the line in its own process, all tests of the module count, those that
        reach many lines first, and where none reaches the module, those that mirror its place.
        """
        by_line = self._lines.get(str(mutation.module_path), {})
        lines = range(mutation.start_pos[0], mutation.end_pos[0] + 1)
        all_tests = [test for contexts in by_line.values() for test in contexts if test]
        tests = {test for line in lines for test in by_line.get(line, ()) if test}
        own = f"test_{mutation.module_path.stem}.py"

        # What a module computes when it is imported is noticed by tests that use much of it.
        sign = 1 if tests else -1

        def distance(test: str) -> tuple[bool, int, str]:
            return own not in test, sign * all_tests.count(test), test

        chosen = sorted(tests or set(all_tests), key=distance)[:TESTS]
        names = sorted({test.split("|")[0].split("[")[0] for test in chosen})
        return " ".join([*PYTEST, *(names or mirrored(mutation.module_path))])


def mirrored(module: Path) -> list[str]:
    """Return the test file of the module's name, or else those of its room.

    They play what only other processes import, where coverage.py sees nothing.
    """
    tests = Path("tests", module.parent)
    named = [str(file) for file in tests.rglob(f"test_{module.stem}.py")]
    return named or [str(file) for file in tests.glob("test_*.py")]


@click.command(context_settings={"show_default": True})
@click.argument("modules", nargs=-1, metavar="[MODULE]...")
@click.option("--draw", type=click.IntRange(1), default=100, help="Mutants of all modules.")
@click.option("--seed", default=0, help="Which mutants.")
@click.option("--timeout", default=200.0, help="Seconds after which a mutant counts as noticed.")
@click.option("--covered", type=click.Path(path_type=Path), help="A file to keep coverage in.")
def main(
    modules: tuple[str, ...], draw: int, seed: int, timeout: float, covered: Path | None
) -> None:
    """Break MODULE..., files or folders, or all of the package but what is compiled."""
    covered = covered and covered.resolve()
    with tempfile.TemporaryDirectory() as folder:
        copy_checkout(Path(folder))
        os.chdir(folder)
        os.environ["PYTHONPATH"] = str(Path(folder).resolve())
        file = covered or Path(folder, ".coverage").resolve()
        if not file.exists():
            os.environ["COVERAGE_FILE"] = str(file)
            tests = f"{sys.executable} -m pytest -n 4 {COVERAGE}"
            subprocess.run([*tests.split(), "-m", "not slow and not system"], check=True)
        data = CoverageData(str(file))
        data.read()
        reached = Reached(data)
        places = [Path(place) for place in modules or PLACES]
        files = sorted(
            path
            for place in places
            for path in ([place] if place.suffix else place.rglob("[a-z]*.py"))
            if not {*COMPILED} & {*path.parts}
        )
        sizes = [path.stat().st_size for path in files]
        counts = Counter(random.Random(seed).choices(files, sizes, k=draw))
        drawn = [
            mutation
            for module in files
            if counts[module]
            for mutation in islice(mutations_of(module, seed), counts[module])
        ]
        noticed = 0
        for mutation in tqdm(drawn, unit="mutant", dynamic_ncols=True):
            result = mutate_and_test([mutation], reached.command(mutation), timeout)
            if result.test_outcome is TestOutcome.SURVIVED:
                tqdm.write(f"{result.diff}\n", file=sys.stdout)
            else:
                noticed += 1
    click.echo(f"{noticed} of {len(drawn)} noticed: {noticed / max(1, len(drawn)):.1%}")


if __name__ == "__main__":
    main()
