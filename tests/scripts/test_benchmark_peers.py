import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from scripts.benchmark_peers import compare, tables
from scripts.benchmark_peers.tables import BETWEEN, gains, page_tables, spread
from tests.cli import output_of


def row(name: str, simulator: str, index: int, rate: float, **more: Any) -> dict[str, Any]:
    return {
        **{"name": name, "simulator": simulator, "round": index, "rate": rate},
        **{"seconds": 60.0, "start": 2.0, "megabytes": 1234, "last_return": -50.0},
        **{"reached": {"-60": None, "-30": None}},
        **more,
    }


ROWS = [
    *(row("ceiling", "published", index, 2.0) for index in range(3)),
    *(row("sb3", "published", index, rate) for index, rate in enumerate((1.0, 1.4, 1.2))),
    *(row("rllib", "published", index, rate) for index, rate in enumerate((1.5, 0.5, 0.6))),
    row("async", "published", 0, 9.0),
    row("async", "cyborg", 0, 30.0, reached={"-60": 20.4, "-30": None}),
    row("async", "cyborg", 1, 28.0, reached={"-60": 31.0, "-30": 55.0}),
    row("async", "cyborg", 2, 36.0),
]
MACHINE = {"date": "2026-01-02", "cores": 2, "processor": "A chip", "python": "3.11.7"}
TOLD = {
    "measured": {"published": MACHINE, "cyborg": MACHINE},
    "versions": {"sb3": {"stable-baselines3": "2.9.2", "torch": "2.13.0"}},
    "rows": ROWS,
}


def test_what_a_run_comes_to():
    # Two episodes at once at first. 100 of -100 and then 100 of 0 pass -60 with the 40th of those.
    returns = [-100.0] * 100 + [0.0] * 100
    times = [1010.0, *(1010.0 + index / 10 for index in range(199))]
    found = compare.row_of(list(zip(times, returns, strict=True)), 1000.0)
    assert (found["start"], found["episodes"], found["last_return"]) == (10.0, 200, 0.0)
    assert found["rate"] == pytest.approx(10)
    # In lockstep: 8 at a time, every 10 s, within a tenth of a second.
    bursts = [(10.0 * n + i / 80, -1.0) for n in range(1, 4) for i in range(8)]
    assert compare.row_of(bursts, 0.0)["rate"] == pytest.approx(0.8)
    assert found["reached"] == {"-60": pytest.approx(23.8), "-30": pytest.approx(26.8)}
    at_once = compare.row_of([(5.0, -1.0)] * 8, 0.0)
    assert (at_once["rate"], at_once["reached"]) == (0.0, {"-60": None, "-30": None})
    none = compare.row_of([], 0.0)
    assert (none["start"], none["episodes"], none["rate"]) == (None, 0, 0.0)


def test_tables_give_medians_spreads_and_what_was_not_reached():
    # Gains are over the best peer of the same round, and not over this package itself.
    assert gains(ROWS, "async", "cyborg", "published") == pytest.approx([20, 20, 30])
    text = page_tables({**TOLD, "rows": [*ROWS, row("torchrl", "published", 0, 0.0, start=None)]})
    assert "| playing at random | 2.0 |  |  |  |  |  |" in text
    assert "| Stable-Baselines3 | 1.2 |  |  |  |  |  |" in text
    # Of three rounds one did not reach -60: the median is the later of the others.
    assert "| workflow_rl, asynchronous | 9.0 | 30.0 |  | 31 |  |  |" in text
    assert "| TorchRL | 0.0 |  |  |  |  |  |" in text


def test_the_page_has_the_tables_of_the_stored_rows():
    told = json.loads(compare.ROWS.read_text())
    found = BETWEEN.search(compare.PAGE.read_text())
    assert found is not None
    assert found[0] == page_tables(told)
    assert set(tables.NAMES) == {"ceiling", *compare.PACKAGES, *compare.IN_PROCESS, *compare.OURS}


def test_events_of_both_kinds_are_read_as_they_are_written(tmp_path):
    metrics = tmp_path / "metrics.csv"
    assert compare.new_events(metrics, 0) == ([], 0)
    metrics.write_text("return_mean,workers_restarted\n-10,0\n-20,")
    events, n_rows = compare.new_events(metrics, 0)
    assert [total for _, total in events] == [-10.0] * 24  # The second is half a line.
    metrics.write_text("return_mean,workers_restarted\n-10,0\n-20,0\n")
    events, n_rows = compare.new_events(metrics, n_rows)
    assert ([total for _, total in events], n_rows) == ([-20.0] * 24, 2)
    (tmp_path / "1.txt").write_text("3.5 -1\n9.0 -3\n")
    (tmp_path / "2.txt").write_text("4.5 -2\n9.9")
    assert compare.noted_events(tmp_path) == [(3.5, -1.0), (4.5, -2.0), (9.0, -3.0)]


