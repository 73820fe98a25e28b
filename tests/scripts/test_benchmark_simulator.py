import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from scripts.benchmark_simulator import main
from workflow_rl.cage2.compiled.state import STATE

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "benchmark_simulator.py"


def run(*options, cwd=None):
    command = [sys.executable, str(SCRIPT), *options]
    return subprocess.run(command, cwd=cwd, check=False, capture_output=True, text=True)


def test_a_row_for_every_simulator_policy_and_number_of_cores(tmp_path):
    sizes = ["--compiled-envs", "1", "--compiled-envs", "20"]
    times = ["--red-agent", "B_lineAgent", "--seconds", "0.2", "--rounds", "2"]
    shown = run(*sizes, *times, "--json", "rows.json", "--png", "chart.png", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    rows = json.loads((tmp_path / "rows.json").read_text())
    cores = rows[0]["usable_cores"]
    expected = {("stock", "random", 1, 1), ("cyborg", "random", 1, 1)}
    expected |= {
        ("compiled", policy, n_envs, n_cores)
        for policy in ("random", "network")
        for n_envs in (1, 20)
        for n_cores in (1, min(cores, n_envs))
    }
    found = [(row["simulator"], row["policy"], row["n_envs"], row["cores"]) for row in rows]
    assert len(found) == len(expected)
    assert set(found) == expected
    rates = {key: row["rounds"] for key, row in zip(found, rows, strict=True)}
    # The best rounds: in another one it may have been kept from a core.
    assert max(rates["stock", "random", 1, 1]) < max(rates["cyborg", "random", 1, 1])
    assert max(rates["cyborg", "random", 1, 1]) < max(rates["compiled", "random", 20, 1])
    for row in rows:
        assert row["red_agent"] == "B_lineAgent"
        assert row["env_steps_per_second"] == row["steps_per_second"]
        assert len(row["rounds"]) == 2
        assert (row["bytes_per_env"] or STATE.itemsize) >= STATE.itemsize
        assert row["csle_cyborg"]
        assert row["numba"]
        assert f"{row['steps_per_second']:,.0f}" in shown.stdout
        assert f"{row['ratio_to_stock']:,.1f}" in shown.stdout
    assert f"{rows[-1]['bytes_per_env']:,} bytes an env" in shown.stdout
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("option", "value"), [("--json", "/no/such/folder/rows.json"), ("--compiled-envs", "0")]
)
def test_a_bad_option_is_refused_by_name_before_measuring(option, value):
    refused = CliRunner().invoke(main, [option, value])
    assert refused.exit_code == 2
    assert option in refused.output
    assert value in refused.output
