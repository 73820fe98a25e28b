"""Whatever a user gives as an option: one clear line, exit code 2, and nothing run or changed."""

import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from hypothesis import given
from hypothesis import strategies as st

from tests.bad_input.refusals import TINY, assert_refused, cases, junk, words
from tests.command_options import command_named
from workflow_rl.commands.main import places
from workflow_rl.commands.options import UsablePath

# What each command needs besides. None of them would do much, if the mistake passed.
NEEDED = {
    "train-sync": [*TINY, "--dry-run"],
    "train-async": [*TINY, "--dry-run"],
    "train-population": [*TINY, "--dry-run"],
    "train-duel": [*TINY, "--dry-run"],
    "exploit": ["nowhere.npz", "--env", "no_such_module:Env"],
    "tune": [*TINY, "--trials", "1", "--dry-run"],
    "train-champion": ["--run-dir", "run"],
    "train-workflow": ["--run-dir", "run"],
    "search-workflow": ["nowhere"],
    "describe-scenario": ["scenario2"],
    "evaluate": ["run", "--episodes", "1", "--quiet"],
    "replay": ["sleep", "--max-steps", "2"],
    "export": ["run", "--format", "npz", "--output", "other.npz"],
    "check-env": ["no_such_module:Env"],
    "benchmark": ["--env", "no_such_module:Env"],
    "compare": ["nowhere"],
    "record": ["decoys", "no/such/folder/episodes.npz"],
    "parity": ["--checkpoint", "nowhere.safetensors", "--blue", "checkpoint"],
    "plot": ["nowhere"],
    "report": ["nowhere"],
    "verify": ["nowhere"],
    "doctor": [],
}


def test_every_command_is_tried():
    assert NEEDED.keys() == places().keys()


def options_of(name: str) -> list[click.Option]:
    """Those that go with what the command of NEEDED names."""
    command = command_named(name)
    context = click.Context(command, info_name=name)
    with contextlib.suppress(click.UsageError):
        command.parse_args(context, list(NEEDED[name]))
    options = [one for one in command.get_params(context) if isinstance(one, click.Option)]
    return [one for one in options if one.name != "help"]


def is_number(kind: Callable[[str], float], text: str) -> bool:
    try:
        kind(text)
    except ValueError:
        return False
    return True


def bad_value(draw: Any, option: click.Option) -> str | None:
    """One that its type refuses; None if there is none."""
    kind = option.type
    if isinstance(kind, click.IntRange):
        no_number = words.filter(lambda text: not is_number(int, text))
        outside = [no_number]
        if kind.min is not None:
            outside.append(st.integers(-(10**40), int(kind.min) - 1).map(str))
        if kind.max is not None:
            outside.append(st.integers(int(kind.max) + 1, 10**40).map(str))
        return str(draw(st.one_of(outside)))
    if isinstance(kind, click.FloatRange):
        no_number = words.filter(lambda text: not is_number(float, text))
        outside = [no_number, st.sampled_from(["nan", "inf", "-inf", "1e400"])]
        if kind.min is not None:
            outside.append(st.floats(-1e300, kind.min, exclude_max=True).map(str))
        if kind.max is not None:
            outside.append(st.floats(kind.max, 1e300, exclude_min=True).map(str))
        return str(draw(st.one_of(outside)))
    if isinstance(kind, click.Choice):
        return str(draw(words.filter(lambda text: text not in kind.choices)))
    if isinstance(kind, UsablePath):
        return str(draw(st.sampled_from(["x" * 5000, "loop", "pipe", "/dev/zero", "a/" * 3000])))
    if option.name == "hidden_sizes":
        return str(
            draw(st.sampled_from(["", "0", "-1", "8,", "8,,8", "99999999", "8," * 40 + "8"]))
        )
    if option.name == "env_arg":
        return str(draw(st.sampled_from(["", "=", "=1", "1=2", "a b=1", "["])))
    return None


@cases(100)
@given(data=st.data())
def test_options(data, run):
    if not Path("loop").is_symlink():
        Path("loop").symlink_to("loop")
        os.mkfifo("pipe")
    name = data.draw(st.sampled_from(list(places())))
    options = options_of(name) or [click.Option(["--any"])]
    option = data.draw(st.sampled_from(options))
    value = bad_value(data.draw, option)
    spelled = option.opts[0]
    if value is None:
        spelled, value = spelled + "-no-such-option", "1"
    assert_refused([name, *NEEDED[name], f"{spelled}={value}"], *option.opts, spelled)


@cases(25)
@given(
    name=st.sampled_from(
        ["max_steps", "red_agent", "simulator", "observation", "opening", "other"]
    ),
    value=junk.filter(lambda value: value not in ([], None)),
)
def test_arguments_of_the_environment(name, value, run):
    arguments = ["train-sync", f"--env-arg={name}={json.dumps(value)}", "--dry-run"]
    assert_refused(arguments, name.replace("_", "-"), "--env-arg", "env_arg")
