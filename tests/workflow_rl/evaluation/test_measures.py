import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workflow_rl.evaluation.intervals import mean_of
from workflow_rl.evaluation.measures import (
    Measure,
    Ratio,
    Times,
    course_of,
    difference,
    figure_of,
    measure_lines,
    plain_readings,
    read_measures,
    readings_in,
    share,
    time_above_zero,
    time_until,
    total,
)


def costs(**values):
    return {name: np.array(of, np.float64) for name, of in values.items()}


@pytest.mark.parametrize(
    ("read", "of_steps", "expected"),
    [
        (total("hits"), {"hits": [0, 2, 1]}, Ratio(3)),
        (total("hits", "misses"), {"hits": [0, 2], "misses": [1, 1]}, Ratio(4)),
        (share(["bad"], ["bad", "good"]), {"bad": [1, 0], "good": [1, 2]}, Ratio(1, 4)),
        (share(["bad"], ["all"]), {"bad": [0, 0], "all": [0, 0]}, Ratio(0, 0)),
        # Above 0 at the ends of steps 1 and 2, and gone at that of step 3: two steps.
        (time_above_zero("on "), {"on a": [0, 1, 2, 0, 0]}, Times((2,))),
        (time_above_zero("on "), {"on a": [1, 0, 1, 0], "off": [1, 1, 1, 1]}, Times((1, 1))),
        # Nobody knows how much longer than a step the last one lasts.
        (time_above_zero("on "), {"on a": [0, 0, 1, 1], "on b": [1, 0, 0, 0]}, Times((1,), (1,))),
        (time_above_zero("on "), {"on a": [0, 0, 0, 1]}, Times((), (0,))),
        (time_above_zero("on "), {"on a": [0, 0, 0]}, Times()),
        (time_until("there", "acts"), {"there": [0, 1, 1, 1], "acts": [1, 0, 0, 1]}, Times((2,))),
        (time_until("there", "acts"), {"there": [0, 1], "acts": [0, 1]}, Times((0,))),
        (time_until("there", "acts"), {"there": [0, 1, 1], "acts": [0, 0, 0]}, Times((), (1,))),
        (time_until("there", "acts"), {"there": [0, 0], "acts": [0, 1]}, Times()),
    ],
)
def test_what_is_read_of_an_episode(read, of_steps, expected):
    assert read(costs(**of_steps)) == expected


def test_a_total_has_the_interval_of_a_mean_and_the_worst_twentieth():
    values = np.arange(40.0)
    figure = figure_of([[Ratio(value) for value in values]])
    assert figure.mean == pytest.approx(mean_of([values]))
    assert figure.worst == 38.5
    assert figure_of([[Ratio(value) for value in values]], more_is_better=True).worst == 0.5


def test_a_share_is_of_all_episodes_together():
    """1 of 2 and 9 of 10: 10 of 12, not the mean of the shares. An episode without any counts."""
    figure = figure_of([[Ratio(1, 2), Ratio(9, 10), Ratio(0, 0)]])
    assert figure.mean.mean == pytest.approx(10 / 12)
    assert figure.worst == 0.9
    assert math.isnan(figure_of([[Ratio(0, 0), Ratio(0, 0)]]).mean.mean)


def test_times_that_are_cut_off_are_estimated_by_kaplan_and_meier():
    """Of 4 times, 1 ends after one step: 3/4 last longer. Of the 2 that are then still seen, 1 ends
    after three steps: 3/8 last longer than that."""
    read = [[Times((1,), (2,)), Times((3,)), Times((), (4,))]]
    figure = figure_of(read)
    survival = [1, 3 / 4, 3 / 4, 3 / 8]
    assert figure.mean.mean == pytest.approx(sum(survival))
    assert figure.median == 3
    never = figure_of([[Times((), (9,)), Times((1,), (9, 9))]])
    assert never.median == math.inf
    assert math.isnan(figure_of([[Times(), Times()]]).mean.mean)


@given(st.lists(st.lists(st.integers(0, 20), max_size=5), min_size=2, max_size=9))
def test_without_a_cut_the_mean_time_is_the_mean(times):
    every = [time for of_episode in times for time in of_episode]
    mean = figure_of([[Times(tuple(of_episode)) for of_episode in times]]).mean.mean
    assert mean == pytest.approx(np.mean(every)) if every else math.isnan(mean)


