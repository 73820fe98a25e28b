"""What the pages tell a stranger to type works, and what they name and link to is there.

Blocks run from the top of a page to its end, in a folder that looks like a fresh checkout, with the
sizes below in the place of those that take minutes. Commands in the text, which are mostly where a
figure comes from, are parsed by the command they name.
"""

from __future__ import annotations

import csv
import fnmatch
import importlib
import itertools
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from agents.algorithm import find
from tests.pages import (
    PAGES,
    ROOT,
    anchors,
    blocks,
    code_spans,
    is_generated,
    links,
    name_of,
    prose,
    table,
)
from workflow_rl.cage2.compiled.tables import RESTORE_COST, WORTH, WORTH_OF_OT_SERVICE
from workflow_rl.cage2.scenario2 import ACTION_NAMES, HOSTS
from workflow_rl.commands.main import MODULES, main
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.metrics import METRICS, return_columns

DOCS = ROOT / "docs"
WITH_BLOCKS = [page for page in PAGES if blocks(page)]
FIRST_READ = {"README.md", "own-environment.md", "python.md", "environment.md"}
"""Pages that are run with every change; the others are among the long checks."""

NOT_EVERYWHERE = {"cluster.md": ["ray"], "pandas.md": ["pandas"], "logging.md": ["wandb"]}
"""Packages that a page needs, which `make ray` and `make notebook` install."""

