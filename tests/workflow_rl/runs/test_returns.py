"""Returns in words."""

from __future__ import annotations

import math

import pytest

from workflow_rl.runs.returns import on_one_axis, verdict, warn_of_short_runs, with_returns


def rows(*means: float) -> list[dict[str, float]]:
    return [{"episodes": 10.0 * n, "return_mean": mean} for n, mean in enumerate(means, 1)]


def test_runs_without_a_return_are_left_out_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    runs = {"good": rows(1.0, 2.0), "early": [], "none ended": rows(math.nan)}
    assert list(with_returns(runs)) == ["good"]
    assert [record.args for record in caplog.records] == [("early",), ("none ended",)]
    assert list(with_returns({"early": []})) == ["early"]
    x, returns = on_one_axis(list(runs.values()), "episodes", 300)
    assert (x[0], x[-1], len(returns)) == (10, 20, 1)


def test_a_run_that_cuts_the_curve_of_its_group_is_named(caplog: pytest.LogCaptureFixture) -> None:
    runs = {"long": rows(*[0.0] * 20), "short": rows(0.0, 0.0), "nearly": rows(*[0.0] * 19)}
    warn_of_short_runs(runs, [["long", "nearly"], ["short"]])
    assert not caplog.records
    warn_of_short_runs(runs, [["long", "short", "nearly"]])
    assert "where short does: after 20 episodes, of 200" in caplog.text


def test_a_verdict_names_the_agents_on_both_sides() -> None:
    known = {"champion": -12.4, "random": -725.4, "react": -517.5}
    assert verdict(-18.7, known) == "better than react (-517.5), not as good as champion (-12.4)"
    assert verdict(-800, known) == "worse than every known agent; the weakest is random (-725.4)"
    assert verdict(-10, known) == "better than every known agent; the best is champion (-12.4)"
    assert verdict(-10, {}) is None


def test_an_agent_within_the_margin_is_about_as_good() -> None:
    known = {"react": -517.5, "champion": -12.4}
    words = "about as good as react (-517.5), not as good as champion (-12.4)"
    assert verdict(-516.4, known, 30.0) == words
    assert verdict(-530.0, known, 30.0) == words
    assert verdict(-12.0, known, 1.0) == "about as good as champion (-12.4)"
    # Several within the margin: none of them is called better.
    assert verdict(0.0, {"sleep": 0.0, "react": 0.0}, 0.0) == "about as good as sleep (0.0)"
    assert verdict(-1.0, {"a": -1.5, "b": -0.6, "c": 0.0}, 1.1) == "about as good as b (-0.6)"
