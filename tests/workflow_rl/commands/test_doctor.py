import json
import os
from pathlib import Path

import pytest

from tests.cli import said_by
from workflow_rl.cage2.cyborg import installation as cage2
from workflow_rl.commands import doctor as installation
from workflow_rl.portable import NATIVE


def findings(check) -> list[installation.Finding]:
    return list(installation.findings_of(check))


def test_all_is_well_here(monkeypatch):
    # Beside other tests, a measured speed says little. The limits have a test of their own.
    monkeypatch.setattr(cage2, "LEAST_SPEEDUP", 0.0)
    said = said_by("doctor")
    subjects = [line.split()[0] for line in said.splitlines()]
    expected = ["versions", "processor", "cores", "memory", "cyborg", "compiled"]
    assert [subject for subject in subjects if subject in expected] == expected
    assert subjects.count("weights") == 2
    assert "All is well." in said


def test_other_versions_and_settings(monkeypatch):
    monkeypatch.setattr("workflow_rl.machine_facts.package_version", lambda name: "1.0+cpu")
    (finding,) = findings(installation.versions)
    assert "numpy 1.0+cpu instead of" in finding.text
    assert "pip install" in finding.fix
    monkeypatch.setenv(NATIVE, "1")
    assert f"unset {NATIVE}" in findings(installation.processor_and_cores)[0].fix
    monkeypatch.delenv(NATIVE)
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Zen")
    assert "OPENBLAS_CORETYPE is 'Zen'" in findings(installation.processor_and_cores)[0].fix


def test_a_fast_path_that_is_none():
    assert "end other" in cage2.speed_finding(60.0, 50.0).fix
    assert cage2.speed_finding(6000.0, 50.0).fix == ""


def test_other_weights(monkeypatch, tmp_path):
    record = json.loads(cage2.REFERENCE.read_text())
    record["weights"][-1] = "0" * 64
    record["machines"][0]["torch"] = "1.0"
    (tmp_path / "reference.json").write_text(json.dumps(record))
    monkeypatch.setattr(cage2, "REFERENCE", tmp_path / "reference.json")
    for finding in findings(cage2.weights):
        assert "after update 3" in finding.text
        assert "torch" in finding.fix


@pytest.mark.parametrize("error", [ImportError("no csle_cyborg"), RuntimeError("no room\nat all")])
def test_a_check_that_fails_is_a_finding(error):
    def simulators():
        raise error

    (finding,) = findings(simulators)
    assert finding.subject == "simulators"
    assert "no " in finding.text
    assert finding.fix


def test_what_is_wrong_ends_with_exit_code_1(monkeypatch):
    assert installation.LEAST_MEMORY == 1024**3
    monkeypatch.setattr(installation, "LEAST_MEMORY", 2**60)
    for name in ("versions", "processor_and_cores"):
        monkeypatch.setattr(installation, name, lambda: [])
    for name in ("simulators", "weights"):
        monkeypatch.setattr(cage2, name, lambda: [])
    said = said_by("doctor", code=1)
    assert "memory       WRONG" in said
    assert "fix: end other programs" in said


def test_the_reference_was_made_with_nothing_of_its_own():
    record = json.loads(cage2.REFERENCE.read_text())
    assert record["machines"][0]["departures"] == []
    assert os.sep not in record["config"]["env"].removeprefix("workflow_rl/")
    assert Path(cage2.REFERENCE).parent.name == "released"
