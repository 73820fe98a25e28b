"""The scenario or the family of scenarios that a user names."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from workflow_rl.cage2.scenario.family import FAMILY, ScenarioFamily
from workflow_rl.cage2.scenario.scenario import NAMED, Scenario
from workflow_rl.cage2.scenario2 import ScenarioError


def played_of(value: Any) -> Scenario | ScenarioFamily:
    """Return the scenario or family that `value` names. It is a Scenario, a ScenarioFamily, one of
    NAMED, the path of a file, or a text. Raises ScenarioError."""
    if isinstance(value, Scenario | ScenarioFamily):
        return value
    if isinstance(value, str) and ("\n" in value or value in NAMED):
        return played_in(value)
    if isinstance(value, str | os.PathLike):
        # Workers get texts, and import no YAML.
        from workflow_rl.cage2.scenario.files import read

        return read(Path(value))
    raise ScenarioError(
        f"{value!r:.100} is no scenario: give {' or '.join(NAMED)}, a file or a Scenario"
    )


def played_in(text: str, is_checked: bool = False) -> Scenario | ScenarioFamily:
    """Return the scenario or the family of a text, which is never a path.

    is_checked: whether the text was checked before, as workers get it. Raises ScenarioError.
    """
    is_family = text.partition("\n")[2].startswith(FAMILY)
    kind = ScenarioFamily if is_family else Scenario
    return kind.from_checked(text) if is_checked else kind.from_text(text)


def scenario_of(value: Any) -> Scenario:
    """Return the scenario that `value` names: see `played_of`. Raises ScenarioError."""
    played = played_of(value)
    if not isinstance(played, Scenario):
        raise ScenarioError(f"{played} is a family of scenarios: one env plays one of them")
    return played


def scenario_text(value: Any) -> str:
    """Return the text that configs keep of an argument `scenario`."""
    return played_of(value).text
