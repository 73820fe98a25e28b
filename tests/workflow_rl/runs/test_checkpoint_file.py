"""The file of a checkpoint gives back exactly what was written, and refuses all other files."""

import hashlib
import json
import math
import os
import struct
import subprocess
import sys
import time
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workflow_rl.errors import UserError
from workflow_rl.runs.checkpoint import (
    MOST_LEVELS,
    MOST_OF_EMPTY,
    MOST_OF_HEADER,
    MOST_OF_VALUES,
    read_values,
    write_values,
)
from workflow_rl.runs.read_checkpoint import load_checkpoint

DTYPES = [
    *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
]
BEGINNING = b'{"__metadata__":{"workflow_rl":"'
SECONDS, MEGABYTES = 10, 400


@st.composite
def tensors(draw: st.DrawFn) -> torch.Tensor:
    dtype = draw(st.sampled_from(DTYPES))
    shape = draw(st.lists(st.integers(0, 3), max_size=3))
    n_bytes = math.prod(shape) * dtype.itemsize
    content = draw(st.binary(min_size=n_bytes, max_size=n_bytes))
    if dtype == torch.bool:
        content = bytes(byte & 1 for byte in content)
    if not content:
        return torch.zeros(shape, dtype=dtype)
    return torch.frombuffer(bytearray(content), dtype=dtype).reshape(shape)


