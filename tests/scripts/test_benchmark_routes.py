from __future__ import annotations

import os

import pytest
from click.testing import CliRunner

from scripts import benchmark_routes
from scripts.benchmark_routes import ROUTES, main


def test_routes_and_copies_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_setaffinity", lambda *_: None)
    few = {name: make for name, make in ROUTES.items() if "CybORG" not in name}
    few = {name: make for name, make in few.items() if "Subproc" not in name}
    monkeypatch.setattr(benchmark_routes, "ROUTES", few)
    arguments = ["--rounds", "1", "--seconds", "0.01"]
    result = CliRunner().invoke(main, arguments, catch_exceptions=False)
    for name in (*few, "`save_state` and `load_state`", "`fork(1000)`"):
        assert f"| {name} " in result.output
