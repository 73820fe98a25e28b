"""What commands are to refuse in one line, and values that are wrong."""

import hashlib
import json
import os
import resource
import shutil
import time
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from workflow_rl.commands.main import main
from workflow_rl.runs.checkpoint import read_values, write_values

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
    st.integers(2**63, 10**38),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)
# No surrogates, which are in no file name nor argument, nor the end of a C string.
words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)


def restored(finished: Path, path: Path) -> Path:
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(finished, path)
    (path / "summary.json").unlink(missing_ok=True)
    content = read_values(path / "checkpoint.safetensors")
    content["config"]["total_episodes"] = 8
    write_values(path / "checkpoint.safetensors", content)
    (path / "best.safetensors").unlink()
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


DEEP = "[" * 100_000


def damage(draw: Any, path: Path, kind: str) -> None:
    """Put something else in a file's place: bytes, other JSON, too deep a list, or 17 GB."""
    if kind == "bytes":
        path.write_bytes(draw(st.binary()))
    elif kind == "json":
        path.write_text(json.dumps(draw(junk)))
    elif kind == "deep":
        path.write_text(DEEP)
    elif kind == "vast":
        os.truncate(path, 2**34)
