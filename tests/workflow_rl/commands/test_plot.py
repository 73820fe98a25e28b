from pathlib import Path

import pytest

from tests.cli import call, refused, said_by
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.metrics import METRICS
from workflow_rl.runs.run_dir import RunDir


def a_run(path: Path) -> Path:
    with RunDir(path, TrainConfig("async")) as run:
        for update in (1, 2):
            run.log({**dict.fromkeys(METRICS, 1.0), "update": update, "episodes": 24 * update})
    return path


@pytest.mark.parametrize(
    ("names", "output", "picture", "start"),
    [
        (["run"], None, "run/learning_curve.png", b"\x89PNG"),
        (["first", "second"], None, "learning_curve.png", b"\x89PNG"),
        (["first", "second"], "both.png", "both.png", b"\x89PNG"),
        (["run"], "x.pdf", "x.pdf", b"%PDF"),
        (["run"], "x.svg", "x.svg", b"<?xml"),
        (["run"], "x.PNG", "x.PNG", b"\x89PNG"),
    ],
)
def test_a_picture_lies_where_it_is_looked_for(names, output, picture, start, tmp_path):
    runs = [a_run(tmp_path / name) for name in names]
    said_by("plot", *runs, *(["--output", tmp_path / output] if output else []))
    drawn = [one for one in tmp_path.rglob("*") if one.suffix.lower() in (".png", ".pdf", ".svg")]
    assert drawn == [tmp_path / picture]
    assert drawn[0].read_bytes().startswith(start)


def test_mistakes(tmp_path):
    runs = [a_run(tmp_path / name) for name in ("first", "second")]
    refused(call("plot", *runs, "--label one --label one"), "--label", "one for each line")
    refused(call("plot", *runs, "--output", tmp_path / "no" / "folder.png"), "--output")
    assert not list(tmp_path.rglob("*.png"))
