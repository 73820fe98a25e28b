"""The measurement of overlap and stragglers, small in every respect."""

from __future__ import annotations

import re

from click.testing import CliRunner

from scripts import benchmark_overlap


def test_every_comparison_is_measured():
    options = ["--rounds", "1", "--n-envs", "2", "--episodes", "24", "--max-steps", "5"]
    for _ in range(4):
        result = CliRunner().invoke(benchmark_overlap.main, options)
        assert result.exit_code == 0, result.output
        assert len(re.findall(r"-> \d+\.\d\dx", result.output)) == 2
        lost = re.search(r"the barrier loses (-?\d+)%, complete episodes (-?\d+)%", result.output)
        assert lost is not None
        if int(lost[1]) > 40:  # A step of 20 ms instead of 2: most of what a barrier could do.
            return
    raise AssertionError(f"four times, other work on the machine or not: {result.output}")
