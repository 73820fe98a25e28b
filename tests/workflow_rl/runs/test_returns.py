"""Returns in words."""

from __future__ import annotations

from workflow_rl.runs.returns import verdict


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
