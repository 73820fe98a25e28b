"""A run's record of its machine and first weights, and the command that compares."""

import json
from pathlib import Path

import pytest

from tests.cli import call, refused, said_by
from workflow_rl.runs import run_dir
from workflow_rl.runs.folder import read_record, weights_digest
from workflow_rl.runs.read_checkpoint import load_checkpoint

TINY = (
    "--n-envs 2 --n-workers 1 --max-steps 5 --episodes-per-update 2 --total-episodes 8 "
    "--hidden-sizes 8 --quiet --checkpoint-every 1"
)
MORE = "--total-episodes 12 --quiet"


def train(path: Path, *options: object, mode: str = "async") -> Path:
    said_by(f"train-{mode}", TINY, "--run-dir", path, *options)
    return path


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp("runs") / "finished")


def changed(run: Path, path: Path, **changes: object) -> Path:
    path.mkdir()
    record = json.loads((run / "machine.json").read_text())
    record["config"].update(changes.pop("config", {}))
    (path / "machine.json").write_text(json.dumps({**record, **changes}))
    return path


def test_the_record(finished, tmp_path):
    record = read_record(finished / "machine.json")
    assert record.machines[0]["numpy_kernels"] == "X86_V3"
    assert record.machines[0]["departures"] == []
    # Four updates: before the first, and after three.
    assert len(set(record.weights)) == 4
    three = train(tmp_path / "three", "--keep-every 1")
    network = load_checkpoint(three / "kept" / "000003.safetensors").agent["network"]
    assert record.weights[3] == weights_digest(network)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_run_is_reproduced(mode, finished, tmp_path):
    run = finished if mode == "async" else train(tmp_path / "run", mode="sync")
    before = {file: file.read_bytes() for file in run.iterdir() if file.is_file()}
    said = said_by("verify", run)
    assert "after update 3: identical" in said
    assert f"This machine reproduces {run}." in said
    assert {file: file.read_bytes() for file in run.iterdir() if file.is_file()} == before


def test_other_weights_are_told_with_what_differs(finished, tmp_path):
    record = read_record(finished / "machine.json")
    machines = [{**record.machines[0], "torch": "1.0"}]
    weights = [*record.weights[:3], "0" * 64]
    run = changed(finished, tmp_path / "run", machines=machines, weights=weights)
    said = said_by("verify", run, code=1)
    assert "after update 2: identical" in said
    assert "after update 3: identical" not in said
    assert "1.0 there" in said
    assert "does not reproduce" in said


def test_a_run_that_was_resumed_past_its_end(finished, tmp_path):
    """The learning rate of its first updates was that of a shorter run."""
    run = train(tmp_path / "run")
    weights = read_record(run / "machine.json").weights
    said_by("train-async --resume", run, MORE)
    assert read_record(run / "machine.json").weights == weights
    assert len(read_record(run / "machine.json").machines) == 1
    said_by("verify", run)


def test_a_run_that_goes_on_elsewhere_says_so(tmp_path, monkeypatch):
    run = train(tmp_path / "run")
    monkeypatch.setattr(run_dir, "machine", lambda: {"processor": "another"})
    said_by("train-async --resume", run, MORE)
    machines = read_record(run / "machine.json").machines
    assert len(machines) == 2
    assert machines[1] == {"processor": "another"}


def test_a_run_that_began_with_another_agent(finished, tmp_path):
    run = train(tmp_path / "run", "--init-from", finished)
    refused(call("verify", run), "name that with --init-from")
    said_by("verify", run, "--init-from", finished)
    refused(call("verify", finished, "--init-from", run), "leave --init-from out")


def test_runs_that_promise_nothing(finished, tmp_path):
    free = {"async_rl": True, "batching": "first-come"}
    refused(call("verify", changed(finished, tmp_path / "free", config=free)), "no machine")
    on_gpu = changed(finished, tmp_path / "gpu", config={"device": "cuda"})
    refused(call("verify", on_gpu), "CPU")
    refused(call("verify", changed(finished, tmp_path / "none", weights=["0"])), "first update")
    (tmp_path / "old").mkdir()
    refused(call("verify", tmp_path / "old"), "has no machine.json")


def test_a_cluster_that_a_record_names_is_not_joined(finished, tmp_path):
    run = changed(finished, tmp_path / "run", config={"cluster": "127.0.0.1:9"})
    said_by("verify", run)
