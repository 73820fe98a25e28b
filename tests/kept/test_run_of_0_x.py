"""Run folders that commit 89af317 left are loaded, and go on as they would have gone on then."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.kept.test_reference_weights import RECORD, command, config_from_record, results_of
from workflow_rl import load_agent

FOLDERS = Path(__file__).parent / "run_of_0_x"


@pytest.mark.parametrize("name", RECORD["folders"])
def test_agent_is_loaded(name: str) -> None:
    recorded = RECORD["folders"][name]
    config_from_record(recorded["config"])
    agent = load_agent(FOLDERS / name)
    agent.reset(0)
    observations = np.array(recorded["observations"], np.float32)
    actions = [np.asarray(agent.act(observation)) for observation in observations]
    np.testing.assert_allclose(np.array(actions), np.array(recorded["actions"]), rtol=1e-6)


def rows_of(run: Path) -> list[dict[str, str]]:
    """The metrics as they are written. Later versions have more columns."""
    with (run / "metrics.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("name", RECORD["folders"])
def test_run_goes_on(name: str, tmp_path: Path) -> None:
    recorded, run = RECORD["folders"][name], tmp_path / name
    shutil.copytree(FOLDERS / name, run)
    rows = rows_of(run)
    command(recorded["command"], "--resume", str(run), *recorded["longer"])
    kept = rows_of(run)[: len(rows)]
    assert [{name: row[name] for name in rows[0]} for row in kept] == rows
    assert results_of(run) == recorded["results"], RECORD["machine"]
