"""What the pages name and link to is there.

Commands in the text, which are mostly where a figure comes from, are parsed by the command they
name.
"""

import contextlib
import importlib
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from tests.command_options import options_of
from tests.pages import (
    DOCS,
    PAGES,
    ROOT,
    anchors,
    code_spans,
    is_generated,
    lines_of_blocks,
    links,
    name_of,
)
from workflow_rl.commands.main import main, places
from workflow_rl.environments.source import guests


def code_in_text() -> list[tuple[Path, str]]:
    return [(page, span) for page in PAGES for span in code_spans(page)]


def command_of(words: list[str]) -> tuple[click.Command, list[str]] | None:
    """The command that is meant, and its arguments; None if these words are none of ours."""
    if words[:3] == ["python", "-m", "workflow_rl"]:
        words = words[3:]
    elif words[0] == "workflow-rl":
        words = words[1:]
    elif words[0] == "python" and words[1].startswith("scripts/"):
        module = importlib.import_module(words[1].removesuffix(".py").replace("/", "."))
        return module.main, words[2:]
    if not words or words[0].partition("-")[0] not in {name.partition("-")[0] for name in places()}:
        return None
    _, command, arguments = main.resolve_command(click.Context(main), words)
    assert command is not None
    return command, arguments


def understand(command: click.Command, arguments: list[str]) -> None:
    """Parse a command line. The run that it names need not be there: its options tell of what
    environment it is."""
    try:
        with contextlib.suppress(click.exceptions.Exit):  # --help
            command.make_context("it", list(arguments))
    except click.UsageError as error:
        found = re.search(r"it is an option of --env ([^\s,]+)", error.format_message())
        if found is None:
            raise
        command.make_context("it", ["--env", found[1], *arguments])


def test_commands_are_understood():
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
                understand(command, arguments)
                understood.add(span)
        except click.MissingParameter:
            pass  # It is a part of one.
        except click.UsageError as error:
            if re.search(
                "No module named .my_|.intruders-quick.|yaml: there is no such file",
                error.format_message(),
            ):
                continue  # A file that the reader writes.
            pytest.fail(f"{name_of(page)}: `{span}`: {error.format_message()}")
    assert len(understood) > 60


def test_options_in_the_text_exist():
    context = click.Context(main)
    commands = [main.get_command(context, name) for name in places()]
    named = {
        name
        for command in commands
        for parameter in options_of(command)
        for name in (*parameter.opts, *parameter.secondary_opts)
    } | {"--help", "--hosts"}  # The latter is of examples/own_guest.
    scripts = "".join(path.read_text() for path in (ROOT / "scripts").glob("*.py"))
    scripts += "".join(
        f'"{option}"'
        for option in re.findall(
            r"^#SBATCH (--[\w-]+)", (ROOT / "scripts/seeds.sbatch").read_text(), re.M
        )
    )
    scripts += (ROOT / "workflow_rl/cage2/scoring/submission/files/evaluation.py").read_text()
    for page, span in code_in_text():
        if span.startswith("--"):
            for option in re.findall(r"(?<!\S)--[a-z][\w-]*", span):
                # Those of pip and of pytest.
                others = ("--require-hashes", "--random-order-seed")
                if option not in others and f'"{option}"' not in scripts:
                    assert option in named, f"{name_of(page)}: {option}"


def test_targets_and_scripts_in_the_text_exist():
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
        if words[-1] in guests:
            continue
        if re.fullmatch(r"(agents|workflow_rl|scripts|tests|examples|docs)/[\w/.-]+", words[-1]):
            assert (ROOT / words[-1]).exists(), f"{name_of(page)}: {span}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
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


def test_every_page_is_in_the_menu():
    menu = re.findall(r"(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(menu) == sorted(str(page.relative_to(DOCS)) for page in PAGES[1:])


def test_pages_name_no_machine():
    for page in PAGES:
        assert not re.search(r"/(?:root|home|tmp|work)/", page.read_text()), name_of(page)
