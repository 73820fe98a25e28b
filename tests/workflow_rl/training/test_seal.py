"""Damage on disk: none goes unnoticed."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
import torch

from workflow_rl.training.checkpoint import (
    Checkpoint,
    CheckpointError,
    TrainingState,
    load_checkpoint,
    save_checkpoint,
)
from workflow_rl.training.seal import is_intact, sealed

PAGE = 4096


def archive() -> bytes:
    file = io.BytesIO()
    torch.save({"weight": torch.arange(5000.0), "name": "an agent"}, file)
    return file.getvalue()


def flipped(content: bytes, bit: int) -> bytes:
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def test_a_sealed_archive_is_still_one() -> None:
    content = sealed(archive())
    assert is_intact(content)
    loaded = torch.load(io.BytesIO(content), weights_only=True)
    assert torch.equal(loaded["weight"], torch.arange(5000.0))


def test_archives_that_were_never_sealed_are_read() -> None:
    assert is_intact(archive())
    half = archive()[: len(archive()) // 2]
    assert not is_intact(half)
    assert not is_intact(b"")
    # Of the weights themselves.
    at = archive().index(torch.arange(5000.0).numpy().tobytes())
    assert not is_intact(flipped(archive(), 8 * at + 5))


def test_no_bit_that_flips_and_no_page_that_is_lost_goes_unnoticed() -> None:
    content = sealed(archive())
    random = np.random.default_rng(0)
    for bit in random.integers(8 * len(content), size=1000).tolist():
        assert not is_intact(flipped(content, bit)), bit
    for start in range(0, len(content), PAGE):
        zeroed = content[:start] + bytes(len(content[start : start + PAGE]))
        zeroed += content[start + PAGE :]
        assert zeroed == content or not is_intact(zeroed), start


def test_a_damaged_checkpoint_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"
    save_checkpoint(path, Checkpoint({}, {"weight": torch.zeros(100)}, TrainingState()))
    assert torch.equal(load_checkpoint(path).agent["weight"], torch.zeros(100))
    content = path.read_bytes()
    path.write_bytes(flipped(content, 8 * content.index(bytes(400)) + 3))
    with pytest.raises(CheckpointError, match="damaged"):
        load_checkpoint(path)
