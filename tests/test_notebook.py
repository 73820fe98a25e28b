import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
nbformat = pytest.importorskip("nbformat")  # `make notebook` has it.
nbclient = pytest.importorskip("nbclient")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_notebook_trains_draws_scores_and_replays(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    notebook = nbformat.read(ROOT / "examples" / "first_agent.ipynb", as_version=4)
    assert all(not cell.outputs for cell in notebook.cells if cell.cell_type == "code")
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=300, resources=resources).execute()

    outputs = [one for cell in notebook.cells for one in cell.get("outputs", [])]
    shown = [one.data for one in outputs if "data" in one]
    assert any("image/png" in data for data in shown)
    assert any("<iframe" in data.get("text/html", "") for data in shown)
    printed = "".join(one.text for one in outputs if one.get("name") == "stdout")
    found = re.search(r"mean return (-\d+\.\d) ±", printed)
    assert found, printed
    assert float(found[1]) > -60  # Doing nothing returns about -1100.
