import json

import pytest
from click.testing import CliRunner

from scripts.benchmark_simulator import main
from workflow_rl.cage2.compiled.state import STATE

pytestmark = pytest.mark.system


def test_a_row_for_every_simulator_policy_and_number_of_cores(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    times = ["--red-agent", "B_lineAgent", "--seconds", "0.2", "--rounds", "2"]
    files = ["--json", "rows.json", "--png", "chart.png"]
    shown = CliRunner().invoke(main, ["--compiled-envs", "20", *times, *files])
    assert shown.exit_code == 0, shown.output
    rows = json.loads((tmp_path / "rows.json").read_text())
    cores = rows[0]["usable_cores"]
    expected = {("stock", "random", 1, 1), ("cyborg", "random", 1, 1)}
    expected |= {
        ("compiled", policy, 20, n_cores)
        for policy in ("random", "network")
        for n_cores in (1, min(cores, 20))
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
        assert f"{row['steps_per_second']:,.0f}" in shown.output
        assert f"{row['ratio_to_stock']:,.1f}" in shown.output
    assert f"{rows[-1]['bytes_per_env']:,} bytes an env" in shown.output
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("option", "value"), [("--json", "/no/such/folder/rows.json"), ("--compiled-envs", "0")]
)
def test_a_bad_option_is_refused_by_name_before_measuring(option, value):
    refused = CliRunner().invoke(main, [option, value])
    assert refused.exit_code == 2
    assert option in refused.output
    assert value in refused.output