SMALL = {
    "--total-episodes": lambda n: max(24, n // 400),
    "--total-steps": lambda n: min(n, 6_000),
    "--episodes": lambda n: 2,
    "--seeds": lambda n: 1,
    "--minutes": lambda n: 0.2,
    "--n-workers": lambda n: 2,
}
"""What an option's number becomes."""
LACKING = {
    "evaluate": {"--episodes": "10"},
    "train-async": {"--total-episodes": "24"},
    "train-sync": {"--total-episodes": "24"},
    "run_async_training.sh": {"--total-episodes": "24"},
    "async_train_workflow_rl.py": {"--total-episodes": "24"},
    "train-population": {"--period": "24"},
    "train-workflow": {"--total-episodes": "24"},
    "train-champion": {"--total-episodes": "400", "--selection-episodes": "32", "--episodes": "2"},
    "tune": {"--total-episodes": "24"},
    "compare-modes": {"--total-episodes": "24", "--n-envs": "4"},
    "run_tests.sh": {"--version": ""},
}
"""What a command is given besides, if it has not been given it."""
ENDS_ELSEWHERE = frozenset({"--env", "--resume", "--dry-run", "--final-evaluation"})
"""Beside these a command's length is not for LACKING to say."""
IN_PYTHON = (("30_000", "3_000"), ("20_000", "2_000"), ("episodes=3_000", "episodes=24"))

OWN = ["python", "-m", "workflow_rl"]

# pip is not to change the environment that the tests run in, nor is Ray there everywhere.
PREAMBLE = f"""
set -euo pipefail
python() {{ {shlex.quote(sys.executable)} "$@"; }}
pip() {{ python -m tests.page_commands pip "$@"; }}
ray() {{ python -m tests.page_commands ray "$@"; }}
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with all that a checkout has, and with .venv set up."""
    for path in ROOT.iterdir():
        if path.name not in {".git", ".venv", "runs", "site"}:
            (tmp_path / path.name).symlink_to(path)
    (tmp_path / ".venv").mkdir()
    for path in Path(sys.prefix).iterdir():
        if not path.name.startswith("."):
            (tmp_path / ".venv" / path.name).symlink_to(path)
    stamps = "cat requirements*.txt pyproject.toml setup.py | cksum | cut -d ' ' -f 1"
    checksum = subprocess.check_output(["bash", "-c", stamps], cwd=tmp_path, text=True).strip()
    for requirements in ("requirements.txt", "requirements-dev.txt"):
        (tmp_path / ".venv" / f".{requirements}.{checksum}").touch()
    return tmp_path


def small(text: str) -> str:
    """The same commands, for a moment each."""
    lines = text.replace("\\\n", " ").splitlines()
    return "\n".join(_small(line.partition("  #")[0]) for line in lines)


def _small(line: str) -> str:
    for option, smaller in SMALL.items():
        line = re.sub(
            rf"({option} )(\d+)", lambda found, s=smaller: f"{found[1]}{s(int(found[2]))}", line
        )
    words = line.split()
    for command, options in LACKING.items():
        ends_elsewhere = command != "train-champion" and ENDS_ELSEWHERE.intersection(words)
        if any(word.rpartition("/")[2] == command for word in words) and not ends_elsewhere:
            line += "".join(f" {o} {n}" for o, n in options.items() if o not in words)
    # No cluster runs here that it could join.
    return line.replace("--cluster auto", "--cluster local")


def steps(page: Path) -> Iterator[list[str]]:
    """A page's commands and programs. Programs that follow one another are one. The first three
    words of a command of this package are OWN."""
    kinds = itertools.groupby(
        (block for block in blocks(page) if block.title is None), lambda block: block.language
    )
    for language, group in kinds:
        texts = [block.text for block in group]
        if language == "python":
            program = "\n".join(texts)
            for large, little in IN_PYTHON:
                program = program.replace(large, little)
            yield [sys.executable, "-c", program]
        else:
            for text in map(small, texts):
                lines = [shlex.split(line) for line in text.splitlines() if line.strip()]
                if page.name in FIRST_READ and all(words[:3] == OWN for words in lines):
                    yield from lines
                else:
                    yield ["bash", "-c", PREAMBLE + text]


def take(step: list[str], folder: Path) -> None:
    """Take a step in a folder. A command of this package needs no process of its own."""
    if step[:3] == OWN:
        result = CliRunner().invoke(main, step[3:])
        assert result.exit_code == 0, f"{step}\n{result.output}"
        return
    done = subprocess.run(
        step,
        cwd=folder,
        # STEPS is what the examples read.
        env={**os.environ, "PYTHONPATH": f"{folder}:{ROOT}", "STEPS": "2000"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"{step[-1]}\n{done.stdout[-2000:]}{done.stderr[-4000:]}"


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[] if page.name in FIRST_READ else pytest.mark.slow)
        for page in WITH_BLOCKS
    ],
    ids=name_of,
)
def test_what_is_to_be_typed_works(
    page: Path, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in NOT_EVERYWHERE.get(page.name, ()):
        pytest.importorskip(package)
    for block in blocks(page):
        if block.title is not None and block.snippet is None:
            (checkout / block.title).write_text(block.text)
    monkeypatch.chdir(checkout)
    monkeypatch.syspath_prepend(checkout)
    for step in steps(page):
        take(step, checkout)
    if page.name == "own-environment.md":
        # Acting at random returns -8; whoever walks to the right, 0.
        scores = json.loads((checkout / "runs" / "corridor" / "evaluation.json").read_text())
        assert scores["mean"] > -4


@pytest.mark.parametrize("page", WITH_BLOCKS, ids=name_of)
def test_no_block_is_left_out(page: Path) -> None:
    assert page.read_text().count("```") == 2 * len(blocks(page))
    for block in blocks(page):
        assert block.language in {"bash", "python"}
        if block.snippet is not None:
            assert block.title == block.snippet
            assert (ROOT / block.snippet).is_file()


def test_no_block_writes_what_git_would_see() -> None:
    """Blocks run with small sizes: one that drew into docs/figures would leave an empty picture."""
    for page, line in lines_of_blocks():
        for output in re.findall(r"--(?:output|png|plot|json|trace) (\S+)", line):
            either = ["git", "check-ignore", output, f"{output}/"]
            hidden = subprocess.run(either, cwd=ROOT, capture_output=True, check=False)
            assert hidden.stdout, f"{name_of(page)}: {output}"


def test_sizes_are_substituted() -> None:
    assert small("train-async --env X \\\n  --total-steps 40000  # slow") == (
        "train-async --env X    --total-steps 6000"
    )
    assert small("evaluate runs/a --seed 7") == "evaluate runs/a --seed 7 --episodes 10"


# What is named in the text.


def code_in_text() -> list[tuple[Path, str]]:
    return [(page, span) for page in PAGES for span in code_spans(page)]


def lines_of_blocks() -> list[tuple[Path, str]]:
    commands = [(page, block) for page in PAGES for block in blocks(page)]
    return [
        (page, line.partition("  #")[0].partition(" && ")[0].strip())
        for page, block in commands
        if block.language == "bash"
        for line in block.text.replace("\\\n", " ").splitlines()
    ]


def command_of(words: list[str]) -> tuple[click.Command, list[str]] | None:
    """The command that is meant, and its arguments; None if these words are none of ours."""
    if words[:3] == ["python", "-m", "workflow_rl"]:
        words = words[3:]
    elif words[0] == "workflow-rl":
        words = words[1:]
    elif words[0] == "python" and words[1].startswith("scripts/"):
        module = importlib.import_module(words[1].removesuffix(".py").replace("/", "."))
        return module.main, words[2:]
    if not words or words[0].partition("-")[0] not in {name.partition("-")[0] for name in MODULES}:
        return None
    _, command, arguments = main.resolve_command(click.Context(main), words)
    assert command is not None
    return command, arguments


def test_commands_are_understood() -> None:
    understood = set()
    for page, span in [*code_in_text(), *lines_of_blocks()]:
        if re.match(r"export [A-Z_]+=", span):  # The shell's, not this package's.
            continue
        # N and $seed stand for numbers.
        words = shlex.split(re.sub(r"\b[A-Z]\b|\$\w+", "1", span.replace("'", "")))
        while words and re.match(r"[A-Z_]+=", words[0]):
            del words[0]
        if len(words) < 2:
            continue
        try:
            found = command_of(words)
            if found is not None:
                command, arguments = found
                command.make_context("it", arguments)
                understood.add(span)
        except click.MissingParameter:
            pass  # It is a part of one.
        except click.UsageError as error:
            if "cannot be imported: No module named 'my_" in error.format_message():
                continue  # A file that the reader writes.
            pytest.fail(f"{name_of(page)}: `{span}`: {error.format_message()}")
    assert len(understood) > 60


def test_options_in_the_text_exist() -> None:
    context = click.Context(main)
    commands = [main.get_command(context, name) for name in MODULES]
    named = {
        name
        for command in commands
        for parameter in command.params
        for name in (*parameter.opts, *parameter.secondary_opts)
    } | {"--help"}
    scripts = "".join(path.read_text() for path in (ROOT / "scripts").glob("*.py"))
    scripts += (ROOT / "workflow_rl/cage2/scoring/submission/files/evaluation.py").read_text()
    for page, span in code_in_text():
        if span.startswith("--"):
            for option in re.findall(r"(?<!\S)--[a-z][\w-]*", span):
                # pip's own.
                if option != "--require-hashes" and f'"{option}"' not in scripts:
                    assert option in named, f"{name_of(page)}: {option}"


def test_targets_and_scripts_in_the_text_exist() -> None:
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page, span in code_in_text():
        words = span.split()
        if words[0] == "make":
            assert targets.issuperset(words[1:]), f"{name_of(page)}: {span}"
        if words[0] == "bash" and len(words) > 1:
            assert (ROOT / words[1]).is_file(), f"{name_of(page)}: {span}"
        if words[0] == "pip":
            subprocess.run(
                [sys.executable, "-m", "tests.page_commands", *shlex.split(span)],
                cwd=ROOT,
                check=True,
            )
        if re.fullmatch(r"(agents|workflow_rl|scripts|tests|examples|docs)/[\w/.-]+", words[-1]):
            assert (ROOT / words[-1]).exists(), f"{name_of(page)}: {span}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for link in links(page):
        if link.startswith(("https://", "http://")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.is_file(), link
        if page.is_relative_to(DOCS):
            assert target.is_relative_to(DOCS), f"{link} is not on the site"
        if anchor and not is_generated(target):
            assert anchor in anchors(target), link


def test_every_page_is_in_the_menu() -> None:
    menu = re.findall(r"(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(menu) == sorted(str(page.relative_to(DOCS)) for page in PAGES[1:])


def test_pages_name_no_machine() -> None:
    for page in PAGES:
        assert not re.search(r"/(?:root|home|tmp|work)/", page.read_text()), name_of(page)


# What the reference says of files and of the environment.


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "run"
    options = (
        "train-async --total-episodes 8 --episodes-per-update 4 --n-envs 2 --max-steps 5 "
        "--keep-every 1 --final-evaluation 1 --quiet"
    )
    result = CliRunner().invoke(main, [*options.split(), "--run-dir", str(path)])
    assert result.exit_code == 0, result.output
    return path


def test_every_column_of_the_metrics_is_documented(run_dir: Path) -> None:
    rows = table(DOCS / "reference" / "metrics.md", "column")
    with (run_dir / "metrics.csv").open(newline="") as file:
        assert [row[0].strip("`") for row in rows] == next(csv.reader(file))
    mixed = TrainConfig("async", env_args={"red_agent": "mixed"})
    (of_each,) = table(DOCS / "reference" / "metrics.md", "column of each")
    assert re.findall(r"`(\w+)`", of_each[0]) == list(return_columns(mixed).values())
    further = table(DOCS / "reference" / "metrics.md", "further column")
    own = [one for one in find("mbpo").metrics if one not in METRICS]
    assert [row[0].strip("`") for row in further] == own
    assert all(unit and meaning for _, unit, meaning in rows + further)


def test_every_file_of_a_run_is_documented(run_dir: Path) -> None:
    rows = table(DOCS / "reference" / "run-folder.md", "file")
    documented = {row[0].strip("`"): row[1] for row in rows}
    there = {str(path.relative_to(run_dir)) for path in run_dir.rglob("*") if path.is_file()}
    patterns = [re.sub(r"\d+", "*", name) for name in documented]
    for name in there:
        assert any(fnmatch.fnmatch(name, pattern) for pattern in patterns), name
    for name, when in documented.items():
        if when in {"always", "at the end", "once there is one"}:
            assert any(fnmatch.fnmatch(one, name) for one in there), name


def test_the_tables_of_the_environment_are_right() -> None:
    page = DOCS / "reference" / "environment.md"
    hosts = table(page, "index")
    assert [row[1] for row in hosts] == list(HOSTS)
    costs = [float(row[2].split(",")[0]) for row in hosts]
    assert costs == [worth / 10 for worth in WORTH]
    assert f"and {WORTH_OF_OT_SERVICE / 10:g} while" in hosts[HOSTS.index("Op_Server0")][2]
    assert f"A Restore costs {RESTORE_COST / 10:g} besides" in prose(page)
    for action, _, numbers in table(page, "action"):
        first, _, last = numbers.partition(" to ")
        names = ACTION_NAMES[int(first) : int(last or first) + 1]
        wanted = [f"{action} {host}" for host in HOSTS] if last else [action]
        assert list(names) == wanted


def test_what_the_site_needs_is_pinned() -> None:
    lines = (ROOT / "requirements-docs.txt").read_text().splitlines()
    named = [line for line in lines if not line.startswith(("#", "-r"))]
    assert named
    assert all("==" in line for line in named)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert not any("mkdocs" in line for line in project["dependencies"])