PLAIN = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**128) + 1, 2**128 - 1), st.floats(), st.text()
)
ODD_NAMES = ["$tensor", "$", "a.b", "a", "b", "__metadata__"]
NAMES = st.one_of(st.text(max_size=5), st.sampled_from(ODD_NAMES))
VALUES = st.recursive(
    st.one_of(PLAIN, tensors()),
    lambda values: st.one_of(
        st.lists(values, max_size=4),
        st.lists(values, max_size=4).map(tuple),
        st.dictionaries(st.one_of(NAMES, st.integers()), values, max_size=4),
        st.dictionaries(NAMES, values, max_size=4),
    ),
    max_leaves=20,
)


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal in their types, too, and to the bit."""
    if type(one) is not type(other):
        return False
    if isinstance(one, torch.Tensor):
        return (one.dtype, one.shape) == (other.dtype, other.shape) and one.flatten().view(
            torch.uint8
        ).equal(other.flatten().view(torch.uint8))
    if isinstance(one, float):
        return repr(one) == repr(other)
    if isinstance(one, dict):
        names = [(type(name), name) for name in one] == [(type(name), name) for name in other]
        return names and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=st.dictionaries(st.sampled_from(["a", "a.b", "agent", "0"]), VALUES))
def test_all_values_come_back_exactly(values, tmp_path):
    write_values(tmp_path / "one", values)
    assert same(read_values(tmp_path / "one"), values)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(6).reshape(2, 3).T,
        torch.zeros(1).expand(3, 4),
        torch.nn.Parameter(torch.ones(2)),
    ],
    ids=str,
)
def test_a_tensor_comes_back_however_it_lies_in_memory(tensor, tmp_path):
    write_values(tmp_path / "one", {"value": tensor})
    assert same(read_values(tmp_path / "one")["value"], tensor.detach().contiguous())


def test_tensors_that_share_their_memory_come_back_as_several_in_their_order(tmp_path):
    tensor = torch.arange(4.0)
    state = OrderedDict(z=torch.zeros(1), a=torch.ones(2))
    write_values(tmp_path / "one", {"both": [tensor, tensor, tensor[1:]], "state": state})
    back = read_values(tmp_path / "one")
    first, second, third = back["both"]
    first += 1
    assert torch.equal(second, tensor)
    assert torch.equal(third, tensor[1:])
    assert list(back["state"]) == ["z", "a"]


def test_equal_values_make_equal_files(tmp_path):
    values = {"agent": {name: torch.ones(3) for name in "zyxabc"}, "training": {"returns": [1.5]}}
    for name in ("one", "other"):
        write_values(tmp_path / name, values)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()


@pytest.mark.parametrize(
    "value",
    [
        np.float64(1),
        np.zeros(1),
        {1.5},
        2**128,
        {None: 1},
        {True: 1},
        torch.zeros(1, dtype=torch.complex64),
    ],
    ids=repr,
)
def test_a_value_of_another_type_is_named(value, tmp_path):
    with pytest.raises(TypeError, match=r"agent\.own\.0, of type"):
        write_values(tmp_path / "one", {"agent": {"own": [value]}})
    assert not list(tmp_path.iterdir())


def test_what_could_not_be_read_is_not_written(tmp_path):
    deep: list[Any] = []
    for _ in range(MOST_LEVELS):
        deep = [deep]
    with pytest.raises(TypeError, match="cannot hold"):
        write_values(tmp_path / "one", {"deep": deep})
    with pytest.raises(OSError, match="more than 1048576 values"):
        write_values(tmp_path / "one", {"long": [0] * (MOST_OF_VALUES + 1)})
    with pytest.raises(OSError, match="16 MiB"):
        write_values(tmp_path / "one", {"text": "x" * MOST_OF_HEADER})
    assert not list(tmp_path.iterdir())


EXAMPLE = {
    "agent": {"weights": torch.arange(300.0), "empty": torch.zeros(0, 3)},
    "training": {"best_score": -math.inf, "slots": [[0, (1, 2), {3: None}]]},
}


@pytest.fixture
def example(tmp_path: Path) -> Path:
    write_values(tmp_path / "example", EXAMPLE)
    return tmp_path / "example"


def refused(path: Path) -> str:
    """Return the one line with which a file is refused."""
    with pytest.raises(UserError) as error:
        load_checkpoint(path)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 1000
    return str(error.value)


@pytest.mark.parametrize(
    ("n_flipped", "n_cut"), [(150, 40), pytest.param(1000, 200, marks=pytest.mark.slow)]
)
def test_no_bit_that_flips_and_no_end_that_is_lost_goes_unnoticed(n_flipped, n_cut, example):
    content = example.read_bytes()
    random = np.random.default_rng(0)
    for bit in random.choice(8 * len(content), n_flipped, replace=False).tolist():
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        example.write_bytes(changed)
        assert "damaged" in refused(example), bit
    for end in [0, *random.choice(len(content), n_cut, replace=False).tolist()]:
        example.write_bytes(content[:end])
        assert "damaged" in refused(example), end
    example.write_bytes(content + b"\0")
    assert "damaged" in refused(example)


def with_right_digest(header: bytes, payload: bytes = b"") -> bytes:
    """Return a file of a header in which the digest is right."""
    content = bytearray(struct.pack("<Q", len(header)) + header + payload)
    at = 8 + len(BEGINNING)
    digest = hashlib.sha256(content[:at] + content[at + 64 :]).hexdigest().encode()
    content[at : at + 64] = digest
    return bytes(content)


def hostile(path: Path, values: str, tensors: str = "", payload: bytes = b"") -> None:
    """Write a file whose digest is right, with these values and this description of tensors."""
    text = json.dumps("0" * 64 + values)[1:]
    header = BEGINNING + text.encode() + b"}" + tensors.encode() + b"}"
    path.write_bytes(with_right_digest(header, payload))


def described(name: str, shape: list[int], start: int, end: int, dtype: str = "F32") -> str:
    about = {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}
    return f',"{name}":{json.dumps(about)}'


ONE = '{"a": {"$tensor": "a"}}'
TWO = '{"a": {"$tensor": "a"}, "b": {"$tensor": "b"}}'
FLOATS = bytes(8)
HOSTILE: dict[str, tuple[str, str, bytes]] = {
    "a tensor beyond the file": (ONE, described("a", [4], 0, 16), FLOATS),
    "tensors that overlap": (
        TWO, described("a", [2], 0, 8) + described("b", [1], 4, 8), FLOATS,
    ),
    "a hole": (TWO, described("a", [1], 0, 4) + described("b", [1], 8, 12), bytes(12)),
    "a vast shape": (ONE, described("a", [10**9], 0, 8), FLOATS),
    "a vast shape of no numbers": (ONE, described("a", [0, 10**18], 0, 0), b""),
    "a shape that overflows": (ONE, described("a", [2**33, 2**33], 0, 8), FLOATS),
    "a shape below nothing": (ONE, described("a", [-2, -1], 0, 8), FLOATS),
    "a shape of many axes": (ONE, described("a", [1] * 100_000, 0, 4), bytes(4)),
    "a shape that is none": (ONE, described("a", "x", 0, 8), FLOATS),
    "an unknown type": (ONE, described("a", [2], 0, 8, "F31"), FLOATS),
    "a tensor twice in the header": (
        ONE, described("a", [2], 0, 8) + described("a", [2], 0, 8), FLOATS,
    ),
    "a tensor that is named twice": (
        '{"a": {"$tensor": "a"}, "b": {"$tensor": "a"}}', described("a", [2], 0, 8), FLOATS,
    ),
    "a tensor that is not named": ("{}", described("a", [2], 0, 8), FLOATS),
    "a tensor that is not there": (ONE, "", b""),
    "bytes behind the tensors": ("{}", "", bytes(10)),
    "texts twice": ("{}", ',"__metadata__":{}', b""),
    "a name twice": ('{"a": 1, "a": 2}', "", b""),
    "a number twice": ('{"a": {"$pairs": [[1, 1], [1, 2]]}}', "", b""),
    "a list as a name": ('{"a": {"$pairs": [[[1], 1]]}}', "", b""),
    "a truth as a name": ('{"a": {"$pairs": [[true, 1]]}}', "", b""),
    "pairs that are none": ('{"a": {"$pairs": [1]}}', "", b""),
    "no list of pairs": ('{"a": {"$pairs": {"ab": 1}}}', "", b""),
    "a tuple of a text": ('{"a": {"$tuple": "text"}}', "", b""),
    "a tensor of a list": ('{"a": {"$tensor": [1]}}', "", b""),
    "a number that is a text": ('{"a": {"$float": "1"}}', "", b""),
    "two kinds": ('{"a": {"$float": "inf", "b": 1}}', "", b""),
    "an unknown kind": ('{"a": {"$code": "1"}}', "", b""),
    "a kind instead of names": ('{"$tuple": [1]}', "", b""),
    "no names": ("[1]", "", b""),
    "infinity": ('{"a": Infinity}', "", b""),
    "no number": ('{"a": NaN}', "", b""),
    "a long number": (f'{{"a": {"9" * 10_000}}}', "", b""),
    "many long numbers": (f'{{"a": [{", ".join(["9" * 4000] * 3000)}]}}', "", b""),
    "a number of 129 bits": (f'{{"a": {2**128}}}', "", b""),
    "deep lists": (f'{{"a": {"[" * 100_000}{"]" * 100_000}}}', "", b""),
    "deep objects": ('{"a": ' * 50_000 + "1" + "}" * 50_000, "", b""),
    "levels that Python allows": (f'{{"a": {"[" * 500}{"]" * 500}}}', "", b""),
    "no JSON": ("{", "", b""),
    "a deep header": ("{}", ',"a":' + "[" * 100_000, b""),
    "many values": (f'{{"a": [{"[]," * 2_000_000}1]}}', "", b""),
    "many tensors": ("{}", described("", [0], 0, 0) * 200_000, b""),
    "a header of 100 MB": (f'{{"a": "{"x" * 10**8}"}}', "", b""),
}  # fmt: skip


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_file_that_is_made_to_mislead_is_one_line(kind, tmp_path):
    hostile(tmp_path / "one", *HOSTILE[kind])
    begun = time.monotonic()
    refused(tmp_path / "one")
    assert time.monotonic() - begun < SECONDS


def test_values_are_counted_however_their_marks_are_written(tmp_path):
    """A header is JSON, which may write a comma as a number."""
    one = tmp_path / "one"
    hostile(one, f'{{"a": [{"0," * 1_100_000}1]}}')
    header = one.read_bytes()[8:].replace(b"0,", b"0\\u002c")
    assert len(header) < MOST_OF_HEADER
    one.write_bytes(with_right_digest(header))
    with pytest.raises(ValueError, match="values"):
        read_values(one)


def test_the_hostile_files_differ_from_a_good_one_in_one_thing(tmp_path):
    hostile(tmp_path / "one", TWO, described("a", [1], 0, 4) + described("b", [1], 4, 8), FLOATS)
    assert same(read_values(tmp_path / "one"), {"a": torch.zeros(1), "b": torch.zeros(1)})
    hostile(tmp_path / "one", ONE, described("a", [0, MOST_OF_EMPTY], 0, 0))
    assert read_values(tmp_path / "one")["a"].shape == (0, MOST_OF_EMPTY)


@pytest.mark.parametrize("size", [MOST_OF_HEADER + 1, 2**40, 2**63, 2**64 - 1])
def test_a_header_beyond_the_limit_is_not_read(size, example):
    content = example.read_bytes()
    example.write_bytes(struct.pack("<Q", size) + content[8:])
    os.truncate(example, 2**34)
    refused(example)


def test_a_vast_file_is_not_read(example):
    os.truncate(example, 2**40)
    assert "larger than 4 GiB" in refused(example)


MEASURED = """
import resource, sys
from pathlib import Path
import numpy, torch
from workflow_rl.runs.read_checkpoint import load_checkpoint
from workflow_rl.errors import UserError
for path in sys.argv[1:]:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        load_checkpoint(Path(path))
    except UserError:
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_hostile_files_take_little_memory(tmp_path):
    n_values = MOST_OF_VALUES - 100
    largest = {
        "lists": f'{{"a": [{"[]," * (n_values // 2)}1]}}',
        "objects": f'{{"a": [{"{}," * n_values}1]}}',
        "texts": f'{{"a": "{chr(0x1F600) * (MOST_OF_HEADER // 13)}"}}',
        "names": f'{{"a": {{"{"x" * (MOST_OF_HEADER - 300)}": 1}}}}',
    }
    others = ["a vast shape", "a vast shape of no numbers", "a header of 100 MB", "many values"]
    others += ["many long numbers", "many tensors", "a shape of many axes", "deep lists"]
    for name in others:
        hostile(tmp_path / name, *HOSTILE[name])
    for name, values in largest.items():
        hostile(tmp_path / name, values)
    code = [sys.executable, "-c", MEASURED, *map(str, tmp_path.iterdir())]
    grown = subprocess.run(code, capture_output=True, text=True, check=True).stdout.split()
    assert len(grown) == len([*others, *largest])
    assert all(int(kilobytes) < MEGABYTES * 1024 for kilobytes in grown), grown
