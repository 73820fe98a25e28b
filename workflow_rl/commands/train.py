"""The trainers' command: from options to a plan, and from what happened to a report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from workflow_rl.collection.cluster_address import NAMES
from workflow_rl.commands.errors import own_command, telling, training_errors
from workflow_rl.commands.options import given_options, spelling
from workflow_rl.commands.options_by_env import named_here, require_agent
from workflow_rl.commands.training_options import asked_of_run, new_config, path_to_resume
from workflow_rl.environments.source import guests
from workflow_rl.output_files import require_writable, require_writable_folder
from workflow_rl.runs.config import Mode, TrainConfig
from workflow_rl.terminal import printable

if TYPE_CHECKING:
    from workflow_rl.runs.checkpoint import Checkpoint
    from workflow_rl.runs.execute import MeetingsOf, Plan
    from workflow_rl.runs.several_policies import ExchangeConfig

ExchangeOf: TypeAlias = "Callable[[TrainConfig], ExchangeConfig]"
"""Returns how the policies of a new run learn from each other. Raises ConfigError."""


def run_command(mode: Mode, options: dict[str, Any], exchange_of: ExchangeOf | None = None) -> None:
    """Run a trainer's whole command. Errors of the user end with exit code 2.

    exchange_of: for a population, whose policies learn from each other.
    """
    resume = None if options["resume"] is None else path_to_resume(options)
    plan: Plan | None
    if resume is None:
        plan = _new_plan(mode, options, exchange_of)
    else:
        plan = _plan_to_resume(mode, resume, options, exchange_of is not None)
    if plan is None:
        return
    config = plan.configs[0]
    init_from = _accepted(options, config) if resume is None else None

    from workflow_rl.reporting import learning_curve
    from workflow_rl.runs.execute import execute, hint_of_few_updates, require_ready, run_folder
    from workflow_rl.runs.loop import stopped_by_signals

    require_ready(config, begins=plan.resumed[0] is None)
    if options["dry_run"]:
        _show(plan, options)
        return
    _require_outputs(config, options)
    if resume is None and not options["quiet"] and (hint := hint_of_few_updates(config)):
        click.echo(f"Hint: {hint}.", err=True)
    meetings_of: MeetingsOf | None = None
    if plan.exchange is not None:
        from workflow_rl.studies.population import Population

        meetings_of = Population
    with (
        run_folder(resume or options["run_dir"], config) as path,
        training_errors(_again(plan, path, options), path, _careful_options(config)),
    ):
        outcome = execute(
            plan,
            path,
            meetings_of=meetings_of,
            init_from=init_from,
            quiet=options["quiet"],
            trace=options["trace"],
            draw=learning_curve.plot_learning_curve,
            watch=stopped_by_signals,
            on_update=telling(options["on_update"]),
        )
    from workflow_rl.commands.train_report import print_report

    is_scored_next = options["final_evaluation"] > 0 and outcome.summaries[outcome.best]["finished"]
    print_report(outcome, is_scored_next)
    # This may fail: the runs are complete without it.
    for learner, summary in zip(outcome.learners, outcome.summaries, strict=True):
        if options["final_evaluation"] and summary["finished"]:
            from workflow_rl.commands.evaluate import score_finished_run

            score_finished_run(learner.path, config, options["final_evaluation"], options["quiet"])
    if len(outcome.learners) > 1 and options["final_evaluation"]:
        from workflow_rl.runs.several_policies import finish_population

        # The scores decide how the agents play.
        finish_population(outcome.path, outcome.summaries, outcome.best)
    if options["trace"] is not None:
        click.echo(f"draw the trace:  {own_command('plot', '--timeline', options['trace'])}")


def _new_plan(mode: Mode, options: dict[str, Any], exchange_of: ExchangeOf | None) -> Plan:
    # The config is checked before torch is imported, which takes seconds.
    config = new_config(mode, options)
    exchange = None if exchange_of is None else exchange_of(config)
    if config.env not in guests:
        from workflow_rl.collection.local_pool import ensure_fork_server

        # It imports what workers need while this process imports torch.
        ensure_fork_server(config.environment.preload)
    if exchange is not None:
        from workflow_rl.studies.population import population_plan

        return population_plan(config, options["n_policies"], exchange)
    from workflow_rl.runs.execute import new_plan

    return new_plan(config, options["n_policies"])


def _accepted(options: dict[str, Any], config: TrainConfig) -> Checkpoint | None:
    """Return the checkpoint that --init-from names for a new run, if it does, and check what
    --teacher names.

    Raises UserError, ConfigError, click.UsageError.
    """
    source, teacher = options["init_from"], options["teacher"]
    if teacher is not None:
        from workflow_rl.teaching.episode_files import holds_episodes

        is_episodes = holds_episodes(Path(teacher))
        if ":" in teacher and not is_episodes and not Path(teacher).exists():
            raise click.BadParameter(
                f"{teacher} names a function: record its episodes in a file, and give the file",
                param_hint="--teacher",
            )
        if config.env in guests and not is_episodes:
            require_agent(Path(teacher), config.env, "--teacher")
    if source is None:
        return None
    from workflow_rl.runs.read_checkpoint import load_checkpoint, own_policy
    from workflow_rl.runs.saved_agent import saved_path

    init_from = load_checkpoint(saved_path(source))
    own_policy(init_from, source)  # Raises what is wrong with the weights.
    return init_from


def _plan_to_resume(mode: Mode, path: Path, options: dict[str, Any], exchange: bool) -> Plan | None:
    """Return the plan with which the run in `path` goes on. Return None, and say so, if the run is
    finished.

    exchange: whether it has to be a population. Raises what `resume.resumed_plan` raises, and
    click.UsageError.
    """
    from workflow_rl.runs.folder import population_record, runs_in
    from workflow_rl.runs.resume import resumed_plan

    given = given_options()
    # The user is told this before what the run lacks to go on, such as a later end.
    record = population_record(path)
    meets = record is not None and record.exchange is not None
    if meets and not exchange:
        raise click.UsageError(f"--resume {path} is a population: resume it with train-population")
    if exchange and not meets:
        raise click.UsageError(f"--resume {path} is not a population: see train-{mode}")
    plan = resumed_plan(path, asked_of_run(options), named_here().plug_in)
    if plan.over is not None:
        is_scored = all((folder / "evaluation.json").exists() for folder in runs_in(path))
        if options["final_evaluation"] and not is_scored:
            raise plan.over
        click.echo(printable(plan.over.told(spelling)))
        return None
    n_policies = len(plan.configs)
    if "n_policies" in given and options["n_policies"] != n_policies:
        raise click.UsageError(
            f"--n-policies is {options['n_policies']}, but the run in {path} has {n_policies}: "
            "leave it out, or start a new run"
        )
    before = {} if plan.exchange is None else plan.exchange.to_dict()
    for name in sorted(given & before.keys()):
        value = options[name]
        if name == "ranges":
            value = {setting: list(ends) for setting, ends in value}
        if value != before[name]:
            raise click.UsageError(
                f"{spelling(name)} is not what the population in {path} has, {before[name]}: leave "
                "it out, or start a new run"
            )
    its_mode = plan.configs[0].mode
    if its_mode != mode:
        raise click.UsageError(
            f"--resume {path} is a run of train-{its_mode}: resume it with train-{its_mode}"
        )
    return plan


def _require_outputs(config: TrainConfig, options: dict[str, Any]) -> None:
    """Raise errors that would otherwise occur only after the training."""
    if options["final_evaluation"]:
        from workflow_rl.evaluation.evaluate import scoring_of

        scoring_of(config.env).settings_for(config.env_args)
    if options["trace"] is not None and options["trace"].parent != options["run_dir"]:
        require_writable_folder(options["trace"].parent, "--trace")
        require_writable(options["trace"], "--trace")


def _again(plan: Plan, path: Path, options: Mapping[str, Any]) -> str:
    """Return the command with which the runs go on, with the options that no run folder keeps."""
    config = plan.configs[0]
    command = "train-population" if plan.exchange is not None else f"train-{config.mode}"
    again = ["--cluster", config.cluster] if config.cluster not in NAMES else []
    if name := getattr(hook := options["on_update"], "__qualname__", ""):
        again += [spelling("on_update"), f"{hook.__module__}:{name}"]
    for name in ("final_evaluation", "trace"):
        if options[name]:
            again += [spelling(name), str(options[name])]
    return own_command(command, "--resume", path, *again)


def _careful_options(config: TrainConfig) -> str:
    """Return the options of which smaller values keep learning from diverging."""
    *first, last = map(spelling, config.plug_in.to_lower)
    return f"{', '.join(first)} or {last}" if first else last


def _show(plan: Plan, options: dict[str, Any]) -> None:
    from workflow_rl.commands.config_words import show_config

    show_config(plan.configs[0], options, plan.exchange.ranges if plan.exchange else ())
    if len(plan.configs) > 1:
        click.echo(f"n_policies: {len(plan.configs)}")
    if plan.exchange is not None:
        for name, value in plan.exchange.to_dict().items():
            click.echo(f"{name}: {value}")
