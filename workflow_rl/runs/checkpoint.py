"""Checkpoints. A checkpoint is replaced in one step, and is read without running its code.

`read_checkpoint` says what the content of a checkpoint means.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import safetensors.torch
import torch

from workflow_rl.collection.schedule import BegunBatch
from workflow_rl.output_files import no_pipe, replacing
from workflow_rl.runs.training_state import TrainingState

if TYPE_CHECKING:
    from workflow_rl.runs.replay_files import Part

FORMAT = 4
LATEST = "checkpoint.safetensors"
MEMORY_FOLDER = "memory"
"""The folder of the steps that an agent remembers, beside the latest checkpoint."""


@dataclass(frozen=True)
class Checkpoint:
    """Everything that a run needs to continue as if it had never stopped.

    config: TrainConfig.to_save(). agent: the agent's state_dict(). begun: the batches that workers
    are collecting. run_id: the id of the run that saved the checkpoint. memory: the files with the
    steps that the agent remembers, only in the latest checkpoint. written: `writing_of` the
    checkpoint's file, if it was read from a file. No random state is kept, because the run's seed
    and the counters in `training` decide every random stream.
    """

    config: dict[str, Any]
    agent: dict[str, Any]
    training: TrainingState
    begun: list[BegunBatch] = field(default_factory=list)
    run_id: str = ""
    memory: list[Part] | None = None
    written: tuple[int, int] | None = None


def writing_of(path: Path) -> tuple[int, int]:
    """Return a value that changes each time the file is written. Raises OSError."""
    about = path.stat()
    return about.st_ino, about.st_mtime_ns


def save_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Replace `path` in one step. A reader or a crash finds the old file or the new file."""
    content = {
        "format": FORMAT,
        "config": checkpoint.config,
        "agent": checkpoint.agent,
        "training": checkpoint.training.to_dict(),
        "policies": [_plain_batch(batch) for batch in checkpoint.begun],
        "run_id": checkpoint.run_id,
        "memory": None if checkpoint.memory is None else [list(part) for part in checkpoint.memory],
    }
    write_values(path, content)


def _plain_batch(batch: BegunBatch) -> dict[str, Any]:
    settings, arrays = batch.policy.parameters.packed()
    return {
        "settings": settings,
        "arrays": {name: torch.from_numpy(array) for name, array in arrays.items()},
        "policy_version": batch.policy.policy_version,
        "share": None if batch.share is None else list(batch.share),
    }


MOST_BYTES = 4 * 2**30
MOST_OF_HEADER = 2**24
MOST_OF_VALUES = 2**20
"""The most values in the header. Python needs about 100 bytes for a value."""
MOST_LEVELS = 50
"""The most levels of nested lists, tuples and dicts."""
MOST_OF_EMPTY = 2**24
"""The longest axis of a tensor without numbers, which needs no space in the file."""
_INTEGERS = 2**128
_DIMENSIONS = 64

_TEXT = "workflow_rl"
_BEGINNING = b'{"__metadata__":{"%s":"' % _TEXT.encode()
_SIZE_BYTES, _DIGITS = 8, 64
_DIGEST_AT = _SIZE_BYTES + len(_BEGINNING)
_DIGEST_END = _DIGEST_AT + _DIGITS

_TENSOR, _TUPLE, _FLOAT, _PAIRS = "$tensor", "$tuple", "$float", "$pairs"
_NOT_FINITE = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
_DTYPES = {
    *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
}


def write_values(path: Path, values: dict[str, Any]) -> None:
    """Replace `path` in one step by a file of tensors and plain values. Raises OSError, and
    TypeError for other types. The TypeError names the first wrong value."""
    tensors: dict[str, torch.Tensor] = {}
    plain = {name: _to_json(value, name, tensors) for name, value in values.items()}
    text = json.dumps(plain, allow_nan=False)
    content = safetensors.torch.save(tensors, {_TEXT: "0" * _DIGITS + text})
    try:
        _require_bounds(content, len(content))
    except ValueError as error:
        raise OSError(errno.EFBIG, str(error), str(path)) from None
    with replacing(path, "wb") as file:
        file.write(content[:_DIGEST_AT])
        file.write(_digest(content))
        file.write(memoryview(content)[_DIGEST_END:])


def read_values(path: Path) -> dict[str, Any]:
    """Return the values that `write_values` wrote.

    Nothing in the file is used before its digest is checked. Raises OSError, and ValueError or
    other exceptions for a file that is damaged, of another kind, or malicious.
    """
    with open(path, "rb", opener=no_pipe) as file:
        n_bytes = os.fstat(file.fileno()).st_size
        _require_bounds(file.read(_DIGEST_AT), n_bytes)
        file.seek(0)
        content = file.read(n_bytes)
    header_end = _require_bounds(content, len(content))
    if content[_DIGEST_AT:_DIGEST_END] != _digest(content):
        raise ValueError("it is not as it was written")
    header = _parsed(content[_SIZE_BYTES:header_end])
    text = header.pop("__metadata__")[_TEXT]
    _require_few_values(text)  # In the header, escapes could hide the counted characters.
    for about in header.values():
        _require_room(about["shape"])
    tensors = safetensors.torch.load(content)
    values = _from_json(_parsed(text[_DIGITS:]), tensors)
    if tensors:
        raise ValueError("it has tensors that it does not name")
    if not isinstance(values, dict):
        raise ValueError("its values have no names")
    return values


