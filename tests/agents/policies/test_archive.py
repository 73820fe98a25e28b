"""Damage on disk: none goes unnoticed."""

from __future__ import annotations

import io
import os
import zipfile

import numpy as np
import pytest

from workflow_rl.agents.policies.policy_file import is_intact, read_archive, sealed

PAGE = 4096


def archive() -> bytes:
    file = io.BytesIO()
    np.savez(file, weight=np.arange(5000.0), name=np.array("an agent"))
    return file.getvalue()


def flipped(content: bytes, bit: int) -> bytes:
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def test_archives_that_were_never_sealed_are_read():
    assert is_intact(archive())
    half = archive()[: len(archive()) // 2]
    assert not is_intact(half)
    assert not is_intact(b"")
    # Of the weights themselves.
    at = archive().index(np.arange(5000.0).tobytes())
    assert not is_intact(flipped(archive(), 8 * at + 5))


def test_no_bit_that_flips_and_no_page_that_is_lost_goes_unnoticed():
    content = sealed(archive())
    random = np.random.default_rng(0)
    for bit in random.integers(8 * len(content), size=1000).tolist():
        assert not is_intact(flipped(content, bit)), bit
    for start in range(0, len(content), PAGE):
        zeroed = content[:start] + bytes(len(content[start : start + PAGE]))
        zeroed += content[start + PAGE :]
        assert zeroed == content or not is_intact(zeroed), start


def test_a_directory_that_hides_members_is_noticed():
    """The comment of an entry that swallows those behind it: each that is left is as written."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as members:
        for name in ("first", "second", "third"):
            members.writestr(name, name)
    content = file.getvalue()
    bit = 8 * (content.index(b"PK\1\2") + 32) + 6  # 64 bytes more, of the two entries of 52.
    hidden = flipped(flipped(content, bit), bit + 1)
    with zipfile.ZipFile(io.BytesIO(hidden)) as members:
        assert members.namelist() == ["first"], "or else this tests nothing"
        assert members.testzip() is None
    assert is_intact(content)
    assert not is_intact(hidden)


def test_files_larger_than_the_limit_are_not_read(tmp_path, monkeypatch):
    path = tmp_path / "archive.npz"
    path.write_bytes(archive())
    monkeypatch.setattr("workflow_rl.agents.policies.policy_file.MOST_BYTES", len(archive()))
    assert read_archive(path) == archive()
    monkeypatch.setattr("workflow_rl.agents.policies.policy_file.MOST_BYTES", len(archive()) - 1)
    with pytest.raises(ValueError, match="4 GB"):
        read_archive(path)


def test_a_pipe_is_no_archive(tmp_path):
    os.mkfifo(tmp_path / "agent.npz")
    with pytest.raises(ValueError, match="no file"):
        read_archive(tmp_path / "agent.npz")