def test_tasks_are_drawn_for_themselves():
    """Between tasks there is no chance: equal episodes within each have no interval."""
    alike = [[Ratio(1.0)] * 5, [Ratio(9.0)] * 5]
    assert figure_of(alike).mean == pytest.approx((5, 0))


def test_a_difference_is_one_of_the_same_episodes():
    """Episodes that are hard for both agents tell nothing of the difference."""
    hard = np.random.default_rng(0).normal(0, 100, 50)
    ours, theirs = [[Ratio(x + 2) for x in hard]], [[Ratio(x) for x in hard]]
    assert difference(ours, theirs) == pytest.approx((2, 0))
    apart = np.random.default_rng(1).normal(2, 1, 50)
    ours = [[Ratio(x + y) for x, y in zip(hard, apart, strict=True)]]
    assert difference(ours, theirs) == pytest.approx(mean_of([apart]))


def test_mean_times_of_a_difference_go_up_to_the_same_time():
    """The second agent has a time that is cut off later, and is else alike."""
    ours = [[Times((0,)), *[Times((), (5,))] * 9]]
    theirs = [[Times((0,)), *[Times((), (5,))] * 8, Times((), (50,))]]
    assert difference(ours, theirs).mean == 0


def test_intervals_of_shares_and_of_cut_times_cover():
    """400 samples of 60 episodes each: the true value is within 93% to 97% of the intervals, of
    which chance takes or gives 2%."""
    rng = np.random.default_rng(0)
    n, covered = 400, np.zeros(2)
    for _ in range(n):
        sizes = rng.poisson(4, 60)
        shares = [Ratio(float(rng.binomial(size, 0.3)), float(size)) for size in sizes]
        times = []
        for _ in range(60):
            lasting, seen = rng.geometric(0.1, 3), rng.integers(0, 40, 3)
            over, cut = lasting[lasting <= seen], seen[lasting > seen]
            times.append(Times(tuple(over.tolist()), tuple(cut.tolist())))
        longest = max(time for of in times for part in of for time in part)
        expected = 0.3, sum(0.9**k for k in range(longest))
        for number, (read, truth) in enumerate(zip((shares, times), expected, strict=True)):
            mean, half = figure_of([read]).mean
            covered[number] += abs(mean - truth) <= half
    assert (covered / n >= 0.91).all()
    assert (covered / n <= 0.99).all()


def test_a_file_keeps_what_was_read():
    shares = [Ratio(1.0), Ratio(2.0, 3.0), Ratio(0.1, 3.0), Ratio(1e30)]
    read = {"hits": shares, "time": [Times((1,), (2, 3)), Times()]}
    scores = json.loads(json.dumps({"measures": plain_readings({"task": read, "other": read})}))
    assert readings_in(scores) == {name: [values, values] for name, values in read.items()}
    assert readings_in({}) == {}
    odd = (
        [["1"]],
        ["1"],
        1,
        "ab",
        "1/a",
        "1|2|3",
        "a|",
        "|-1",
        "|20001",
        "1/0",
        "nan",
        "1e308",
        "",
    )
    for text in (*odd, "1 2|3", "|20000 " + "1| " * 2000):
        wrong = {"hits": text}
        with pytest.raises((AttributeError, LookupError, TypeError, ValueError)):
            readings_in({"measures": {"task": wrong}})


def test_a_course_is_the_mean_of_each_step_and_where_nine_of_ten_episodes_are():
    course = course_of([np.array([k, 2.0 * k]) for k in range(101)])
    assert course == {"mean": [50, 100], "low": [5, 10], "high": [95, 190]}


def test_a_table_has_a_row_for_each_measure():
    measures = [
        Measure("hits", "hits", "Hits of an episode.", total("hits")),
        Measure("time up", "steps", "Time that something is up.", time_above_zero("up")),
    ]
    trajectories = [SimpleNamespace(costs=np.array([[1.0, 1.0], [2.0, 0.0]]))] * 3
    read = read_measures(measures, ("hits", "up"), trajectories)
    table = measure_lines(measures, {name: [values] for name, values in read.items()})
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in table if "│" in line]
    assert cells == [
        ["", "mean", "95%", "worst 5%", "median", "unit"],
        ["hits", "3.00", "± 0.00", "3.00", "", "hits"],
        ["time up", "1.00", "± 0.00", "", "1.00", "steps"],
    ]
