import itertools

import numpy as np

from scripts.measure_simulators import (
    SpeedVariant,
    bytes_per_env,
    measured_speeds,
    network_actions,
    speed_rows,
    speed_variants,
    untrained_parameters,
)
from scripts.simulator_charts import speed_figure, speed_table
from workflow_rl.agents.policies.numpy_policy import NumpyPolicy
from workflow_rl.cage2.compiled.simulator import BatchedSimulator
from workflow_rl.cage2.compiled.state import STATE

AGENT = "B_lineAgent"


def test_no_worker_is_without_an_env_and_no_variant_is_there_twice():
    variants = speed_variants(AGENT, [1, 10, 10], ["random"], [1, 4])
    assert [variant[0:1] + variant[3:] for variant in variants] == [
        ("stock", 1, 1),
        ("cyborg", 1, 1),
        ("compiled", 1, 1),
        ("compiled", 10, 1),
        ("compiled", 10, 4),
    ]
    assert variants[-1].shares == [2, 2, 3, 3]


def test_the_network_acts_on_what_is_seen_at_that_step():
    simulator, policy = BatchedSimulator(4), NumpyPolicy(untrained_parameters(0))
    simulator.reset(np.arange(4), 0)
    random = np.random.default_rng(5)
    for actions in itertools.islice(network_actions(simulator, policy, seed=5), 20):
        expected, _ = policy.act_batch(simulator.obs.copy(), [random] * 4)
        assert actions.tolist() == expected.tolist()
        simulator.step(actions)


def test_the_network_prefers_no_action():
    logits = NumpyPolicy(untrained_parameters(0)).outputs(np.ones((1, 52)))
    assert 0 < logits.std() < 0.05


def test_bytes_of_an_env_are_all_that_is_kept_for_it():
    assert bytes_per_env(BatchedSimulator(3)) == STATE.itemsize + 52 + 8 + 5 + 1


def test_rows_have_medians_and_ratios_within_each_round():
    variants = [
        SpeedVariant("stock", AGENT),
        SpeedVariant("cyborg", AGENT),
        SpeedVariant("compiled", AGENT, "random", 10, 1),
        SpeedVariant("compiled", AGENT, "random", 100, 1),
        SpeedVariant("compiled", AGENT, "random", 100, 2),
    ]
    rates = [[1, 2, 4], [10, 20, 80], [100, 300, 200], [400, 600, 500], [50, 50, 50]]
    rows = speed_rows(variants, rates)
    assert [row["steps_per_second"] for row in rows] == [2, 20, 200, 500, 50]
    assert [row["ratio_to_stock"] for row in rows] == [1, 10, 100, 300, 25]
    # The last has two cores: it is its own best.
    assert [row["ratio_to_best"] for row in rows] == [1, 1, 0.4, 1, 1]
    assert [row["cores"] for row in rows] == [1, 1, 1, 1, 2]
    assert rows[0]["bytes_per_env"] is None


def test_the_table_and_the_chart_show_every_row():
    variants = speed_variants(AGENT, [1, 10, 100], ["random", "network"], [1, 2])
    rows = speed_rows(variants, [[float(10 * 2**i)] for i in range(len(variants))])
    shown = speed_table(rows).get_string()
    assert all(f" {row['steps_per_second']:,.0f} " in shown for row in rows)
    (axes,) = speed_figure(rows).axes
    lines = {line.get_label(): line for line in axes.lines}
    for policy, cores, sizes in [
        ("random", "1 core", [1, 10, 100]),
        ("network", "1 core", [1, 10, 100]),
        ("random", "2 cores", [10, 100]),
        ("network", "2 cores", [10, 100]),
    ]:
        line = lines[f"compiled, {policy} policy, {cores}"]
        assert list(line.get_xdata()) == sizes
        assert list(line.get_ydata()) == [
            row["steps_per_second"]
            for row in rows
            if (row["simulator"], row["policy"], row["cores"])
            == ("compiled", policy, int(cores[0]))
        ]
    levels = [line.get_ydata()[0] for line in axes.lines if len(set(line.get_ydata())) == 1]
    assert levels == [row["steps_per_second"] for row in rows[:2]]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")


def test_measuring_gives_a_rate_a_round_and_two_workers_add_up():
    variants = [SpeedVariant("compiled", AGENT, "random", 40, n_workers) for n_workers in (1, 2)]
    one, two = measured_speeds(variants, rounds=2, seconds=0.05, seed=0)
    assert len(one) == len(two) == 2
    assert min(one + two) > 0
