"""Whatever a checkpoint or a policy file holds: one clear line, and nothing called or filled."""

import functools
import io
import json
import os
import pickle
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.bad_input.refusals import DEEP, TINY, assert_refused, cases, junk, restored
from workflow_rl.runs.checkpoint import read_values, write_values


class Bomb:
    def __reduce__(self) -> Any:
        return exec, ("import pathlib; pathlib.Path('exploded').touch()",)


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
    ["evaluate", "run/checkpoint.safetensors", "--quiet"],
    ["export", "run", "--format", "npz", "--output", "out.npz"],
    ["export", "run/checkpoint.safetensors", "--format", "cage2", "--output", "out"],
    ["parity", "--blue", "checkpoint", "--checkpoint", "run", "--episodes", "1", "--quiet"],
]


@cases(50)
@given(data=st.data())
def test_checkpoints(data, run, finished):
    path = restored(finished, run) / "checkpoint.safetensors"
    content = read_values(path)
    arguments = data.draw(st.sampled_from(OF_CHECKPOINTS))
    kind = data.draw(st.sampled_from(list(MISTAKES)))
    if kind == "optimizer":
        arguments = RESUME
    if kind == "nan":  # A training begins, and says that learning diverged.
        arguments = data.draw(st.sampled_from(OF_CHECKPOINTS[2:]))
    replaced = MISTAKES[kind](data.draw, path.read_bytes(), content)
    if isinstance(replaced, bytes):
        path.write_bytes(replaced)
    else:
        write_values(path, replaced)
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
    return {**content, "format": draw(st.one_of(junk, st.integers(4, 99)))}


def _other_content(draw: Any, archive: bytes, content: Any) -> Any:
    name = draw(st.sampled_from(["config", "agent", "training"]))
    wrong = junk.filter(lambda value: value not in ([], {}) or name != "config")
    return {**content, name: draw(wrong)}


def _other_counts(draw: Any, archive: bytes, content: Any) -> Any:
    names = ["updates", "episodes", "env_steps", "slots", "recent_returns", "best_score"]
    content["training"][draw(st.sampled_from(names))] = draw(
        st.sampled_from([None, "x", [1], [[1]], ["x"], {"a": 1}])
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


def _optimizer(draw: Any, archive: bytes, content: Any) -> Any:
    moments = content["agent"]["optimizer"]["state"]
    one = moments[draw(st.sampled_from(sorted(moments)))]
    one[draw(st.sampled_from(["exp_avg", "exp_avg_sq"]))] = torch.zeros(7, 7)
    return content


def _pickle(draw: Any, archive: bytes, content: Any) -> bytes:
    pickled = io.BytesIO()
    torch.save({**content, draw(st.sampled_from(["format", "config", "agent"])): Bomb()}, pickled)
    return draw(st.sampled_from([pickle.dumps(Bomb()), pickled.getvalue()]))


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
    "optimizer": _optimizer,
    "pickle": _pickle,
}


def test_a_vast_checkpoint(run):
    os.truncate(run / "checkpoint.safetensors", 2**40)
    for arguments in OF_CHECKPOINTS:
        assert_refused(arguments, "checkpoint.safetensors")


@cases(30)
@given(data=st.data())
def test_policy_files(data, run, finished):
    path = Path("agent.npz")
    archive = (finished / "agent.npz").read_bytes()
    with np.load(io.BytesIO(archive)) as file:
        arrays: dict[str, Any] = dict(file)
    about = json.loads(str(arrays["settings"]))
    kinds = ["truncated", "noise", "zip", "shape", "dtype", "nan", "object", "setting", "deep"]
    kind = data.draw(st.sampled_from([*kinds, "vast header"]))
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
    evaluate = ["evaluate", "agent.npz", "--quiet"]
    export = ["export", "agent.npz", "--format", "npz", "--output", "out.npz"]
    assert_refused(data.draw(st.sampled_from([evaluate, export])), "agent.npz")
