from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from scripts.check_population import main


def test_a_small_population_beside_independent_runs(tmp_path: Path) -> None:
    rows, plot = tmp_path / "rows.json", tmp_path / "population.png"
    sizes = ["--repetitions", "1", "--members", "2", "--episodes", "48"]
    result = CliRunner().invoke(main, [*sizes, "--json", str(rows), "--plot", str(plot)])
    assert result.exit_code in (0, 1), result.output
    assert "the best member beats the median of 2 runs" in result.output
    (run,) = json.loads(rows.read_text())["runs"]
    assert len(run["population"]) == len(run["independent"]) == 2
    assert plot.read_bytes().startswith(b"\x89PNG")
