"""Scenarios of what CybORG reads: see `Scenario.description`."""

import json
from collections.abc import Mapping
from typing import Any

from workflow_rl.cage2.scenario.scenario import OF_IMAGE, Scenario
from workflow_rl.cage2.scenario2 import IMAGES


def described(description: Mapping[str, Any], name: str = "scenario") -> Scenario:
    """Return the scenario of a description, with each image once. Raises ScenarioError."""
    data = json.loads(json.dumps(description))
    known = {json.dumps(image, sort_keys=True): name for name, image in IMAGES.items()}
    data["Images"] = {}
    for host, row in data["Hosts"].items():
        image = {key: row.pop(key) for key in OF_IMAGE if key in row}
        row["image"] = known.setdefault(json.dumps(image, sort_keys=True), host)
        data["Images"][row["image"]] = image
    return Scenario.from_text(f"{name} 0\n{json.dumps(data)}")
