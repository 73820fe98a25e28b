"""What a run says while it goes on, to a terminal alone: a log file is not for bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tqdm import tqdm

from workflow_rl.runs.checkpoint import TrainingState
from workflow_rl.runs.learner import BEST_WINDOW, Learner


def progress_bar(learners: Sequence[Learner], quiet: bool) -> tqdm[Any]:
    """Of the runs' episodes, or steps where they are given in steps."""
    config = learners[0].config
    in_episodes = config.total_episodes is not None
    each = config.total_episodes if in_episodes else config.total_steps
    assert each is not None
    several = f"{len(learners)} policies " if len(learners) > 1 else ""
    return tqdm(
        total=len(learners) * each,
        initial=_done(learners),
        desc=f"{config.mode} {several}{config.environment.label}",
        unit="ep" if in_episodes else "step",
        unit_scale=not in_episodes,
        disable=quiet or None,
        dynamic_ncols=True,
        # By the whole run so far: updates come in one by one, and the time left would jump.
        smoothing=0,
    )


def show_progress(bar: tqdm[Any], learners: Sequence[Learner], row: Mapping[str, float]) -> None:
    """After an update, whose metrics are `row`."""
    if len(learners) == 1:
        returns = described_returns(learners[0].state, BEST_WINDOW)
    else:
        means = [learner.state.recent_means(BEST_WINDOW).get("") for learner in learners]
        each = " ".join("none" if mean is None else f"{mean:.0f}" for mean in means)
        returns = f"mean returns {each} of the last {BEST_WINDOW}"
    bar.set_postfix_str(f"{returns}; {row['worker_utilisation']:.0%} utilisation", refresh=False)
    bar.update(_done(learners) - bar.n)


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
