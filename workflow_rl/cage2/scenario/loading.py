"""Load the scenario or the family of scenarios that a user names."""

import os
from pathlib import Path
from typing import Any

from workflow_rl.cage2.scenario.family import FAMILY, ScenarioFamily
from workflow_rl.cage2.scenario.scenario import NAMED, Scenario
from workflow_rl.cage2.scenario2 import ScenarioError


def played_of(value: Any) -> Scenario | ScenarioFamily:
    """Return the scenario or family that a value names. Raises ScenarioError. value: a Scenario, a
    ScenarioFamily, a name in NAMED, the path of a file, or a config's text: see `Scenario.text`."""
    if isinstance(value, Scenario | ScenarioFamily):
        return value
    if isinstance(value, str) and ("\n" in value or value in NAMED):
        return played_in(value)
    if isinstance(value, str | os.PathLike):
        # Imported here, because workers get texts and do not need YAML.
        from workflow_rl.cage2.scenario.files import read

        return read(Path(value))
    raise ScenarioError(
        f"{value!r:.100} is no scenario: give {' or '.join(NAMED)}, a file or a Scenario"
    )


def played_in(text: str, is_checked: bool = False) -> Scenario | ScenarioFamily:
    """Return the scenario or the family of a config's text, see `Scenario.text`. No file is read.

    is_checked: whether the text was checked before. Workers get such texts. Raises ScenarioError.
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
    """Return the text that a config keeps for an argument `scenario`. Raises ScenarioError."""
    return played_of(value).text
