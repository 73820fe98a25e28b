import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "benchmark_simulator.py"


def test_every_simulator_has_a_row_and_stock_is_slowest(tmp_path):
    options = ["--seconds", "0.6", "--rounds", "2", "--compiled-envs", "20", "--json", "rows.json"]
    command = [sys.executable, str(SCRIPT), "--red-agent", "B_lineAgent", *options]
    shown = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert [(row["simulator"], row["n_envs"]) for row in rows] == [
        ("stock", 1),
        ("cyborg", 1),
        ("compiled", 20),
    ]
    for row in rows:
        assert (row["red_agent"], row["policy"]) == ("B_lineAgent", "random")
        assert f"{row['steps_per_second']:,.0f}" in shown.stdout
    rates = [row["steps_per_second"] for row in rows]
    assert rates == sorted(rates)


def test_a_file_that_cannot_be_written_is_refused_before_measuring():
    command = [sys.executable, str(SCRIPT), "--json", "/no/such/folder/rows.json"]
    refused = subprocess.run(command, check=False, capture_output=True, text=True)
    assert refused.returncode == 2
    assert "--json" in refused.stderr
