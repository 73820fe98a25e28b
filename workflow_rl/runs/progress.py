"""What a run shows while it trains: a bar on a terminal, a line every tenth in a log file."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from tqdm import tqdm

from workflow_rl.runs.checkpoint import TrainingState
from workflow_rl.runs.learner import BEST_WINDOW, Learner

BAR = (
    "{percentage:3.0f}%|{bar:16}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}, {rate_fmt}{postfix}]"
)
"""The bar has a width of its own: beside a long text tqdm leaves one character for it."""


class Progress(tqdm):
    """A bar, or a line every tenth where there is no terminal."""

    def __init__(self, quiet: bool, **facts: Any) -> None:
        super().__init__(disable=quiet or None, **facts)
        self._in_lines = self.disable and not quiet
        self._done, self._whole, self._unit = facts["initial"], facts["total"], facts["unit"]

    def show(self, done: int, text: str) -> None:
        """Show how many episodes or steps are done, and a text."""
        if self._in_lines and done * 10 // self._whole > self._done * 10 // self._whole:
            share = f"{done / self._whole:4.0%} ({done} of {self._whole} {self._unit})"
            print(f"{share}: {text}", file=sys.stderr, flush=True)
        self.set_postfix_str(text, refresh=False)
        self.update(done - self._done)
        self._done = done


def progress_bar(learners: Sequence[Learner], quiet: bool) -> Progress:
    """Return a bar of the runs' episodes, or of their steps if their end is given in steps."""
    config = learners[0].config
    in_episodes = config.total_episodes is not None
    each = config.total_episodes if in_episodes else config.total_steps
    assert each is not None
    return Progress(
        quiet,
        total=len(learners) * each,
        initial=_done(learners),
        bar_format=BAR,
        unit="ep" if in_episodes else "step",
        unit_scale=not in_episodes,
        dynamic_ncols=True,
        # By the whole run so far: updates come in one by one, and the time left would jump.
        smoothing=0,
    )


def show_progress(bar: Progress, learners: Sequence[Learner], row: Mapping[str, float]) -> None:
    """After an update, whose metrics are `row`."""
    if len(learners) == 1:
        returns = described_returns(learners[0].state, BEST_WINDOW)
    else:
        means = [learner.state.recent_means(BEST_WINDOW).get("") for learner in learners]
        each = " ".join("none" if mean is None else f"{mean:.0f}" for mean in means)
        returns = f"mean returns {each} of the last {BEST_WINDOW}"
    bar.show(_done(learners), f"{returns}; {row['worker_utilisation']:.0%} utilisation")


def described_returns(state: TrainingState, episodes: int) -> str:
    """The mean return of so many of the last episodes, and of each of several variants of them."""
    means = state.recent_means(episodes)
    if not means:
        return "no episode has ended"
    of_each = ", ".join(f"{name} {mean:.1f}" for name, mean in means.items() if name)
    n_recent = min(episodes, len(state.recent_returns))
    # The number first: a narrow terminal cuts what comes late.
    mean = f"mean return {means['']:.1f}" + (of_each and f" ({of_each})")
    return f"{mean} of the last {n_recent}"


def _done(learners: Sequence[Learner]) -> int:
    config = learners[0].config
    each = config.total_episodes or config.total_steps
    assert each is not None
    return sum(min(learner.position, each) for learner in learners)
