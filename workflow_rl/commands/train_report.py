"""What a training command prints at its end."""

import math
from pathlib import Path

import click
from prettytable import PrettyTable

from workflow_rl.collection.rollout import utilisation
from workflow_rl.commands.errors import own_command
from workflow_rl.commands.options import spelling
from workflow_rl.environments.source import guests
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.execute import Outcome
from workflow_rl.runs.folder import read_metrics
from workflow_rl.runs.learner import Learner, budgets_in, is_zero_sum, only_warned
from workflow_rl.runs.metrics import paid_agents
from workflow_rl.runs.return_curves import returns_of_known_agents, running_mean, verdict
from workflow_rl.runs.training_state import TrainingState
from workflow_rl.terminal import fitting
from workflow_rl.text_table import text_table


def print_report(outcome: Outcome, is_scored_next: bool) -> None:
    """Print what became of a run, of one policy or of several, and what to do next.

    is_scored_next: whether the best agent's score follows.
    """
    if len(outcome.learners) > 1:
        _report_several(outcome)
    else:
        _report_one(outcome)
    path, config = outcome.path, outcome.learners[outcome.best].config
    guest = guests.get(config.env)
    if not is_scored_next:
        click.echo(f"is it good:      {own_command('evaluate', path)}")
    if guest is not None and guest.replays() is not None:
        click.echo(f"watch it:        {own_command('replay', path)}")
    click.echo(f"all on a page:   {own_command('report', path)}")
    if len(outcome.learners) == 1:
        click.echo(f"train on:        {own_command(*_longer(path, outcome.learners[0]))}")
    format_ = None if guest is None else guest.handed_in(config.env_args)
    if format_ is not None:
        words = "export", path, "--format", format_, "--output", f"{path}-{format_}"
        click.echo(f"hand it in:      {own_command(*words)}")
    elif guest is None:
        spaces = config.environment.spaces()
        shown = "observations, infos" if spaces.team is not None else "observation"
        shown += ", action_mask" * (spaces.team is None and spaces.masked)
        click.echo(f"use it:          workflow_rl.load_agent({str(path)!r}).act({shown})")


def _longer(path: Path, learner: Learner) -> list[str]:
    """Return the command that goes on with a run: to twice its length, if it came to its end."""
    config, more = learner.config, []
    if config.progress(learner.state.episodes, learner.state.env_steps) >= 1:
        name = "total_steps" if config.total_episodes is None else "total_episodes"
        more = [spelling(name), str(2 * getattr(config, name))]
    elif learner.stopped is not None:
        reached = config.stop_at_return
        if reached is not None and learner.state.best_score >= reached:
            higher = max(reached, learner.state.best_score)
            more = [f"{spelling('stop_at_return')}={higher + max(abs(higher), 1) / 10:.3g}"]
        elif config.patience is not None:
            more = [spelling("patience"), str(2 * config.patience)]
    return [f"train-{config.mode}", "--resume", str(path), *more]


def _report_one(outcome: Outcome) -> None:
    path, chosen = outcome.path, outcome.chosen
    config, state = outcome.learners[0].config, outcome.learners[0].state
    click.echo(_times(config, state))
    if (copied := outcome.learners[0].copied) is not None:
        from workflow_rl.teaching.teachers import agreement_in_words, returns_in_words

        click.echo(
            f"copied {copied['teacher']}: mean return {returns_in_words(copied)}; agreement with "
            f"its actions: {agreement_in_words(copied['agreement'])}"
        )
        click.echo(f"the copy:        mean return {returns_in_words(copied['copy'])}")
        now, then = state.recent_mean(config.environment.variants), copied["copy"]
        # Training samples its actions, and a copy that is no better than now is no loss.
        least = then["return_mean"] - (then["return_interval_95"] or 0)
        if now is not None and now.mean + now.interval_95 < least:
            click.echo(
                "below its copy:  the last training episodes have a lower mean return, "
                f"{now.told(1)}: try {spelling('teacher_coef')}, a lower "
                f"{spelling('learning_rate')}, or more episodes"
            )
    played = f"{state.episodes} episodes"
    if config.total_steps is not None and state.env_steps > config.total_steps:
        played += f" of {state.env_steps:,} steps (the last update is whole)"
    click.echo(
        f"{played}, updates: {state.updates}; {state.returns_in_words(config.environment.variants)}"
    )
    if agents := paid_agents(config):
        metrics = read_metrics(path)
        of_each = {a: running_mean(metrics, column=f"return_mean_{a}")[-1] for a in agents}
        told = ", ".join(f"{agent} {mean:{fitting(1, mean)}}" for agent, mean in of_each.items())
        click.echo(f"of each agent:   {told}")
    _say_of_budgets(outcome.learners[0])
    if (why := outcome.learners[0].stopped) is not None:
        click.echo(f"stopped early:   {why}")
    _say_how_good(config, state)
    if state.workers_restarted:
        click.echo(f"workers restarted: {state.workers_restarted}")
    click.echo(f"run folder:      {path}")
    click.echo(f"learning curve:  {path / 'learning_curve.png'}")
    if state.episodes and is_zero_sum(config, state):
        chosen = "the last: the agents' returns sum to 0, so they do not say which is better"
    elif not config.eval_every and getattr(config.settings, "budgets", {}):
        chosen = "the last: a greater return may tell only that more was spent"
    elif not chosen and config.eval_every and math.isfinite(state.best_score):
        score = f"{state.best_score:{fitting(2, state.best_score)}}"
        chosen = f"of update {state.best_update}, whose evaluation has a mean return of {score}"
    elif not chosen and state.updates < config.eval_every:
        first = (
            f"the first evaluation, after {config.eval_every} updates ({spelling('eval_every')})"
        )
        chosen = f"the last: the run ended before {first}"
    elif not chosen and config.eval_every and getattr(config.settings, "budgets", {}):
        chosen = "the last: no evaluation holds the budgets"
    click.echo(f"best agent:      {path / 'best.safetensors'}{f', {chosen}' if chosen else ''}")
    digest = outcome.summaries[0]["weights"]
    click.echo(
        f"last agent:      {path / 'checkpoint.safetensors'}, with weights of SHA-256 {digest[:16]}"
    )
    click.echo(f"metrics:         {path / 'metrics.csv'}, and TensorBoard events beside it")


