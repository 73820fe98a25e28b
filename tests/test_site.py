"""The built site's search finds what a stranger looks for. `make docs` builds the site."""

import json
import re
from pathlib import Path

import pytest

INDEX = Path(__file__).resolve().parents[1] / "site" / "search" / "search_index.json"
WANTED = {
    "GPU": "how-to/platforms/",
    "macOS": "how-to/platforms/",
    "docker": "how-to/platforms/",
    "LSTM": "how-to/own-network/",
    "wandb": "how-to/logging/",
    "pandas": "how-to/pandas/",
    "troubleshooting": "how-to/troubleshooting/",
    **dict.fromkeys(
        ("EvalCallback", "VecNormalize", "SubprocVecEnv", "policy_kwargs", "zip", "RolloutWorker"),
        "how-to/other-libraries/",
    ),
    **dict.fromkeys(
        ("RNN", "custom", "extend", "MARL", "SLURM", "recurrent", "warm"), "reference/glossary/"
    ),
}
"""Words, and a page that has to be among those found."""


def test_the_search_finds():
    if not INDEX.exists():
        pytest.skip("no site is built here")
    index = json.loads(INDEX.read_text())
    found: dict[str, set[str]] = {}
    for section in index["docs"]:
        text = re.sub(r"<[^>]*>", " ", f"{section['title']} {section['text']}").lower()
        # Lunr's way: it splits by this expression, and trims each word.
        for word in re.split(index["config"]["separator"], text):
            page = section["location"].partition("#")[0]
            found.setdefault(re.sub(r"^\W+|\W+$", "", word), set()).add(page)
    for word, page in WANTED.items():
        assert page in found.get(word.lower(), ()), word
