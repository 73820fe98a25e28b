"""Policy files: plain arrays in a zip archive. They are read without torch and without pickle.

A stranger may have made a file, so a reader never unpacks more than the file's size. A file ends
with a digest of its content, so that every change is noticed.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np

from workflow_rl.agents.policies.further_distributions import from_plain
from workflow_rl.agents.policies.network import ACTIVATIONS, MOST
from workflow_rl.agents.policies.numpy_policy import OPTIONAL_ARRAYS, Parameters, PolicyParameters
from workflow_rl.errors import UserError

VERSION = 1
MOST_BYTES = 4 * 2**30
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)
"""Opens a pipe that has replaced a checked file. Otherwise an open would wait for a writer."""

# An archive ends with its comment. The two bytes before the comment are its length.
_N_DIGITS = 64
_LENGTH = _N_DIGITS.to_bytes(2, "little")
_END, _END_SIZE = b"PK\5\6", 22
_NO_ARCHIVE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    RuntimeError,  # NotImplementedError too.
    EOFError,
    ValueError,
    OSError,
)

Parsed = TypeVar("Parsed")


def save_policy(file: Path | IO[bytes], policy: Parameters, about: Mapping[str, Any]) -> None:
    """Write a policy or a team as a sealed .npz file.

    about: plain values that are saved with the policy, such as its environment.
    """
    save_file(file, *policy.packed(), about)


def save_file(
    file: Path | IO[bytes],
    settings: Mapping[str, Any],
    arrays: Mapping[str, Any],
    about: Mapping[str, Any],
) -> None:
    archive = io.BytesIO()
    text = json.dumps({"version": VERSION, **settings, "about": about})
    np.savez(archive, settings=np.array(text), **arrays)
    content = sealed(archive.getvalue())
    if isinstance(file, Path):
        file.write_bytes(content)
    else:
        file.write(content)


def load_policy(
    path: str | os.PathLike[str], content: bytes | None = None
) -> tuple[PolicyParameters, dict[str, Any]]:
    """Return the policy and the values saved with it. No code in the file is run.

    content: the file's content, if it was already read.

    Raises OSError, and ValueError with a reason for other files.
    """
    return load_file(path, unpacked, content)


def load_file(
    path: str | os.PathLike[str],
    parsed: Callable[[dict[str, Any], dict[str, Any]], Parsed],
    content: bytes | None = None,
    kind: str = "policy file",
) -> tuple[Parsed, dict[str, Any]]:
    """Return the result of `parsed` for a file's settings and arrays, and the values saved with it.

    parsed: may raise any error. content, errors: see `load_policy`. kind: the name of such files in
    error messages.
    """
    try:
        archive = read_archive(Path(path), content)
        with np.load(io.BytesIO(archive), allow_pickle=False) as file:
            settings = json.loads(str(file["settings"]))
            if settings["version"] != VERSION:
                raise ValueError(f"{path} is of version {settings['version']}, not {VERSION}")
            arrays = {name: file[name] for name in file.files if name != "settings"}
        return parsed(settings, arrays), dict(settings["about"])
    except OSError:
        raise
    except Exception as error:  # A damaged file can raise anything.
        told = isinstance(error, UserError) or "version" in str(error)
        reason = f" ({error})" if told else ""
        raise ValueError(f"{path} is no {kind}{reason}") from None


def unpacked(
    settings: Mapping[str, Any], arrays: Mapping[str, Any], may_be_own: bool = False
) -> PolicyParameters:
    """Return the policy from a result of `packed`. Raises UserError or any other error.

    may_be_own: whether the network may be a class of the user's own. The arrays of such a class are
    not checked, because the class may not be imported yet.
    """
    weights, biases = _numbered(arrays, "weight"), _numbered(arrays, "bias")
    given = [name for name in OPTIONAL_ARRAYS if name in arrays]
    n_known = len(weights) + len(biases) + len(given)
    if (len(weights), n_known) != (settings["layers"], len(arrays)):
        raise ValueError("its members are others")
    policy = PolicyParameters(
        weights,
        biases,
        settings["activation"],
        **{name: arrays[name] for name in given},
        distribution=from_plain(settings["distribution"]),
        network=settings["network"],
        network_args={**settings.get("network_args", {})},  # A file may hold any type.
        masked=settings.get("masked", False),
        n_further=settings.get("n_further", 0),
        sampled=settings.get("sampled", False),
    )
    is_typed = type(policy.masked) is type(policy.sampled) is bool and type(policy.n_further) is int
    is_own = ":" in policy.network
    if not is_typed or not (may_be_own if is_own else _fits_together(policy)):
        raise UserError("its layers do not fit together")
    return policy


def _numbered(arrays: Mapping[str, Any], kind: str) -> tuple[Any, ...]:
    """Return the arrays of a kind in the order of their numbers, which begin at 0."""
    found: list[Any] = []
    while (name := f"{kind}_{len(found)}") in arrays:
        found.append(arrays[name])
    return tuple(found)


def _fits_together(policy: PolicyParameters) -> bool:
    distribution, network = policy.distribution, policy.described()
    assert distribution is not None
    n_inputs, n_outputs = network.n_inputs, network.n_outputs
    normalising = [array for array in (policy.obs_mean, policy.obs_scale) if array is not None]
    log_std = [] if policy.log_std is None else [policy.log_std]
    arrays = [*policy.weights, *policy.biases, *normalising, *log_std]
    return (
        network.fits(policy.layers)
        and 0 <= policy.n_further <= MOST
        and (distribution.takes_masks or not policy.masked)
        and type(distribution.n_outputs) is int
        and distribution.n_outputs == n_outputs >= 1
        and [array.shape for array in normalising] in ([], [(n_inputs,)] * 2)
        and [array.shape for array in log_std] == [(n_outputs,)] * distribution.has_log_std
        and all(array.dtype == np.float32 for array in arrays)
        and not any(np.isnan(array).any() for array in arrays)
        and policy.activation in ACTIVATIONS
    )


def sealed(archive: bytes) -> bytes:
    """Add an archive's SHA-256 as its comment. The archive must not have a comment yet."""
    assert archive[-_END_SIZE:].startswith(_END)
    content = archive[:-2] + _LENGTH
    return content + hashlib.sha256(content).hexdigest().encode()


