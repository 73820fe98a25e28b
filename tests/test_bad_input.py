"""Whatever a user gives: one clear line, exit code 2, and nothing run, filled or changed."""

from __future__ import annotations

import copy
import functools
import hashlib
import io
import json
import os
import pickle
import resource
import shutil
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
import torch
from click.testing import CliRunner
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from agents.policies.policy_file import load_policy
from tests.strangers import save
from workflow_rl.commands.main import MODULES, main
from workflow_rl.commands.options import UsablePath

SECONDS, MEGABYTES = 20.0, 400
TINY = [
    *("--n-envs", "2", "--max-steps", "5", "--episodes-per-update", "2", "--total-episodes", "4"),
    *("--hidden-sizes", "8", "--quiet"),
]


def cases(number: int) -> settings:
    """So many, always the same; each makes its files anew in the same folder."""
    slow = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
    return settings(
        max_examples=number,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=slow,
        phases=[Phase.generate],
    )


junk = st.one_of(
    st.none(),
    st.text(max_size=10),
    st.floats(),
    st.integers(2**63, 10**40),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)
# No surrogates, which are in no file name nor argument, nor the end of a C string.
words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "finished"
    result = CliRunner().invoke(main, ["train-async", *TINY, "--run-dir", str(path)])
    assert result.exit_code == 0, result.output
    exported = ["export", str(path), "--format", "npz", "--output", str(path / "agent.npz")]
    assert CliRunner().invoke(main, exported).exit_code == 0
    return path


