"""`--trust`: the user's command accepts a stranger's files as the user's own files.

The signature in a file shows whether the file is the user's own: see `signature`. A trusted file
gets the user's signature.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from workflow_rl.agents.policies.policy_file import load_file, save_file
from workflow_rl.output_files import MOST_OF_LONG_RECORD, NOT_OURS, read_json, replacing, write_json
from workflow_rl.runs.checkpoint import save_checkpoint
from workflow_rl.runs.read_checkpoint import load_checkpoint
from workflow_rl.runs.signature import accept, signed

RECORDS = ("config.json", "machine.json", "population.json", "tune.json", "duel.json")
"""Files of a run, a population, a search and a duel that may name code to import."""


def sign(source: Path) -> None:
    """Sign a file as the user's own, or all files in a folder that may name code to import.

    A file that cannot be written is accepted in this process only. A file that cannot be read is
    left unchanged: the error is raised when the file is next opened.
    """
    for path in _files_in(source):
        with suppress(*NOT_OURS):
            if path.suffix == ".safetensors":
                _sign_checkpoint(path)
            elif path.suffix == ".npz":
                _sign_policy(path)
            else:
                _sign_record(path)


def sign_named(named: Any) -> None:
    """Sign the files and folders that a command line names. Other names are ignored."""
    if isinstance(named, Mapping):
        named = [*named.values()]
    if isinstance(named, list | tuple):
        for value in named:
            sign_named(value)
    elif isinstance(named, str | Path) and str(named):
        with suppress(OSError, ValueError):  # The text may not be a path.
            if Path(named).exists():
                sign(Path(named))


def _files_in(source: Path) -> Iterator[Path]:
    if not source.is_dir():
        yield source
        return
    for path in sorted(source.rglob("*")):
        is_ours = path.suffix in (".safetensors", ".npz") or path.name in RECORDS
        if is_ours and path.is_file() and not path.is_symlink():
            yield path


def _sign_checkpoint(path: Path) -> None:
    checkpoint = load_checkpoint(path)
    accept(checkpoint.config)
    if (config := signed(checkpoint.config)) != checkpoint.config:
        save_checkpoint(path, dataclasses.replace(checkpoint, config=config))


def _sign_policy(path: Path) -> None:
    (settings, arrays), about = load_file(path, lambda *parts: parts)
    accept(about)
    if (signed_about := signed(about)) != about:
        with replacing(path, "wb") as file:
            save_file(file, settings, arrays, signed_about)


def _sign_record(path: Path) -> None:
    before = read_json(path, MOST_OF_LONG_RECORD)
    if (after := _with_signatures(before)) != before:
        write_json(path, after)


def _with_signatures(value: Any) -> Any:
    """Return a record's content in which each config and each duel is signed."""
    if isinstance(value, list):
        return [_with_signatures(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    value = {name: _with_signatures(entry) for name, entry in value.items()}
    names_code = {"env", "algorithm"} <= value.keys() or {"agents", "duel"} <= value.keys()
    if not names_code:
        return value
    accept(value)
    return signed(value)