def _say_of_budgets(learner: Learner) -> None:
    """Say whether the last evaluation, or else the last training episodes, keep each budget."""
    config, state = learner.config, learner.state
    sums = state.measured_costs(bool(state.evaluated_costs))
    of = "evaluation" if state.evaluated_costs else "training"
    for kept in budgets_in(config, sums):
        click.echo(f"budget:          {kept} (last {len(sums)} episodes of {of})")


def _say_how_good(config: TrainConfig, state: TrainingState, n_policies: int = 1) -> None:
    """Compare a run with known agents, and name the guest's recipe for better ones."""
    words = _judged(config, state, n_policies)
    if words is not None:
        click.echo(f"verdict:         {words}")
    guest = guests[config.env] if returns_of_known_agents(config) else None
    recipes = guest.recommended or guest.presets if guest else ()
    for name in recipes if config.preset not in recipes else ():
        click.echo(f"better agents:   {own_command('train-async', '--preset', name)}")


def _judged(config: TrainConfig, state: TrainingState, n_policies: int = 1) -> str | None:
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


def _times(config: TrainConfig, state: TrainingState) -> PrettyTable:
    rest = state.wall_seconds - state.update_seconds - state.learner_idle_seconds
    collecting, learning = "collecting (the learner waits)", "learning (the workers wait)"
    if config.async_rl:
        collecting, learning = "collecting", "learning meanwhile"
    parts = {collecting: state.collect_seconds, learning: state.update_seconds}
    if config.async_rl:
        parts["the learner waits"] = state.learner_idle_seconds
    if state.held_seconds:
        parts["collecting waits"] = state.held_seconds
    parts |= {"saving, evaluating": max(0.0, rest), "whole run": state.wall_seconds}
    rows = []
    busy = {
        collecting: utilisation(state.busy_seconds, state.worker_seconds_collecting),
        "whole run": utilisation(state.busy_seconds, state.worker_seconds),
    }
    for name, seconds in parts.items():
        rates = [""] * 3
        if name in busy:
            rates = [
                f"{state.episodes / seconds:.1f}",
                f"{state.env_steps / seconds:.0f}",
                f"{busy[name]:.1%}",
            ]
        rows.append([name, f"{seconds:.1f}", f"{seconds / state.wall_seconds:.0%}", *rates])
    headings = ["", "seconds", "share", "episodes/s", "env steps/s", "worker utilisation"]
    return text_table(headings, rows)


def _report_several(outcome: Outcome) -> None:
    from workflow_rl.studies.policies_figure import draw_folder

    path, summaries, record = outcome.path, outcome.summaries, outcome.record
    assert record is not None
    names = sorted((record.exchange or {}).get("ranges", {}))
    rows = []
    for number, (learner, summary) in enumerate(zip(outcome.learners, summaries, strict=True)):
        mean, n_recent = summary["return_mean_recent"], summary["recent_episodes"]
        rows.append(
            [
                f"{'* ' if number == outcome.best else ''}{number}",
                summary["episodes"],
                summary["updates"],
                "" if mean is None else f"{mean:{fitting(1, mean)}} of the last {n_recent}",
                *(f"{getattr(learner.config.settings, name):.3g}" for name in names),
            ]
        )
    picture = None
    with only_warned(path / "learning_curve.png"):
        picture = draw_folder(path)
    headings = ["policy", "episodes", "updates", "return", *names]
    click.echo(text_table(headings, rows, left=0))
    for learner in outcome.learners:
        if learner.stopped is not None:
            click.echo(f"stopped early:   {learner.path.name}: {learner.stopped}")
    seconds = max(summary["wall_seconds"] for summary in summaries)
    episodes = sum(summary["episodes"] for summary in summaries)
    # A policy that diverged in its first update has no utilisation.
    busy = sum(summary.get("worker_utilisation_run", 0.0) for summary in summaries)
    click.echo(
        f"{episodes} episodes in {seconds:.1f} s: {episodes / seconds:.1f} episodes/s, worker "
        f"utilisation {busy:.1%}"
    )
    if record.exchange is not None:
        n_copies = sum(len(meeting.copies) for meeting in record.meetings)
        click.echo(f"meetings: {len(record.meetings)}; policies that took over: {n_copies}")
    best = outcome.best
    learner = outcome.learners[best]
    _say_of_budgets(learner)
    _say_how_good(learner.config, learner.state, len(outcome.learners))
    click.echo(f"run folder:      {path}, and in it one of each policy: policy-0, ...")
    if picture is not None:
        click.echo(f"picture:         {picture}")
    click.echo(f"best agent:      {path / 'best.safetensors'} (of policy {outcome.best})")
