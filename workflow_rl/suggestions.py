"""What somebody may have meant who typed what there is not."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

ELSEWHERE = {
    "--lr": "--learning-rate",
    "--alpha": "--learning-rate",
    "--gamma": "--discount",
    "--lambda": "--gae-lambda",
    "--lam": "--gae-lambda",
    "--clip": "--clip-range",
    "--clip-coef": "--clip-range",
    "--ent-coef": "--entropy-coef",
    "--vf-coef": "--value-coef",
    "--n-epochs": "--epochs",
    "--update-epochs": "--epochs",
    "--n-steps": "--num-steps-per-env",
    "--num-steps": "--num-steps-per-env",
    "--rollout": "--num-steps-per-env",
    "--num-envs": "--n-envs",
    "--num-workers": "--n-workers",
    "--workers": "--n-workers",
    "--num-policies": "--n-policies",
    "--total-timesteps": "--total-steps",
    "--timesteps": "--total-steps",
    "--steps": "--total-steps",
    "--episodes": "--total-episodes",
    "--env-id": "--env",
    "--red": "--red-agent",
    "--agent": "--red-agent",
    "--logdir": "--run-dir",
    "--log-dir": "--run-dir",
    "--output": "--run-dir",
    "--checkpoint": "--init-from",
    "--cuda": "--device",
}
"""Options by their names in other packages."""


def option_meant(typed: str, options: Iterable[str]) -> list[str]:
    """Those of a command that the one typed may stand for, the likeliest first."""
    options = list(options)
    spelled = "--" + typed.lstrip("-").lower().replace("_", "-")
    if spelled in options:
        return [spelled]
    if (known := ELSEWHERE.get(spelled)) in options:
        return [str(known)]
    return difflib.get_close_matches(spelled, [one for one in options if one != "--help"])


def word_meant(typed: str, words: Iterable[str]) -> list[str]:
    """Those that contain what was typed, but for its punctuation; else those that look like it,
    or begin so."""
    words = list(words)
    bare = _bare(typed)
    within = [word for word in words if bare and (bare in _bare(word) or _bare(word) in bare)]
    alike = within or difflib.get_close_matches(typed, words)
    if alike or len(typed) < 4:
        return alike
    # Of a long word perhaps only the beginning was typed, with a slip in it.
    return [word for word in words if difflib.get_close_matches(typed, [word[: len(typed)]])]


def _bare(word: str) -> str:
    return "".join(one for one in word.lower() if one.isalnum())


def question(meant: list[str]) -> str:
    """As a sentence to put behind an error; empty if there is nothing to ask."""
    if not meant:
        return ""
    return f" Did you mean {' or '.join(meant)}?"
