import ast
import itertools
import re
import shutil
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from scripts.check_clients import CLIENTS, RESULT
from tests.small_sizes import small

pytestmark = pytest.mark.system

ROOT = Path(__file__).resolve().parents[1]
COMMAND = re.compile(r"(\w+=\S+ )*(python|workflow-rl|cd) ")


def requirements(path: Path) -> list[Requirement]:
    lines = (line.strip() for line in path.read_text().splitlines())
    return [Requirement(line) for line in lines if line and not line.startswith(("#", "-r"))]


def version(requirement: Requirement) -> str:
    """The one that is pinned."""
    (specifier,) = requirement.specifier
    assert specifier.operator == "==", requirement
    return specifier.version


@pytest.mark.parametrize("name", CLIENTS)
def test_an_example_is_short_and_says_how_it_is_run(name):
    text = (ROOT / "examples" / f"{name}.py").read_text()
    assert len(text.splitlines()) <= 60
    usage = rf"^Usage: \[STEPS=\d+\] \[SEED=0\] python examples/{name}\.py$"
    assert re.search(usage, text, re.MULTILINE)


def test_all_that_have_versions_are_checked():
    named = {path.stem for path in (ROOT / "examples" / "requirements").glob("*.txt")}
    assert named == set(CLIENTS)


@pytest.mark.parametrize("name", CLIENTS)
def test_the_versions_of_the_client_are_named(name):
    named = requirements(ROOT / "examples" / "requirements" / f"{name}.txt")
    assert {CLIENTS[name], "gymnasium"} <= {r.name for r in named if version(r)}


@pytest.mark.parametrize(
    "path",
    [
        ROOT / "requirements.txt",
        ROOT / "requirements-dev.txt",
        *sorted((ROOT / "examples" / "requirements").glob("*.txt")),
    ],
    ids=lambda path: path.stem,
)
def test_what_is_pinned_lies_in_the_ranges(path):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = itertools.chain(project["dependencies"], *project["optional-dependencies"].values())
    ranges = {r.name: r.specifier for r in map(Requirement, asked)}
    pinned = {r.name: version(r) for r in requirements(path) if r.name in ranges}
    assert pinned
    for name, chosen in pinned.items():
        assert chosen in ranges[name], f"{name} {chosen}"
    if path.stem == "requirements":
        assert pinned.keys() == {Requirement(line).name for line in project["dependencies"]}


def commands(path: Path) -> str:
    """What the docstring tells to type, for a moment each, as a program for bash."""
    text = ast.get_docstring(ast.parse(path.read_text()))
    assert text
    typed = (line.removeprefix("Usage: ") for line in text.splitlines())
    lines = [re.sub(r"\[.*?\]", "", line.replace("[EPISODES]", "2")).strip() for line in typed]
    program = small("\n".join(filter(COMMAND.match, lines)))
    return re.sub(r"--total-steps \d+", "--total-steps 500 --n-workers 1", program)


@pytest.mark.parametrize(
    "path",
    [path for path in sorted((ROOT / "examples").glob("*.py")) if path.stem != "one_file"],
    ids=lambda path: path.stem,
)
def test_it_runs_with_the_installed_package(path, installed, tmp_path):
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
            # Another example needs no installation.
            if not (ROOT / "examples" / f"{module}.py").exists():
                pytest.importorskip(str(module).partition(".")[0], reason="`make clients` runs it")
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    program = commands(path)
    assert program
    steps = "2000" if path.stem in CLIENTS else "500"
    said = installed.run(tmp_path, "bash", "-euc", program, STEPS=steps, SEED="3")
    if path.stem in CLIENTS:
        (trained, _, mean_return), *more = RESULT.findall(said)
        assert trained == steps
        assert -1100 < float(mean_return) < -50
        assert not more
    elif path.stem == "lookahead":
        alone, ahead = map(float, re.findall(r": (-\d+\.\d) over 2 episodes", said))
        assert ahead > alone / 2
