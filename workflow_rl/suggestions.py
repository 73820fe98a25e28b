"""Suggest what a user may have meant who typed an unknown option or word."""

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
"""Other packages' names of options, with our names."""


def _alike(word: str, words: list[str]) -> list[str]:
    from difflib import get_close_matches  # Only errors need this module.

    return get_close_matches(word, words)


def option_meant(typed: str, options: Iterable[str]) -> list[str]:
    """Return the options that an unknown one may stand for, the likeliest first."""
    options = list(options)
    spelled = "--" + typed.lstrip("-").lower().replace("_", "-")
    if spelled in options:
        return [spelled]
    if (known := ELSEWHERE.get(spelled)) in options:
        return [str(known)]
    return _alike(spelled, [option for option in options if option != "--help"])


def word_meant(typed: str, words: Iterable[str]) -> list[str]:
    """Return the words that contain what was typed, or else those that look or begin like it.
    Punctuation and case make no difference."""
    words = list(words)
    bare = _bare(typed)
    within = [word for word in words if bare and (bare in _bare(word) or _bare(word) in bare)]
    alike = within or _alike(typed, words)
    if alike or len(typed) < 4:
        return alike
    # The user may have typed only the beginning of a long word, with a typing error.
    return [word for word in words if _alike(typed, [word[: len(typed)]])]


def _bare(word: str) -> str:
    return "".join(filter(str.isalnum, word.lower()))


def question(meant: list[str]) -> str:
    """Return a sentence to append to an error message, or "" if nothing was meant."""
    return f" Did you mean {' or '.join(meant)}?" if meant else ""
