"""The figures of several agents together: by hand, against other libraries' and in simulation."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from workflow_rl.evaluation import compare
from workflow_rl.evaluation.compare import Compared, compare_agents, comparison_table, plain_rows
from workflow_rl.evaluation.evaluate import ChallengeScore

N_TRIALS = 400


def test_figures_of_two_agents_in_one_task_by_hand():
    (row,) = compare_agents([{"": [1, 3]}, {"": [5, 7]}], [{"": [0, 1]}])
    assert row.mean.mean == row.iqm.value == 4
    assert row.difference.mean == 3.5
    # Agents: sd of (2, 6) / sqrt(2) = 2. Episodes: sd of (3 - 0, 5 - 1) / sqrt(2) = 0.5.
    t = stats.t.ppf(0.975, 1)
    assert row.difference.interval_95 == pytest.approx(t * math.hypot(2, 0.5))
    assert row.better is None


def test_the_interquartile_mean_leaves_the_outer_quarters_out():
    (row,) = compare_agents([{"": [score]} for score in (-1000, 1, 2, 3, 4, 5, 6, 9000)])
    assert row.iqm.value == np.mean([2, 3, 4, 5])
    assert row.iqm.low < row.iqm.value < row.iqm.high


def test_the_difference_of_two_agents_is_that_of_a_paired_test():
    rng = np.random.default_rng(0)
    ours, theirs = rng.normal(size=(2, 30))
    (row,) = compare_agents([{"": ours}], [{"": theirs}])
    low, high = stats.ttest_rel(ours, theirs).confidence_interval()
    assert row.difference.mean == pytest.approx((low + high) / 2)
    assert row.difference.interval_95 == pytest.approx((high - low) / 2)


def test_the_probability_of_improvement_counts_pairs_and_half_of_draws():
    ours, theirs = [1.0, 2.0, 3.0], [2.0, 0.0]
    (row,) = compare_agents([{"": [x]} for x in ours], [{"": [x]} for x in theirs])
    assert row.better.value == stats.mannwhitneyu(ours, theirs).statistic / 6


def test_several_tasks_have_a_row_of_their_sum():
    agents = [{"a": [1, 2], "z": [10, 20]}, {"a": [3, 4], "z": [30, 40]}]
    base = [{"a": [0, 9], "z": [0, 90]}, {"a": [0, 0], "z": [0, 0]}]
    *tasks, total = rows = compare_agents(agents, base)
    assert [row.task for row in rows] == ["a", "z", "sum"]
    lines = [line[0] for line in str(comparison_table(rows)).splitlines()]
    assert lines == [*"┌│├││├│└"], "a line above the sum"
    assert total.mean.mean == sum(row.mean.mean for row in tasks)
    assert total.difference.mean == pytest.approx(27.5 - 24.75)
    assert plain_rows([total])[0]["better"] == total.better.value


def test_the_row_of_the_sum_tells_of_sums_alone():
    """All sums of ours are higher, though in one task all agents are equal."""
    agents = [{"a": [5.0 + n], "b": [1.0]} for n in range(5)]
    base = [{"a": [float(n)], "b": [1.0]} for n in range(5)]
    easy, equal, total = (row.better for row in compare_agents(agents, base))
    assert (easy.value, equal.value) == (1, 0.5)
    assert total == (1, 1, 1)


@given(hnp.arrays(np.float64, (3, 4), elements=st.floats(-100, 100)))
def test_one_agent_has_the_interval_that_its_evaluation_tells(returns):
    tasks = dict(zip("abc", returns.tolist(), strict=True))
    *_, total = compare_agents([tasks], [tasks])
    told = ChallengeScore("", tasks, scores=None)
    expected = pytest.approx((told.mean, told.interval_95), abs=1e-9)
    assert total.mean == expected
    assert total.baseline == expected


def test_one_agent_has_no_interval_over_agents():
    (row,) = compare_agents([{"": [1.0, 2.0]}])
    assert math.isnan(row.iqm.low)
    assert plain_rows([row])[0]["iqm_low"] is None
    assert "nan" not in str(comparison_table([row]))


def test_other_episodes_are_refused():
    with pytest.raises(ValueError, match=r"2 of a, and 1 of a: .* with the same --episodes"):
        compare_agents([{"a": [1, 2]}], [{"a": [1]}])
    for other in ("b", "a", "c"):
        with pytest.raises(ValueError, match=f"1 of b, and 1 of {other}: .* the same environment"):
            compare_agents([{"a": [1], "b": [1]}, {other: [1]}])


def _holds(row: Compared, figure: str, truth: float) -> bool:
    found = getattr(row, figure)
    if isinstance(found, compare.Bounded):
        return bool(found.low <= truth <= found.high)
    return bool(abs(found.mean - truth) <= found.interval_95)


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["normal", "skewed"])
@pytest.mark.parametrize("n", [5, 10, 100])
def test_how_many_intervals_hold_the_true_value(shape, n, monkeypatch):
    """The shares that docs/explanations/records.md tells."""
    monkeypatch.setattr(compare, "N_RESAMPLES", 1000)
    rng = np.random.default_rng(n)
    draw = rng.standard_normal if shape == "normal" else rng.standard_exponential
    middle = stats.trim_mean(draw(1_000_000), 0.25)
    truths = {"iqm": middle, "difference": 0.0, "better": 0.5}

    def agents() -> list[dict[str, list[float]]]:
        return [{"": list(effect + rng.normal(size=20))} for effect in draw(n)]

    rows = [compare_agents(agents(), agents())[0] for _ in range(N_TRIALS)]
    shares = {name: np.mean([_holds(row, name, truths[name]) for row in rows]) for name in truths}
    print(shape, n, {name: round(float(share), 3) for name, share in shares.items()})
    assert shares["difference"] >= 0.93
    assert min(shares["iqm"], shares["better"]) >= (0.8 if n == 5 else 0.85)