@pytest.fixture
def run(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A run of which half is done, in a folder of its own, which is the current one."""
    monkeypatch.chdir(tmp_path)
    yield restored(finished, tmp_path / "run")
    assert not (tmp_path / "exploded").exists()


def restored(finished: Path, path: Path) -> Path:
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(finished, path)
    (path / "summary.json").unlink(missing_ok=True)
    content = torch.load(path / "checkpoint.pt", weights_only=True)
    content["config"]["total_episodes"] = 8
    save(path / "checkpoint.pt", content)
    (path / "best.pt").unlink()
    return path


def digests(folder: Path) -> dict[str, str]:
    """Of all files, but for holes of gigabytes."""
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        if path.stat().st_size < 2**28
        else str((path.stat().st_size, path.stat().st_mtime_ns))
        for path in folder.rglob("*")
        if path.is_file()
    }


def assert_refused(arguments: list[str], *named: str) -> None:
    """One of these names is in the one line that says what is wrong."""
    before, begun = digests(Path()), time.monotonic()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = CliRunner().invoke(main, arguments)
    assert isinstance(result.exception, SystemExit), (arguments, result.output, result.exception)
    assert result.exit_code == 2, (arguments, result.output)
    lines = result.output.strip().split("\n")
    assert lines[-1].startswith("Error: "), lines
    assert sum(line.startswith("Error: ") for line in lines) == 1, lines
    assert "Traceback" not in result.output
    assert len(lines[-1]) < 5000, lines  # Click names all choices.
    assert any(name in lines[-1] for name in named), (named, lines[-1])
    assert digests(Path()) == before
    assert time.monotonic() - begun < SECONDS
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak
    assert grown < MEGABYTES * 1024, f"{arguments} took {grown / 1024:.0f} MB"


# What each command needs besides. None of them would do much, if the mistake passed.
NEEDED = {
    "train-sync": [*TINY, "--dry-run"],
    "train-async": [*TINY, "--dry-run"],
    "train-population": [*TINY, "--dry-run"],
    "tune": [*TINY, "--trials", "1", "--dry-run"],
    "train-champion": ["--run-dir", "run"],
    "train-workflow": ["--run-dir", "run"],
    "search-workflow": ["nowhere"],
    "improve": ["run", "new.npz"],
    "evaluate": ["run", "--episodes", "1", "--quiet"],
    "replay": ["sleep", "--max-steps", "2"],
    "export": ["run", "--format", "npz", "--output", "other.npz"],
    "check-env": ["no_such_module:Env"],
    "benchmark": ["--env", "no_such_module:Env"],
    "compare-modes": ["--env", "no_such_module:Env", "--target-return", "1"],
    "parity": ["--checkpoint", "nowhere.pt", "--blue", "checkpoint"],
    "plot": ["nowhere"],
    "report": ["nowhere"],
    "verify": ["nowhere"],
    "doctor": [],
}


def test_every_command_is_tried() -> None:
    assert NEEDED.keys() == MODULES.keys()


def options_of(name: str) -> list[click.Option]:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    return [one for one in command.params if isinstance(one, click.Option)]


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


@cases(200)
@given(data=st.data())
def test_options(data: st.DataObject, run: Path) -> None:
    if not Path("loop").is_symlink():
        Path("loop").symlink_to("loop")
        os.mkfifo("pipe")
    name = data.draw(st.sampled_from(list(MODULES)))
    options = options_of(name) or [click.Option(["--any"])]
    option = data.draw(st.sampled_from(options))
    value = bad_value(data.draw, option)
    spelled = option.opts[0]
    if value is None:
        spelled, value = spelled + "-no-such-option", "1"
    assert_refused([name, *NEEDED[name], f"{spelled}={value}"], *option.opts, spelled)


def bounded_options() -> list[click.Option]:
    ranges = (click.IntRange, click.FloatRange)
    options = options_of("train-async")
    return [one for one in options if isinstance(one.type, ranges) and one.type.max is not None]


@cases(30)
@given(option=st.sampled_from(bounded_options()), more=st.integers(1, 10**30))
def test_numbers_that_would_fill_the_machine(option: click.Option, more: int, run: Path) -> None:
    assert isinstance(option.type, click.IntRange | click.FloatRange)
    value = str(option.type.max + more)  # type: ignore[operator]
    assert_refused(["train-async", option.opts[0], value, "--dry-run"], *option.opts)


@cases(25)
@given(
    name=st.sampled_from(
        ["max_steps", "red_agent", "simulator", "observation", "opening", "other"]
    ),
    value=junk.filter(lambda value: value not in ([], None)),
)
def test_arguments_of_the_environment(name: str, value: Any, run: Path) -> None:
    arguments = ["train-sync", f"--env-arg={name}={json.dumps(value)}", "--dry-run"]
    assert_refused(arguments, name.replace("_", "-"), "--env-arg", "env_arg")


DEEP = "[" * 100_000


@cases(30)
@given(data=st.data())
def test_configs(data: st.DataObject, run: Path, finished: Path) -> None:
    path = restored(finished, run) / "config.json"
    config = json.loads(path.read_text())
    kind = data.draw(st.sampled_from(["bytes", "json", "field", "less", "deep", "cut", "vast"]))
    if kind == "bytes":
        path.write_bytes(data.draw(st.binary()))
    elif kind == "json":
        path.write_text(json.dumps(data.draw(junk)))
    elif kind in ("field", "less"):
        values = data.draw(st.sampled_from([config, config["settings"]]))
        name = data.draw(st.sampled_from(sorted(values)))
        values[name] = data.draw(junk)
        if kind == "less":
            del values[name]
        path.write_text(json.dumps(config))
    elif kind == "deep":
        path.write_text(DEEP)
    elif kind == "cut":
        text = path.read_text()
        path.write_text(text[: data.draw(st.integers(0, len(text) - 2))])
    else:
        os.truncate(path, 2**34)
    assert_refused(["train-champion", "--run-dir", "run"], "config.json", "--run-dir")


@cases(30)
@given(data=st.data())
def test_records(data: st.DataObject, run: Path, finished: Path) -> None:
    path = restored(finished, run) / "machine.json"
    record = json.loads(path.read_text())
    kind = data.draw(st.sampled_from(["bytes", "json", "field", "long", "short", "deep", "vast"]))
    if kind == "bytes":
        path.write_bytes(data.draw(st.binary()))
    elif kind == "json":
        path.write_text(json.dumps(data.draw(junk)))
    elif kind == "field":
        record[data.draw(st.sampled_from(sorted(record)))] = data.draw(junk)
        path.write_text(json.dumps(record))
    elif kind in ("long", "short"):
        record["weights"] *= 100
        if kind == "short":
            record["weights"] = record["weights"][:4]
            record["config"]["total_episodes"] = 4
        path.write_text(json.dumps(record))
    elif kind == "deep":
        path.write_text(DEEP)
    else:
        os.truncate(path, 2**34)
    assert_refused(["verify", "run"], "run cannot be verified")


METRICS = ["update", "episodes", "wall_seconds", "return_mean"]


@cases(40)
@given(data=st.data())
def test_metrics(data: st.DataObject, run: Path, finished: Path) -> None:
    path = restored(finished, run) / "metrics.csv"
    heading, first, *_ = path.read_text().splitlines()
    columns, cells = heading.split(","), first.split(",")
    kind = data.draw(st.sampled_from(["bytes", "column", "cell", "more", "wide", "vast"]))
    if kind == "bytes":
        path.write_bytes(data.draw(st.binary()))
    elif kind == "column":
        path.write_text(heading.replace(data.draw(st.sampled_from(METRICS)), "other") + "\n")
    elif kind == "cell":
        at = columns.index(data.draw(st.sampled_from(METRICS)))
        cells[at] = data.draw(st.sampled_from(["", "x", "inf", "-inf", "1e400", "²", "9" * 5000]))
        path.write_text(f"{heading}\n{','.join(cells)}\n")
    elif kind == "more":
        path.write_text(f"{heading}\n{first},1\n")
    elif kind == "wide":
        path.write_text(f"{heading}\n{'9' * 200_000}\n")
    else:
        os.truncate(path, 2**40)
    arguments = data.draw(
        st.sampled_from([["plot", "run"], ["train-async", "--resume", "run", "--quiet"]])
    )
    assert_refused(arguments, "metrics.csv")


@cases(30)
@given(data=st.data())
def test_traces(data: st.DataObject, run: Path) -> None:
    span = {"ph": "X", "name": "learning", "tid": 1, "ts": 0.0, "dur": 1.0}
    name = {"ph": "M", "name": "thread_name", "tid": 1, "args": {"name": "learner"}}
    trace: Any = {"traceEvents": [name, span], "otherData": {}}
    kind = data.draw(st.sampled_from(["bytes", "json", "event", "no name", "nothing", "deep"]))
    if kind == "event":
        event = data.draw(st.sampled_from([span, name]))
        field = data.draw(st.sampled_from(sorted(event)))
        event[field] = data.draw(junk.filter(lambda value: value != 0))
        if field == "args":
            event[field] = [event[field]]
    elif kind == "no name":
        del trace["traceEvents"][0]
    elif kind == "nothing":
        del trace["traceEvents"][1]
    content = json.dumps(trace).encode()
    if kind == "bytes":
        content = data.draw(st.binary())
    elif kind == "json":
        content = json.dumps(data.draw(junk)).encode()
    elif kind == "deep":
        content = DEEP.encode()
    Path("trace.json").write_bytes(content)
    output = "picture.png"
    assert_refused(["plot", "--timeline", "trace.json", "--output", output], "trace.json")


class Bomb:
    def __reduce__(self) -> Any:
        return exec, ("import pathlib; pathlib.Path('exploded').touch()",)


class Vast:
    """Eight gigabytes of nothing, by a name that torch takes for safe."""

    def __reduce__(self) -> Any:
        return bytearray, (2**33,)


def laughs() -> list[Any]:
    """A list that is read at once, and printed never."""
    lists: list[Any] = ["ha"]
    for _ in range(60):
        lists = [lists, lists]
    return lists


@functools.cache
def deflated(content: bytes) -> bytes:
    """The same archive, with 640 MB of zeros that take less than one."""
    archive = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(archive, "w") as new:
        names = old.namelist()
        for name in names:
            new.writestr(name, old.read(name), zipfile.ZIP_DEFLATED)
        with new.open(zipfile.ZipInfo("archive/data/99"), "w", force_zip64=True) as file:
            file._compressor = zlib.compressobj(1, zlib.DEFLATED, -15)
            file._zinfo.compress_type = zipfile.ZIP_DEFLATED
            for _ in range(40):
                file.write(bytes(2**24))
    return archive.getvalue()


RESUME = ["train-async", "--resume", "run", "--quiet"]
OF_CHECKPOINTS = [
    RESUME,
    ["train-async", *TINY, "--init-from", "run", "--run-dir", "new"],
    ["evaluate", "run", "--quiet"],
    ["evaluate", "run/checkpoint.pt", "--quiet"],
    ["export", "run", "--format", "npz", "--output", "out.npz"],
    ["export", "run/checkpoint.pt", "--format", "cage2", "--output", "out"],
    ["parity", "--blue", "checkpoint", "--checkpoint", "run", "--episodes", "1", "--quiet"],
]
CALLED = [
    ("os:system", {"command": "touch exploded"}),
    ("subprocess:run", {"args": "touch exploded", "shell": True}),
    ("builtins:exec", {"source": "open('exploded', 'w')"}),
    ("no_such_module:Env", {}),
]


@cases(100)
@given(data=st.data())
def test_checkpoints(data: st.DataObject, run: Path, finished: Path) -> None:
    path = restored(finished, run) / "checkpoint.pt"
    content = torch.load(path, weights_only=True)
    arguments = data.draw(st.sampled_from(OF_CHECKPOINTS))
    kind = data.draw(st.sampled_from(list(MISTAKES)))
    if kind in ("optimizer", "call"):
        arguments = RESUME
    replaced = MISTAKES[kind](data.draw, path.read_bytes(), content)
    if isinstance(replaced, bytes):
        path.write_bytes(replaced)
    else:
        save(path, replaced)
    assert_refused(arguments, "run", "--init-from")


def _truncated(draw: Any, archive: bytes, content: Any) -> bytes:
    return archive[: draw(st.integers(0, len(archive) - 1))]


def _noise(draw: Any, archive: bytes, content: Any) -> bytes:
    return draw(st.sampled_from([b"", b"PK\3\4", b"PK\5\6"])) + draw(st.binary())


def _flipped(draw: Any, archive: bytes, content: Any) -> bytes:
    bit = draw(st.integers(0, 8 * len(archive) - 1))
    changed = bytearray(archive)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def _other_version(draw: Any, archive: bytes, content: Any) -> Any:
    return {**content, "format": draw(st.one_of(junk, st.integers(3, 99), st.builds(laughs)))}


def _other_content(draw: Any, archive: bytes, content: Any) -> Any:
    name = draw(st.sampled_from(["config", "agent", "training"]))
    wrong = junk.filter(lambda value: value not in ([], {}) or name != "config")
    return {**content, name: draw(st.one_of(wrong, st.builds(laughs)))}


def _other_counts(draw: Any, archive: bytes, content: Any) -> Any:
    names = ["updates", "episodes", "env_steps", "slots", "recent_returns", "best_score"]
    content["training"][draw(st.sampled_from(names))] = draw(
        st.sampled_from([None, "x", [1], [[1]], ["x"], {"a": 1}, laughs()])
    )
    return content


def _less(draw: Any, archive: bytes, content: Any) -> Any:
    values = draw(st.sampled_from([content, content["config"], content["config"]["settings"]]))
    names = [*sorted(values.keys() & {"format", "config", "agent", "training", "settings"}), None]
    name = draw(st.sampled_from([one for one in names if one] or ["hidden_sizes"]))
    del values[name]
    return content


def _other_shape(draw: Any, archive: bytes, content: Any) -> Any:
    weights = content["agent"]["network"]
    name = draw(st.sampled_from(sorted(weights)))
    shape = draw(st.lists(st.integers(0, 9), max_size=3).filter(lambda s: s != [8]))
    weights[name] = torch.zeros(shape)
    return content


def _no_numbers(draw: Any, archive: bytes, content: Any) -> Any:
    weights = content["agent"]["network"]
    weights[draw(st.sampled_from(sorted(weights)))][..., 0] = torch.nan
    return content


def _other_network(draw: Any, archive: bytes, content: Any) -> Any:
    sizes = st.lists(st.integers(-1, 10**9), max_size=3).filter(lambda s: s != [8])
    content["config"]["settings"]["hidden_sizes"] = draw(st.one_of(sizes, junk))
    return content


def _stretched(draw: Any, archive: bytes, content: Any) -> Any:
    """A weight that seems to have 40 billion numbers, and has one."""
    weights = content["agent"]["network"]
    weights[draw(st.sampled_from(sorted(weights)))] = torch.zeros(1).expand(200_000, 200_000)
    return content


def _optimizer(draw: Any, archive: bytes, content: Any) -> Any:
    moments = content["agent"]["optimizer"]["state"]
    one = moments[draw(st.sampled_from(sorted(moments)))]
    one[draw(st.sampled_from(["exp_avg", "exp_avg_sq"]))] = torch.zeros(7, 7)
    return content


def _call(draw: Any, archive: bytes, content: Any) -> Any:
    env, args = draw(st.sampled_from(CALLED))
    guest = ("red_agent", "max_steps", "simulator", "observation", "actions", "opening")
    config = {name: value for name, value in content["config"].items() if name not in guest}
    return {**content, "config": {**config, "env": env, "env_args": args}}


def _pickle(draw: Any, archive: bytes, content: Any) -> Any:
    bomb = draw(st.sampled_from([Bomb(), Vast()]))
    if draw(st.booleans()):
        return pickle.dumps(bomb)
    name = draw(st.sampled_from(["format", "config", "agent", "training", "other"]))
    return {**content, name: bomb}


MISTAKES: dict[str, Callable[[Any, bytes, Any], Any]] = {
    "truncated": _truncated,
    "noise": _noise,
    "flipped": _flipped,
    "version": _other_version,
    "content": _other_content,
    "counts": _other_counts,
    "less": _less,
    "shape": _other_shape,
    "nan": _no_numbers,
    "network": _other_network,
    "stretched": _stretched,
    "optimizer": _optimizer,
    "call": _call,
    "pickle": _pickle,
    "zip": lambda draw, archive, content: deflated(archive),
}


@pytest.mark.parametrize("arguments", [RESUME, *OF_CHECKPOINTS[2:4]], ids=" ".join)
@pytest.mark.parametrize("called", CALLED, ids=lambda called: called[0])
def test_nothing_is_called_that_a_checkpoint_names(
    arguments: list[str], called: tuple[str, Any], run: Path
) -> None:
    content = torch.load(run / "checkpoint.pt", weights_only=True)
    content = _call(lambda _: called, b"", content)
    save(run / "checkpoint.pt", content)
    (run / "config.json").write_text(json.dumps(content["config"]))
    assert_refused(arguments, "run")


def test_a_vast_checkpoint(run: Path) -> None:
    os.truncate(run / "checkpoint.pt", 2**40)
    for arguments in OF_CHECKPOINTS:
        assert_refused(arguments, "checkpoint.pt")


@cases(60)
@given(data=st.data())
def test_policy_files(data: st.DataObject, run: Path, finished: Path) -> None:
    path = Path("agent.npz")
    archive = (finished / "agent.npz").read_bytes()
    with np.load(io.BytesIO(archive)) as file:
        arrays: dict[str, Any] = dict(file)
    about = json.loads(str(arrays["settings"]))
    kinds = ["truncated", "noise", "zip", "shape", "dtype", "nan", "object", "setting", "deep"]
    kind = data.draw(st.sampled_from([*kinds, "call", "vast header"]))
    name = data.draw(st.sampled_from(sorted(arrays.keys() - {"settings"})))
    if kind == "shape":
        shape = data.draw(st.lists(st.integers(0, 9), max_size=3).filter(lambda s: s != [8]))
        arrays[name] = np.zeros(shape, np.float32)
    elif kind == "dtype":
        arrays[name] = arrays[name].astype(data.draw(st.sampled_from(["f8", "i4", "S4", "c8"])))
    elif kind == "nan":
        arrays[name][..., 0] = np.nan
    elif kind == "object":
        arrays[name] = np.array([Bomb()], object)
    elif kind == "setting":
        wrong = data.draw(st.sampled_from(sorted(about)))
        about[wrong] = data.draw(junk.filter(lambda value: value != about[wrong]))
    elif kind == "call":
        env, args = data.draw(st.sampled_from(CALLED))
        about["about"] = {"env": env, "env_args": args}
    arrays["settings"] = np.array(DEEP if kind == "deep" else json.dumps(about))
    np.savez(path, **arrays)
    content = path.read_bytes()
    if kind == "truncated":
        content = _truncated(data.draw, archive, None)
    elif kind == "noise":
        content = _noise(data.draw, archive, None)
    elif kind == "zip":
        content = deflated(archive)
    elif kind == "vast header":
        content = content.replace(b"(52, 8)", b"(9**9,)"[:7]).replace(b"(8,)", b"(1<<40,)"[:4])
    path.write_bytes(content)
    arguments = data.draw(
        st.sampled_from(
            [
                ["evaluate", "agent.npz", "--quiet"],
                ["export", "agent.npz", "--format", "npz", "--output", "out.npz"],
            ]
        )
    )
    if kind == "call":  # To export it nothing needs to be called.
        arguments = ["evaluate", "agent.npz", "--quiet"]
    assert_refused(arguments, "agent.npz")


def test_what_is_whole_is_still_read(run: Path, finished: Path) -> None:
    policy, about = load_policy(finished / "agent.npz")
    assert about["env"] == "workflow_rl/CAGE2-v0"
    content = torch.load(run / "checkpoint.pt", weights_only=True)
    assert copy.deepcopy(content["config"])["total_episodes"] == 8
    arguments = ["export", "run/checkpoint.pt", "--format", "npz", "--output", "out.npz"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    assert len(load_policy(Path("out.npz"))[0].weights) == len(policy.weights)
