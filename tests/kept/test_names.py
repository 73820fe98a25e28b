"""Names that users may rely on are still there, or a page says what became of them.

names.json has those of commit 89af317. CHANGELOG.md says under "### Renamed" what became of a
command, option or default: "- `train-sync --epochs` is now `train-sync --passes`.", without a
command for the options of all of them, "- `tune --epochs=6` is now `tune --epochs=4`."
docs/reference/renamed.md has a row for each module or name in it that moved, or "gone: reason".
"""

from __future__ import annotations

import ast
import functools
import json
import pkgutil
import re
import tomllib
from pathlib import Path
from typing import Any

import click
import gymnasium
from workflow_rl.cli import MODULES, main

import workflow_rl
from tests.pages import ROOT, table

NAMES = json.loads((Path(__file__).parent / "names.json").read_text())
TRAINING = ("train-sync", "train-async", "train-population", "train-champion", "tune")


def commands() -> dict[str, dict[str, Any]]:
    """The options of every command; those of training with their defaults."""
    found = {name: main.get_command(click.Context(main), name) or main for name in MODULES}
    on_cage2 = found["evaluate"].make_context("evaluate", ["champion"]).command
    found |= {"workflow-rl": main, "evaluate-on-cage2": on_cage2}
    return {name: _options(command, name in TRAINING) for name, command in found.items()}


def _options(command: click.Command, has_defaults: bool) -> dict[str, Any]:
    context = click.Context(command)
    return {
        spelling: _default(parameter.get_default(context)) if has_defaults else None
        for parameter in command.get_params(context)
        for spelling in (*parameter.opts, *parameter.secondary_opts)
        if isinstance(parameter, click.Option)
    }


def _default(value: Any) -> Any:
    """As JSON has it; None where there is none, which click says in more than one way."""
    value = list(value) or None if isinstance(value, tuple) else value
    return value if isinstance(value, bool | int | float | str | list) else None


def flat(options_of: dict[str, dict[str, Any]]) -> set[str]:
    """Commands, options and defaults as the changelog spells them."""
    of_all = [(one, *option) for one, options in options_of.items() for option in options.items()]
    options = {f"{command} {option}" for command, option, _ in of_all}
    return {*options_of, *options, *(f"{one} {o}={json.dumps(d)}" for one, o, d in of_all)}


def test_commands_and_options() -> None:
    section = (ROOT / "CHANGELOG.md").read_text().partition("### Renamed\n")[2].partition("\n#")[0]
    items = [re.findall(r"`([^`]+)`", item) for item in re.split(r"^- ", section, flags=re.M)]
    renamed = {spans[0]: spans[1] for spans in items if len(spans) > 1}
    names, now = flat(NAMES["commands"]), flat(commands())
    assert [name for name in sorted(names - now) if successor(name, renamed) not in now] == []


def successor(name: str, renamed: dict[str, str]) -> str:
    """The same name as it is now: its command is replaced, and its option."""
    command, space, option = name.partition(" ")
    spelling, equals, default = option.partition("=")
    spelling = renamed.get(f"{command} {spelling}", renamed.get(spelling, spelling))
    now = f"{renamed.get(command, command)}{space}{spelling.rpartition(' ')[2]}{equals}{default}"
    return renamed.get(name, now)


def test_exports() -> None:
    exports = NAMES["exports"]
    assert [name for name in exports["workflow_rl"] if not hasattr(workflow_rl, name)] == []
    assert all(gymnasium.spec(env_id).vector_entry_point for env_id in exports["gymnasium"])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert all(pkgutil.resolve_name(project["scripts"][one]) for one in exports["console_scripts"])
    assert project["optional-dependencies"].keys() >= set(exports["extras"])
    assert all((ROOT / path).is_file() for path in exports["programs"])
    page = (ROOT / "docs" / "reference" / "python.md").read_text()
    documented = {one.rpartition(".")[2]: one for one in re.findall(r"^::: (\S+)$", page, re.M)}
    assert {name.rpartition(".")[2] for name in exports["documented"]} <= documented.keys()
    assert all(pkgutil.resolve_name(name) for name in documented.values())


@functools.cache
def defined(module: str) -> frozenset[str]:
    """The public classes, functions and constants at a module's top level, found in its text."""
    path = ROOT.joinpath(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    nodes = ast.parse(file.read_text()).body if file.is_file() else []
    names = {getattr(node, "name", "_") for node in nodes}  # Of classes and functions.
    for node in nodes:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                names |= {getattr(part, "id", "_") for part in ast.walk(target)}
    return frozenset(name for name in names if not name.startswith("_"))


def test_modules() -> None:
    page = ROOT / "docs" / "reference" / "renamed.md"
    renamed = {old.strip("`"): now.strip("`") for old, now in table(page, "before")}
    names = [(module, name) for module, its in NAMES["modules"].items() for name in its]
    assert renamed.keys() <= {*NAMES["modules"], *map(".".join, names)}
    assert [".".join(name) for name in names if not is_kept(*name, renamed)] == []


def is_kept(module: str, name: str, renamed: dict[str, str]) -> bool:
    """Whether it is where it was, or where the page says, or the page says that it is gone."""
    now = renamed.get(f"{module}.{name}", f"{renamed.get(module, module)}.{name}")
    new_module, _, new_name = now.rpartition(".")
    return now.startswith("gone: ") or new_name in defined(new_module)