def read_archive(path: Path, archive: bytes | None = None) -> bytes:
    """Return an intact archive whose members are stored uncompressed, without overlaps.

    archive: the file's content, if it was already read.

    NumPy writes such archives. A few kilobytes that are compressed, or that many members share,
    could unpack to more than the machine's memory.

    Raises OSError, and ValueError for any other file.
    """
    archive = _content(path) if archive is None else archive
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as members:
            about = members.infolist()
    except _NO_ARCHIVE as error:
        raise ValueError("it is no archive") from error
    if any(member.compress_type != zipfile.ZIP_STORED for member in about):
        raise ValueError("its members are compressed")
    if sum(member.file_size for member in about) > len(archive):
        raise ValueError("it would unpack to more than it holds")
    if not is_intact(archive):
        raise ValueError("it is not as it was written")
    return archive


def _content(path: Path) -> bytes:
    if not stat.S_ISREG(path.stat().st_mode):  # Reading a pipe may never end.
        raise ValueError("it is no file")
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | _NO_WAIT)) as file:
        start = file.read(4)
        if start != b"PK\3\4" or os.fstat(file.fileno()).st_size > MOST_BYTES:
            raise ValueError("it is no archive, or one of more than 4 GB")
        return start + file.read()


def is_intact(archive: bytes) -> bool:
    """Return whether an archive matches its digest, or without a digest, its members' checksums.

    NumPy's reader accepts most changes. Without this check, a flipped bit on the disk would change
    a weight.
    """
    content, digest = archive[:-_N_DIGITS], archive[-_N_DIGITS:]
    if hashlib.sha256(content).hexdigest().encode() == digest:
        return True
    end = archive[-_END_SIZE:]
    if not end.startswith(_END) or not end.endswith(b"\0\0"):
        return False
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as file:
            # A directory entry whose comment has grown would hide the entries behind it.
            n_members = int.from_bytes(end[10:12], "little")
            return len(file.namelist()) == n_members and file.testzip() is None
    except _NO_ARCHIVE:
        return False
