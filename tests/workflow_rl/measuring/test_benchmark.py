import itertools
import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from workflow_rl.commands.benchmark import benchmark
from workflow_rl.measuring import benchmark as benchmark_module
from workflow_rl.measuring.benchmark import (
    Rate,
    make_rows,
    make_variants,
)
from workflow_rl.runs.config import TrainConfig
from workflow_rl.text_table import text_table


@pytest.fixture
def cores(monkeypatch) -> Callable[[int], None]:
    """Sets how many cores there are."""

    def have(number: int) -> None:
        monkeypatch.setattr(benchmark_module, "usable_cores", lambda: number)
        monkeypatch.setattr("workflow_rl.runs.resolve.usable_cores", lambda: number)

    return have


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(benchmark, [*map(str, arguments), "--quiet"])


def test_every_variant_of_every_simulator_has_a_plausible_row(tmp_path):
    """Of the default variants, small in every respect."""
    modes = ("sync", "sync-packed", "async", "async-training", "steps")
    result = run(
        *(argument for mode in modes for argument in ("--modes", mode)),
        *("--n-envs", 2, "--episodes", 3, "--max-steps", 5, "--rounds", 2, "--seconds", 0.2),
        *("--json", tmp_path / "rates.json", "--png", tmp_path / "rates.png"),
    )
    assert result.exit_code == 0, result.output
    assert "async-training" in result.output
    png = (tmp_path / "rates.png").read_bytes()
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    assert png.endswith(b"IEND\xaeB`\x82")
    rows = json.loads((tmp_path / "rates.json").read_text())
    variants = ["ceiling", "sync", "sync-packed", "async", "async-training", "steps"]
    assert [(row["simulator"], row["variant"]) for row in rows] == [
        (simulator, variant) for simulator in ("compiled", "cyborg") for variant in variants
    ]
    assert {row["mode"] for row in rows} == set(variants) - {"sync-packed"}
    for row in rows:
        assert row.keys() >= {"cores", "python", "numpy", "torch"}
        assert row["csle_cyborg"] == "0.0.3"
        assert row["episodes_per_second"] > 0
        assert 0 < row["worker_utilisation"] <= 1
        assert row["n_workers"] * row["envs_per_worker"] >= row["n_envs"]
        assert row["env_steps_per_second"] == pytest.approx(5 * row["episodes_per_second"])
        assert len(row["episodes_per_second_by_round"]) == 2
        if row["variant"] == "ceiling":
            assert row["ratio_to_ceiling"] == row["worker_utilisation"] == 1
            assert row["n_workers"] == row["cores"]
        elif row["variant"] == "sync":
            assert (row["n_workers"], row["envs_per_worker"]) == (2, 1)


def test_rows_of_hand_computed_rates():
    variants = make_variants(
        {"cyborg": {"simulator": "cyborg", "max_steps": 5}},
        [4],
        ["async", "sync"],
        {"cyborg": 10},
    )
    rates = [
        [Rate(10.0, 50.0, 1.0), Rate(20.0, 100.0, 1.0), Rate(40.0, 200.0, 1.0)],
        [Rate(9.0, 45.0, 0.9), Rate(16.0, 80.0, 0.8), Rate(38.0, 190.0, 0.95)],
        [Rate(3.0, 15.0, 0.3), Rate(4.0, 20.0, 0.2), Rate(19.0, 95.0, 0.5)],
    ]
    _, asynchronous, synchronous = make_rows(variants, rates)
    # 9/10, 16/20, 38/40; the ratio of the medians, 16/20, is another number.
    assert asynchronous["ratio_to_ceiling"] == 0.9
    assert asynchronous["speedup_over_sync"] == 3.0
    assert asynchronous["episodes_per_second"] == 16.0
    assert asynchronous["worker_utilisation"] == 0.9
    assert synchronous["ratio_to_ceiling"] == 0.3
    assert synchronous["speedup_over_sync"] == 1.0
    # Another simulator's ceiling and barrier are others.
    faster = make_variants({"compiled": {"simulator": "compiled"}}, [4], ["sync"], {"compiled": 10})
    of_faster = [[Rate(each, 5 * each, 1.0) for each in some] for some in ([80.0] * 3, [20.0] * 3)]
    both = make_rows([*variants, *faster], [*rates, *of_faster])
    assert [row["ratio_to_ceiling"] for row in both] == [1, 0.9, 0.3, 1, 0.25]
    assert [row["speedup_over_sync"] for row in both] == [None, 3.0, 1.0, None, 1.0]
    without = make_rows(variants[:2], rates[:2])
    assert [row["speedup_over_sync"] for row in without] == [None, None]