def _digest(content: bytes) -> bytes:
    """Return the SHA-256 of the file without the digest, in hexadecimal digits."""
    digest = hashlib.sha256(content[:_DIGEST_AT])
    digest.update(memoryview(content)[_DIGEST_END:])
    return digest.hexdigest().encode()


def _require_bounds(content: bytes, n_bytes: int) -> int:
    """Return the index of the header's end.

    content: the file, or its beginning. n_bytes: the size of the file. Raises ValueError
    for another kind of file, and for a file or header that is too large.
    """
    if content[_SIZE_BYTES:_DIGEST_AT] != _BEGINNING:
        raise ValueError("it does not begin as a checkpoint does")
    n_header = int.from_bytes(content[:_SIZE_BYTES], "little")
    if n_bytes > MOST_BYTES:
        raise ValueError(f"it is larger than {MOST_BYTES // 2**30} GiB")
    if n_header > MOST_OF_HEADER:
        raise ValueError(f"its header is larger than {MOST_OF_HEADER // 2**20} MiB")
    header_end = _SIZE_BYTES + n_header
    if header_end > n_bytes:
        raise ValueError("its header is larger than the file")
    _require_few_values(content[:header_end].decode("latin-1"))
    return header_end


def _require_few_values(text: str) -> None:
    """Raise ValueError for a JSON text with more values than a checkpoint has."""
    # In JSON, each value comes after a comma, a colon or an opening bracket.
    if sum(map(text.count, ",:[")) > MOST_OF_VALUES:
        raise ValueError(f"its header has more than {MOST_OF_VALUES} values")


def _require_room(shape: list[int]) -> None:
    """Raise ValueError for a tensor with too many axes, or without numbers but with a huge axis.
    The library compares all other shapes with the size of the file."""
    if len(shape) > _DIMENSIONS or (0 in shape and max(shape) > MOST_OF_EMPTY):
        raise ValueError("it has a tensor of a shape that nothing has")


def _parsed(text: str | bytes) -> Any:
    return json.loads(text, object_pairs_hook=_of_unique_names, parse_constant=_refuse)


def _of_unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError("two of its values have one name")
    return values


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _to_json(value: Any, place: str, tensors: dict[str, torch.Tensor], level: int = 0) -> Any:
    """Return a value's form in JSON, and add the value's tensors to `tensors`.

    place: the value's place in the checkpoint, which names its tensors. Raises TypeError.
    """
    kind = type(value)
    if value is None or kind in (bool, str):
        return value
    if kind is int and abs(value) < _INTEGERS:
        return value
    if kind is float:
        return value if math.isfinite(value) else {_FLOAT: repr(value)}
    if isinstance(value, torch.Tensor) and value.dtype in _DTYPES and not value.is_sparse:
        name = place
        while name in tensors:  # "a.b" may be a name in a dict, or the name "b" in the dict "a".
            name += "_"
        tensors[name] = value.detach().cpu().clone(memory_format=torch.contiguous_format)
        return {_TENSOR: name}
    if kind in (list, tuple) and level < MOST_LEVELS:
        items = [_to_json(item, f"{place}.{n}", tensors, level + 1) for n, item in enumerate(value)]
        return items if kind is list else {_TUPLE: items}
    if kind in (dict, OrderedDict) and level < MOST_LEVELS and {*map(type, value)} <= {str, int}:
        named = {
            name: _to_json(item, f"{place}.{name}", tensors, level + 1)
            for name, item in value.items()
        }
        if any(type(name) is int or name.startswith("$") for name in named):
            return {_PAIRS: [[name, item] for name, item in named.items()]}
        return named
    raise TypeError(
        f"a checkpoint cannot hold {place}, of type {kind.__name__}: it holds tensors, numbers, "
        "texts, None, and lists, tuples and dicts of these"
    )


def _from_json(value: Any, tensors: dict[str, torch.Tensor], level: int = 0) -> Any:
    """Return the value from the result of `_to_json`, and take its tensors from `tensors`. Raises
    ValueError or KeyError for other values."""
    if level > 3 * MOST_LEVELS:  # One level of a value has up to three levels in JSON.
        raise ValueError("its values are nested too deeply")
    if isinstance(value, list):
        return [_from_json(item, tensors, level + 1) for item in value]
    if isinstance(value, int) and abs(value) >= _INTEGERS:
        raise ValueError("it has a number that is too large")
    if not isinstance(value, dict):
        return value
    marks = [name for name in value if name.startswith("$")]
    if not marks:
        return {name: _from_json(item, tensors, level + 1) for name, item in value.items()}
    if len(value) > 1:
        raise ValueError("it has a value of two kinds")
    (mark,) = marks
    held = value[mark]
    if mark == _TENSOR:
        return tensors.pop(held)
    if mark == _FLOAT:
        return _NOT_FINITE[held]
    items = _from_json(held, tensors, level + 1)
    if mark == _TUPLE and isinstance(items, list):
        return tuple(items)
    if mark == _PAIRS and isinstance(items, list):
        pairs = dict(items)
        if len(pairs) < len(items) or not all(type(name) in (str, int) for name in pairs):
            raise ValueError("its pairs begin with no names")
        return pairs
    raise ValueError("it has a value of an unknown kind")
