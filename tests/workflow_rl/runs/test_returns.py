"""Returns in words."""

from __future__ import annotations

from workflow_rl.runs.returns import verdict


def test_a_verdict_names_the_agents_on_both_sides() -> None:
    known = {"champion": -12.4, "random": -725.4, "react": -517.5}
    assert verdict(-18.7, known) == "better than react (-517.5), not as good as champion (-12.4)"
    assert verdict(-800, known) == "worse than every known agent; the weakest is random (-725.4)"
    assert verdict(-10, known) == "better than every known agent; the best is champion (-12.4)"
    assert verdict(-10, {}) is None
