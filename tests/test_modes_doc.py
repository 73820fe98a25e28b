"""What docs/explanations/modes.md says of the presets is what they are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from workflow_rl.async_train_workflow_rl import train_async
from workflow_rl.runs.presets import PRESETS

PAGE = Path(__file__).parents[1] / "docs" / "explanations" / "modes.md"
MODES = " ".join(PAGE.read_text().split())


def as_options(settings: dict[str, Any]) -> str:
    words = []
    for field, value in {**settings, **settings.get("settings", {})}.items():
        if field == "settings":
            continue
        words.append("--" + field.replace("_", "-"))
        if value is not True:
            words.append(",".join(map(str, value)) if isinstance(value, tuple) else str(value))
    return " ".join(words)


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_documented_with_its_settings(name):
    assert f"- `{name}`: `{as_options(PRESETS[name])}`." in MODES


def test_no_other_preset_is_documented():
    documented = re.findall(r"- `([\w-]+)`: `--", MODES)
    assert sorted(documented) == sorted(PRESETS)


@pytest.mark.parametrize("name", PRESETS)
def test_the_documented_options_give_the_preset(name, monkeypatch):
    monkeypatch.setattr("workflow_rl.runs.execute.warn_if_results_vary", lambda config: None)

    def config(*arguments: str) -> list[str]:
        result = CliRunner().invoke(train_async, [*arguments, "--n-envs", "24", "--dry-run"])
        assert result.exit_code == 0, result.output
        values = [line.rpartition("  # ")[0] for line in result.output.splitlines()]
        return [value for value in values if not value.startswith("preset:")]

    documented = re.search(rf"- `{name}`: `(--[^`]*)`", MODES)
    assert documented is not None
    assert config(*documented[1].split()) == config("--preset", name)
