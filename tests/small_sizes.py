"""Commands of pages and examples with other sizes, so that each takes a moment."""

import re

SMALL = {
    "--total-episodes": lambda n: max(24, n // 400),
    "--total-steps": lambda n: min(n, 6_000),
    "--episodes": lambda n: 2,
    "--payoff-episodes": lambda n: 20,
    "--generations": lambda n: 1,
    "--seeds": lambda n: 1,
    "--minutes": lambda n: 0.2,
    "--n-workers": lambda n: 2,
}
"""What an option's number becomes."""
LACKING = {
    "evaluate": {"--episodes": "10"},
    "train-async": {"--total-episodes": "24"},
    "train-sync": {"--total-episodes": "24"},
    "run_async_training.sh": {"--total-episodes": "24"},
    "async_train_workflow_rl.py": {"--total-episodes": "24"},
    "seeds.sbatch": {"--total-episodes": "24"},
    "train-population": {"--period": "24"},
    "train-workflow": {"--total-episodes": "24"},
    "exploit": {"--episodes": "10", "--selection-episodes": "4"},
    "train-champion": {"--total-episodes": "400", "--selection-episodes": "32", "--episodes": "2"},
    "tune": {"--total-episodes": "24"},
    "run_tests.sh": {"--version": ""},
}
"""What a command is given besides, if it has not been given it."""
ENDS_ELSEWHERE = frozenset({"--env", "--resume", "--dry-run", "--final-evaluation"})
"""Beside these a command's length is not for LACKING to say."""


def small(text: str) -> str:
    """The same commands, for a moment each."""
    lines = text.replace("\\\n", " ").splitlines()
    return "\n".join(_small(line.partition("  #")[0]) for line in lines)


def _small(line: str) -> str:
    for option, smaller in SMALL.items():
        line = re.sub(
            rf"({option} )(\d+)", lambda found, s=smaller: f"{found[1]}{s(int(found[2]))}", line
        )
    words = line.split()
    for command, options in LACKING.items():
        ends_elsewhere = command != "train-champion" and ENDS_ELSEWHERE.intersection(words)
        if any(word.rpartition("/")[2] == command for word in words) and not ends_elsewhere:
            line += "".join(f" {o} {n}" for o, n in options.items() if o not in words)
    # No cluster runs here that it could join.
    return line.replace("--cluster auto", "--cluster local")