def test_variants_have_whole_waves_of_episodes_and_their_own_layouts(cores):
    cores(4)
    names = ["sync", "sync-packed", "async", "async-training"]
    variants = make_variants(
        {"cyborg": {"simulator": "cyborg"}}, [8], names, {"cyborg": 20}, seed=3
    )
    layouts = {
        variant.name: (variant.config.n_workers, variant.config.envs_per_worker)
        for variant in variants
    }
    assert layouts == {
        "ceiling": (4, 1),
        "sync": (8, 1),
        "sync-packed": (4, 2),
        "async": (4, 2),
        "async-training": (4, 2),
    }
    assert all(variant.config.total_episodes == 24 for variant in variants[1:])
    assert all(variant.config.env_args["simulator"] == "cyborg" for variant in variants)
    assert all(variant.config.seed == 3 for variant in variants)


def test_the_ceiling_has_all_envs_where_one_call_steps_several(cores):
    cores(4)
    simulators = {"compiled": {"simulator": "compiled"}}
    ceiling, sync = make_variants(simulators, [2, 20], ["sync"], {"compiled": 20})[::2]
    assert (ceiling.config.n_workers, ceiling.config.envs_per_worker) == (4, 5)
    # Episodes of other lengths would be cut off when the time is up.
    unequal, _ = make_variants({"cart": {}}, [20], ["sync"], {"cart": 20}, env="CartPole-v1")
    assert (unequal.config.n_workers, unequal.config.envs_per_worker) == (4, 1)
    rows = make_rows([ceiling, sync], [[Rate(9.0, 45.0, 1.0)], [Rate(3.0, 15.0, 0.3)]])
    assert [row["speedup_over_sync"] for row in rows] == [None, 1.0]


def test_steps_are_played_as_the_ceiling_is_with_each_number_of_envs(cores):
    cores(2)
    ways = {"cyborg": {"simulator": "cyborg"}, "compiled": {"simulator": "compiled"}}
    variants = make_variants(ways, [10, 100], ["steps"], {"cyborg": 10, "compiled": 100})
    assert [(v.name, v.simulator, v.config.n_envs, v.config.n_workers) for v in variants] == [
        ("ceiling", "cyborg", 2, 2),
        ("steps", "cyborg", 2, 2),
        ("ceiling", "compiled", 100, 2),
        ("steps", "compiled", 10, 2),
        ("steps", "compiled", 100, 2),
    ]


def test_the_speed_of_steps_counts_the_calls_of_envs_alone(monkeypatch):
    env_args = {"simulator": "compiled", "max_steps": 5}
    config = TrainConfig(
        "async", 10, env="workflow_rl/CAGE2-v0", env_args=env_args, total_episodes=10
    )
    # Whatever reads the clock finds it a second later: a call of an env takes a second.
    monkeypatch.setattr(time, "perf_counter", itertools.count().__next__)
    assert benchmark_module.steps_per_second(config, 0.1) == 10 * 5 / (1 + 5)


def test_a_turn_is_as_long_as_asked_for(monkeypatch):
    def at_30_a_second(variant, ceiling_seconds, stack):
        assert (variant.name, ceiling_seconds) == ("ceiling", 2.5)
        return lambda number: Rate(30.0, 3000.0, 1.0)

    monkeypatch.setattr(benchmark_module, "_prepare", at_30_a_second)
    assert benchmark_module.episodes_in(2.5, "cyborg", 8) == 75


def test_variants_take_turns_with_the_ceiling_and_change_direction_every_round(monkeypatch):
    order = []

    def prepare(variant, ceiling_seconds, stack):
        def turn(number):
            order.append((number, variant.name))
            # Free-running workers become faster with every turn.
            return Rate(len(order) if variant.name == "ceiling" else 7.0, 1.0, 1.0)

        return turn

    monkeypatch.setattr(benchmark_module, "_prepare", prepare)
    variants = make_variants(
        {"cyborg": {"simulator": "cyborg"}}, [4], ["sync", "async"], {"cyborg": 10}
    )
    ceiling, sync, asynchronous = benchmark_module.measure(variants, 2, 1.0)
    assert order == [
        *((0, name) for name in ("ceiling", "sync", "ceiling", "async")),
        *((1, name) for name in ("ceiling", "async", "ceiling", "sync")),
    ]
    # Its turns were the 1st and 3rd, then the 5th and 7th.
    assert [rate.episodes_per_second for rate in ceiling] == [2.0, 6.0]
    assert [rate.episodes_per_second for rate in sync + asynchronous] == [7.0] * 4


@pytest.mark.parametrize("markdown", [False, True])
def test_a_table_has_all_cells_and_a_line_between_groups(markdown: bool) -> None:
    rows = [["a", 1], ["bb", 22], ["c", 3]]
    shown = str(text_table(["name", "n"], rows, groups="xxy", markdown=markdown)).splitlines()
    bar = "|" if markdown else "│"
    cells = [[cell.strip() for cell in line.split(bar)[1:-1]] for line in shown if bar in line]
    assert [["name", "n"], *([one, str(n)] for one, n in rows)] == [
        line for line in cells if not set(line[0]) & set(":-")
    ]
    if not markdown:
        assert [line[0] for line in shown].count("├") == 2  # Below the headings, and above "c".