def test_a_run_is_measured_and_leaves_nothing(monkeypatch):
    left: list[int] = []
    end_all = compare.end_all

    def watched(folder: Path) -> None:
        left.append(len(list(compare.processes_of(folder))))
        end_all(folder)
        left.append(len(list(compare.processes_of(folder))))

    monkeypatch.setattr(compare, "end_all", watched)
    for seconds in (12, 30):  # Processes may get no core for a while.
        found = compare.run_one("ceiling", "cyborg", sys.executable, seconds)
        if found["episodes"] > 8 and found["megabytes"] > 20:
            break
    assert found["episodes"] > 8
    assert found["rate"] > 0
    assert found["megabytes"] > 20
    assert left[-2:] == [1 + compare.task.N_CORES, 0]


@pytest.mark.parametrize("simulator", ["cyborg", "compiled"])
@pytest.mark.parametrize("trainer", compare.OURS)
def test_our_trainers_take_what_they_are_called_with(trainer, simulator, tmp_path):
    _, program, *options = compare.own_command(trainer, simulator, tmp_path)
    assert Path(program).exists()
    command = "train-sync" if trainer == "sync" else "train-async"
    said = output_of(command, *options, "--dry-run")
    values = {line.rpartition("  # ")[0] for line in said.splitlines()}
    assert {"n_envs: 8", f"simulator: {simulator}"} <= values


def test_everyone_has_a_turn_and_all_is_written_at_the_end(monkeypatch, tmp_path):
    asked: list[tuple[str, str]] = []

    def stub(name: str, simulator: str, python: str, seconds: float) -> dict[str, Any]:
        asked.append((name, simulator))
        rest = row(name, simulator, 0, 3.0)
        return {key: rest[key] for key in ("rate", "start", "megabytes", "reached")}

    page, written = tmp_path / "page.md", tmp_path / "rows.json"
    page.write_text("before\n<!-- tables -->\nold\n<!-- end -->\n")
    monkeypatch.setattr(compare, "PAGE", page)
    monkeypatch.setattr(compare, "run_one", stub)
    monkeypatch.setattr(compare, "installed", lambda names: {"sb3": Path("python")})
    monkeypatch.setattr(compare, "versions", lambda python, names: {"it": "1"})
    options = ["--json", str(written)]

    def measure(*more: str) -> None:
        result = CliRunner().invoke(compare.main, [*more, *options], catch_exceptions=False)
        assert result.exit_code == 0, result.output

    measure()
    everyone = [(name, on) for on, names in compare.ENTRIES.items() for name in names]
    assert asked == everyone + everyone[::-1]
    assert len(json.loads(written.read_text())["rows"]) == 2 * len(everyone)
    assert "1 (1 to 1) times" in page.read_text()
    measure("--simulator", "compiled", "--rounds", "1")
    told = json.loads(written.read_text())
    before = json.loads(compare.ROWS.read_text())
    others = [row for row in before["rows"] if row["simulator"] != "compiled"]
    assert told["rows"][: len(others)] == others
    assert len(told["rows"]) == len(others) + len(compare.ENTRIES["compiled"])
    assert told["measured"]["cyborg"] == before["measured"]["cyborg"]
    assert told["measured"]["compiled"]["date"] != before["measured"]["cyborg"]["date"]
    written.unlink()
    measure("--only", "sb3")
    assert not written.exists()
    assert CliRunner().invoke(compare.main, ["--only", "sb3,sb4"]).exit_code == 2


def test_a_peer_that_does_not_train_says_why():
    with pytest.raises(
        compare.click.ClickException, match=r"tianshou on compiled(.|\n)*No module named .tianshou"
    ):
        compare.run_one("tianshou", "compiled", sys.executable, 60)


def test_a_spread_is_a_median_and_a_range() -> None:
    assert spread([3000, 1000, 2000]) == "2,000 (1,000 to 3,000)"
    assert spread([1.25, 1.5], "{:.1f}".format) == "1.4 (1.2 to 1.5)"
    assert spread([7]) == "7"
    assert spread([1, math.inf, math.inf]) == "- (1 to -)"
