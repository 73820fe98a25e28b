"""What training costs in one setting against another, small in every respect."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from scripts import benchmark_training
from scripts.benchmark_training import MEASURED, POOLS, main

pytestmark = pytest.mark.system

VARIANTS = {
    "overlap": ["in turns", "overlapping"] * 2,
    "stragglers": ["ten workers alike", "one slowed 10 times"] * 2,
    "policies": ["policies: 1", "policies: 4"] * 2,
    "learner": ["one worker on CybORG", "64-64, --minibatches-of steps"],
    "cluster": [*POOLS, *POOLS, *POOLS, *POOLS, "workers: 1"],
    "sizes": ["workflow_rl/CAGE2-v0", "CartPole-v1"],
}
LONG = ("overlap", "stragglers", "cluster")


@pytest.mark.parametrize(
    "what", [pytest.param(what, marks=[pytest.mark.slow] * (what in LONG)) for what in MEASURED]
)
def test_every_variant_is_measured(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark_training, "POOLS", dict.fromkeys(POOLS, "none"))
    arguments = [what, "--rounds", "1", "--scale", "0.02"]
    result = CliRunner().invoke(main, arguments, catch_exceptions=False)
    lines = [line.split("│")[1:-1] for line in result.output.splitlines() if "│" in line]
    rows = [line for line in lines if line[0].strip()]
    assert [row[0].strip() for row in rows][: len(VARIANTS[what])] == VARIANTS[what]
    assert all(float(row[1].replace(",", "")) > 0 for row in rows)
