import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli import said_by
from workflow_rl.runs.presets import PRESETS

PAGE = Path(__file__).parents[1] / "docs" / "explanations" / "modes.md"
DOCUMENTED = dict(re.findall(r"- `([\w-]+)`: `(--[^`]*)`\.", " ".join(PAGE.read_text().split())))


def as_options(settings: dict[str, Any]) -> str:
    words = []
    for field, value in {**settings, **settings.get("settings", {})}.items():
        if field == "settings":
            continue
        words.append("--" + field.replace("_", "-"))
        if value is not True:
            words.append(",".join(map(str, value)) if isinstance(value, tuple) else str(value))
    return " ".join(words)


def test_the_presets_are_documented_with_their_settings():
    assert {name: as_options(settings) for name, settings in PRESETS.items()} == DOCUMENTED


def config(options: str) -> list[str]:
    shown = said_by("train-async", options, "--n-envs 24 --dry-run")
    values = [line.rpartition("  # ")[0] for line in shown.splitlines()]
    return [value for value in values if not value.startswith("preset:")]


@pytest.mark.parametrize("name", PRESETS)
def test_the_documented_options_give_the_preset(name, monkeypatch):
    monkeypatch.setattr("workflow_rl.runs.execute.warn_if_results_vary", lambda config: None)
    assert config(DOCUMENTED[name]) == config(f"--preset {name}")
