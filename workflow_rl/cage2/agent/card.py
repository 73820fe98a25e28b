"""The card of a champion: how it was made, and what it scores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from workflow_rl.output_files import read_text

CARD_FILE = "card.json"
MOST_OF_A_CARD = 2**20
"""Bytes. A larger file is no card."""
CELL = ("max_steps", "red_agent", "episodes", "mean", "std", "interval_95")


def evaluation_of(scores: dict[str, Any]) -> dict[str, Any]:
    """Return scores as evaluation.json has them, without the return of every episode."""
    cells = [{name: cell.get(name) for name in CELL} for cell in scores["cells"]]
    return {**scores, "cells": cells}


def read_card(path: Path) -> dict[str, Any]:
    """Read a card. `config` is as in config.json, and `evaluation` as in evaluation.json.

    Raises OSError and ValueError.
    """
    card: dict[str, Any] = json.loads(read_text(path, MOST_OF_A_CARD))
    return card
