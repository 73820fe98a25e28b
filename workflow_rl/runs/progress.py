"""What a run shows while it trains."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from workflow_rl.environments.source import guests
from workflow_rl.progress_bar import Progress
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.learner import Learner
from workflow_rl.runs.metrics import paid_agents
from workflow_rl.runs.return_curves import returns_of_known_agents, verdict
from workflow_rl.runs.training_state import TrainingState
from workflow_rl.terminal import fitting

BAR = (
    "{percentage:3.0f}%|{bar:16}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}, {rate_fmt}{postfix}]"
)
"""The bar has a width of its own: beside a long text tqdm leaves one character for it."""


def progress_bar(
    learners: Sequence[Learner], quiet: bool, last_update: int | None = None
) -> Progress:
    """Return a bar of the runs' episodes, or of their steps if their end is given in steps.

    last_update: where the runs end whatever their configs say. The bar is of updates then.
    """
    config = learners[0].config
    unit = "step" if config.total_episodes is None else "ep"
    return Progress(
        quiet,
        total=len(learners) * (last_update or _end(config)),
        unit="update" if last_update else unit,
        initial=_done(learners, last_update),
        bar_format=BAR,
        unit_scale=unit == "step",
        dynamic_ncols=True,
        # By the whole run so far: updates come in one by one, and the time left would jump.
        smoothing=0,
    )


def show_progress(
    bar: Progress,
    learners: Sequence[Learner],
    row: Mapping[str, float],
    last_update: int | None = None,
) -> None:
    if len(learners) == 1:
        config = learners[0].config
        returns = described_returns(config, learners[0].state)
        of_agents = [f"{agent} {row[f'return_mean_{agent}']:.3g}" for agent in paid_agents(config)]
        if of_agents:
            returns += f" (last update: {', '.join(of_agents)})"
    else:
        drawn, n_recent = learners[0].config.environment.variants, learners[0].state.n_recent
        means = [learner.state.recent_mean(drawn, n_recent) for learner in learners]
        digits = fitting(0, *(mean.mean for mean in means if mean is not None))
        shown = " ".join("none" if mean is None else f"{mean.mean:{digits}}" for mean in means)
        returns = f"mean returns {shown} of the last {n_recent}"
    text = f"{returns}; {min(1, row['worker_utilisation']):.0%} utilisation"
    bar.show(_done(learners, last_update), text)


def described_returns(config: TrainConfig, state: TrainingState) -> str:
    """The mean return of the last episodes, and of each of several variants of them."""
    mean = state.recent_mean(config.environment.variants)
    if mean is None:
        return "no episode has ended"
    means = state.recent_means()
    digits = fitting(1, mean.mean, *means.values())
    of_each = ", ".join(f"{name} {of_kind:{digits}}" for name, of_kind in means.items())
    n_recent = min(state.n_recent, len(state.recent_returns))
    # The number first: a narrow terminal cuts what comes late.
    return f"mean return {mean.mean:{digits}}{of_each and f' ({of_each})'} of the last {n_recent}"


def judged(config: TrainConfig, state: TrainingState, n_policies: int = 1) -> str | None:
    """Return in words how a run's last training episodes compare with known agents' episodes.

    n_policies: the run's policy is the best of so many, by these episodes. None if no agent is
    known whose episodes are like these, or too few episodes have ended.
    """
    known = returns_of_known_agents(config)
    mean = state.recent_mean(config.environment.variants, chosen_of=n_policies)
    comparable = known and guests[config.env].has_verdicts
    if not comparable or mean is None or math.isnan(mean.interval_95):
        return None
    words = verdict(mean.mean, known, mean.interval_95)
    return f"the mean return in training, {mean.told(1)} with sampled actions, is {words}"


def _end(config: TrainConfig) -> int:
    end = config.total_episodes or config.total_steps
    assert end is not None
    return end


def _done(learners: Sequence[Learner], last_update: int | None) -> int:
    if last_update is not None:
        return sum(learner.state.updates for learner in learners)
    end = _end(learners[0].config)
    return sum(min(learner.position, end) for learner in learners)
