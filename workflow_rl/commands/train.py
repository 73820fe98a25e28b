"""What the trainers do with their options, and one line for every error of the user."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import math
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from prettytable import PrettyTable, TableStyle

from workflow_rl import portable
from workflow_rl.collection.cluster import ClusterError, is_address, require_cluster
from workflow_rl.collection.rollout import utilisation
from workflow_rl.commands.options import given_options, printable, spelling
from workflow_rl.commands.run_plan import (
    ExchangeOf,
    checkpoint_to_begin_with,
    new_runs,
    path_to_resume,
    runs_to_resume,
)
from workflow_rl.environments.environment import InvalidEnvironmentError, guests
from workflow_rl.output_files import require_writable, require_writable_folder
from workflow_rl.runs.config import ConfigError, Mode, TrainConfig
from workflow_rl.runs.exchange import ExchangeConfig
from workflow_rl.runs.hints import hints
from workflow_rl.runs.presets import PRESETS

if TYPE_CHECKING:
    from workflow_rl.collection.pool import AnyPool
    from workflow_rl.runs.checkpoint import Checkpoint, TrainingState
    from workflow_rl.runs.learner import Learner


def run_command(
    mode: Mode,
    options: dict[str, Any],
    choose: bool = True,
    exchange_of: ExchangeOf | None = None,
) -> None:
    """A trainer's whole command. Errors of the user end with exit code 2.

    choose: have the best of a run's agents chosen. exchange_of: for a population.
    """
    # Imported here, not above: --help and errors in the options should not wait for torch.
    from agents.algorithm import DivergedError
    from workflow_rl.collection.failures import StopRequested, TooManyFailuresError
    from workflow_rl.collection.rollout import NotFiniteError
    from workflow_rl.commands.evaluate import score_finished_run
    from workflow_rl.runs import best_agent
    from workflow_rl.runs.checkpoint import CheckpointError
    from workflow_rl.runs.folder import (
        NotWrittenError,
        RunDirError,
        make_run_folder,
    )
    from workflow_rl.runs.learner import Beginning, Learner, usable_device
    from workflow_rl.runs.loop import stopped_by_signals, train_together
    from workflow_rl.runs.population import Population
    from workflow_rl.runs.population_dir import (
        finish_population,
        interrupt_population,
        unfinish_population,
    )
    from workflow_rl.runs.scoring import scoring_of

    logging.basicConfig(format="%(levelname)s: %(message)s")
    init_from: Checkpoint | None = None
    try:
        if options["resume"] is None:
            runs, run_path = new_runs(mode, options, exchange_of), options["run_dir"]
            if options["init_from"] is not None:
                init_from = checkpoint_to_begin_with(options["init_from"])
        else:
            run_path = path_to_resume(options)
            runs = runs_to_resume(mode, run_path, options, exchange_of is not None)
        device = usable_device(runs.configs[0].device)
        configs = [dataclasses.replace(config, device=device) for config in runs.configs]
        config, several = configs[0], len(configs) > 1
        warn_if_results_vary(config)
        require_cluster(config.cluster)
        if options["dry_run"]:
            _show(configs, runs.exchange)
            return
        if options["final_evaluation"]:
            # An agent that cannot be scored is an error now, not after the training.
            try:
                scoring_of(config.env).settings_for(config.env_args)
            except InvalidEnvironmentError as error:
                raise ConfigError(error.argument, str(error)) from None
        if options["trace"] is not None and options["trace"].parent != options["run_dir"]:
            require_writable_folder(options["trace"].parent, "--trace")
            require_writable(options["trace"], "--trace")
        run_path = run_path or make_run_folder(mode, config.environment.label)
        folders = runs.folders(run_path)
        try:
            learners = [
                Learner(Beginning(config, folder, resumed, init_from))
                for config, folder, resumed in zip(configs, folders, runs.resumed, strict=True)
            ]
        except CheckpointError:
            if options["run_dir"] is None and options["resume"] is None:
                run_path.rmdir()
            raise
        record = runs.record_in(run_path)

        @contextlib.contextmanager
        def watched(pool: AnyPool) -> Iterator[None]:
            if record is not None:
                unfinish_population(run_path)
            try:
                with stopped_by_signals(pool):
                    yield
            except BaseException as error:
                if record is not None:
                    interrupt_population(run_path, error)
                raise

        meetings = None
        if record is not None and record.exchange is not None:
            meetings = Population(run_path, record, learners)
        if options["resume"] is None and not options["quiet"]:
            for hint in hints(config):
                click.echo(f"Hint: {hint}.", err=True)
        summaries = train_together(
            learners,
            options["quiet"],
            options["trace"],
            watch=watched,
            meetings=meetings,
        )
    except ConfigError as error:
        raise click.BadParameter(error.message, param_hint=typed(error, options)) from None
    except ClusterError as error:
        raise click.BadParameter(str(error), param_hint="--cluster") from None
    except InvalidEnvironmentError as error:
        raise click.UsageError(f"--resume {run_path}: {error}") from None
    except (RunDirError, CheckpointError) as error:
        raise click.UsageError(str(error)) from None
    except StopRequested as stop:
        click.echo(f"{stop}; go on with: {_resuming(configs, runs.exchange, run_path)}", err=True)
        raise SystemExit(128 + stop.signal_number) from None
    except (TooManyFailuresError, NotFiniteError) as error:
        click.echo(f"Error: {error}", err=True)
        if isinstance(error, NotFiniteError):
            click.echo(f"The batch is in {_batch_in(run_path)}", err=True)
        again = _resuming(configs, runs.exchange, run_path)
        first = "correct the environment, then " if isinstance(error, NotFiniteError) else ""
        click.echo(f"A checkpoint is saved; {first}go on with: {again}", err=True)
        raise SystemExit(1) from None
    except NotWrittenError as error:
        click.echo(f"Error: {error}", err=True)
        again = _resuming(configs, runs.exchange, run_path)
        click.echo(f"The last checkpoint is kept; go on with: {again}", err=True)
        raise SystemExit(1) from None
    except DivergedError as error:
        batch = _batch_in(run_path)
        click.echo(f"Error: learning diverged: {error}", err=True)
        is_ppo = configs[0].algorithm == "ppo"
        third = "--max-grad-norm" if is_ppo else "(mbpo) --model-learning-rate"
        click.echo(
            f"The last checkpoint is kept, and the batch is in {batch}; "
            f"begin again with a smaller --learning-rate, --reward-scale or {third}, from "
            f"its weights with --init-from {batch.with_name('checkpoint.pt')}",
            err=True,
        )
        raise SystemExit(1) from None
    best = best_of(summaries)
    chosen = None
    for folder, config, summary in zip(folders, configs, summaries, strict=True):
        alone = runs.exchange is None or summary is summaries[best]
        if choose and alone and summary["finished"]:
            chosen = best_agent.choose_best(folder, config, summary, options["quiet"])
    if several:
        try:
            finish_population(run_path, summaries, best)
        except RunDirError as error:
            raise click.UsageError(str(error)) from None
    # Which may fail: the runs are complete without.
    for folder, config, summary in zip(folders, configs, summaries, strict=True):
        if options["final_evaluation"] and summary["finished"]:
            score_finished_run(folder, config, options["final_evaluation"], options["quiet"])
    if several:
        _report_several(run_path, learners, summaries, best)
    else:
        _report(run_path, config, learners[0].state, chosen)
    if options["trace"] is not None:
        click.echo(f"draw the trace:  {_own_command()} plot --timeline {options['trace']}")


def _resuming(
    configs: Sequence[TrainConfig], exchange: ExchangeConfig | None, run_path: Path
) -> str:
    """The command with which the runs go on."""
    command = "train-population" if exchange is not None else f"train-{configs[0].mode}"
    joined = f" --cluster {configs[0].cluster}" if is_address(configs[0].cluster) else ""
    return f"{_own_command()} {command} --resume {shlex.quote(str(run_path))}{joined}"


def _batch_in(run_path: Path) -> Path:
    """What could not be learned from: of several policies, the latest in any of their folders."""
    from workflow_rl.runs.folder import DIVERGED_FILE

    return max(run_path.rglob(DIVERGED_FILE), key=lambda path: path.stat().st_mtime)


def typed(error: ConfigError, options: dict[str, Any]) -> str:
    """The option that was typed: a preset, where it is the preset that asks for what is wrong."""
    name, preset = error.field_name, options["preset"]
    if preset is not None and name in PRESETS[preset] and name not in given_options():
        return f"--preset {preset} ({spelling(name)} {PRESETS[preset][name]})"
    return spelling(name)


def warn_if_results_vary(config: TrainConfig) -> None:
    """Try processor and environment. Raises ConfigError if one of them cannot be used."""
    if not portable.is_native() and not portable.is_supported():
        raise ConfigError(
            "device",
            "this processor lacks AVX2 with FMA, which the same weights as elsewhere take: "
            f"{portable.NATIVE}=1 trains with what it has, for weights of its own",
        )
    if not portable.is_native() and (departures := portable.departures()):
        logging.getLogger(__name__).warning(
            "the weights may differ from another processor's: %s", "; ".join(departures)
        )
    try:
        config.learned_distribution()
        difference = config.environment.check()
    except InvalidEnvironmentError as error:
        raise ConfigError(error.argument, str(error)) from None
    if difference is not None:
        logging.getLogger(__name__).warning(
            "%s is not determined by its seed: %s. Runs of it will vary, and so will one that is "
            "resumed or loses a worker",
            config.env,
            difference,
        )


def best_of(summaries: Sequence[dict[str, Any]]) -> int:
    """The policy whose last 300 training episodes went best; one that did not come to its end, or
    of which too many episodes could not be played, only if there is no other."""
    from workflow_rl.runs.checkpoint import has_skipped

    def score(number: int) -> float:
        one = summaries[number]
        mean = one["return_mean_last_300"]
        is_known = mean is not None and one["finished"]
        if not is_known or has_skipped(one["skipped_episodes"], one["episodes"]):
            return -math.inf
        return float(mean)

    return max(range(len(summaries)), key=score)


def _show(configs: Sequence[TrainConfig], exchange: ExchangeConfig | None) -> None:
    for name, value in configs[0].to_dict().items():
        click.echo(f"{name}: {printable(value)}")
    if len(configs) > 1:
        click.echo(f"n_policies: {len(configs)}")
    if exchange is not None:
        for name, value in exchange.to_dict().items():
            click.echo(f"{name}: {value}")


def _report(run_path: Path, config: TrainConfig, state: TrainingState, chosen: str | None) -> None:
    from workflow_rl.runs.checkpoint import RECENT_EPISODES
    from workflow_rl.runs.progress import described_returns

    click.echo(_times(config, state))
    click.echo(
        f"{state.episodes} episodes, updates: {state.updates}; "
        f"{described_returns(state, RECENT_EPISODES)}"
    )
    if state.workers_restarted:
        click.echo(f"workers restarted: {state.workers_restarted}")
    click.echo(f"run folder:      {run_path}")
    click.echo(f"learning curve:  {run_path / 'learning_curve.png'}")
    click.echo(f"best agent:      {run_path / 'best.pt'}{f', {chosen}' if chosen else ''}")
    click.echo(f"last agent:      {run_path / 'checkpoint.pt'}")
    click.echo(f"metrics:         {run_path / 'metrics.csv'}, and TensorBoard events beside it")
    _say_what_is_next(run_path, config)


def _times(config: TrainConfig, state: TrainingState) -> PrettyTable:
    """Where the run's time went."""
    rest = state.wall_seconds - state.update_seconds - state.learner_idle_seconds
    collecting, learning = "collecting (the learner waits)", "learning (the workers wait)"
    if config.async_rl:
        collecting, learning = "collecting", "learning meanwhile"
    parts = {collecting: state.collect_seconds, learning: state.update_seconds}
    if config.async_rl:
        parts["the learner waits"] = state.learner_idle_seconds
    parts |= {"saving, evaluating": max(0.0, rest), "whole run": state.wall_seconds}
    headings = ["", "seconds", "share", "episodes/s", "env steps/s", "worker utilisation"]
    table = PrettyTable(headings, align="r")
    table.set_style(TableStyle.SINGLE_BORDER)
    table.align[""] = "l"
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
        table.add_row([name, f"{seconds:.1f}", f"{seconds / state.wall_seconds:.0%}", *rates])
    return table


def _say_what_is_next(run_path: Path, config: TrainConfig) -> None:
    command, folder = _own_command(), shlex.quote(str(run_path))
    click.echo(f"is it good:      {command} evaluate {folder}")
    if config.env in guests:
        click.echo(f"watch it:        {command} replay {folder}")
    click.echo(f"all on a page:   {command} report {folder}")


def _report_several(
    run_path: Path, learners: Sequence[Learner], summaries: Sequence[dict[str, Any]], best: int
) -> None:
    from workflow_rl.runs.learning_curve import only_warned
    from workflow_rl.runs.population_dir import read_population
    from workflow_rl.runs.population_figure import draw_population

    record = read_population(run_path)
    names = sorted((record.exchange or {}).get("ranges", {}))
    headings = ["policy", "episodes", "updates", "return of the last 300", *names]
    table = PrettyTable(headings, align="r")
    table.set_style(TableStyle.SINGLE_BORDER)
    for number, (learner, summary) in enumerate(zip(learners, summaries, strict=True)):
        mean = summary["return_mean_last_300"]
        table.add_row(
            [
                f"{'* ' if number == best else ''}{number}",
                summary["episodes"],
                summary["updates"],
                "" if mean is None else f"{mean:.1f}",
                *(f"{getattr(learner.config.ppo, name):.3g}" for name in names),
            ]
        )
    click.echo(table)
    seconds = max(summary["wall_seconds"] for summary in summaries)
    episodes = sum(summary["episodes"] for summary in summaries)
    # None of a policy that diverged in its first update.
    utilisation = sum(summary.get("worker_utilisation_run", 0.0) for summary in summaries)
    click.echo(
        f"{episodes} episodes in {seconds:.1f} s: {episodes / seconds:.1f} episodes/s, worker "
        f"utilisation {utilisation:.1%}"
    )
    if record.exchange is not None:
        n_copies = sum(len(meeting.copies) for meeting in record.meetings)
        click.echo(f"meetings: {len(record.meetings)}; policies that took over: {n_copies}")
    click.echo(f"run folder:      {run_path}, and in it one of each policy: policy-0, ...")
    with only_warned(run_path / "learning_curve.png"):
        click.echo(f"picture:         {draw_population(run_path)}")
    click.echo(f"best agent:      {run_path / 'best.pt'} (of policy {best})")
    _say_what_is_next(run_path, learners[best].config)


def _own_command() -> str:
    """How to call `workflow-rl` from here: installed or not, on the path or not."""
    if shutil.which("workflow-rl"):
        return "workflow-rl"
    python = Path(sys.executable)
    if python.is_relative_to(Path.cwd()):
        python = python.relative_to(Path.cwd())
    installed = python.with_name("workflow-rl")
    return str(installed) if installed.exists() else f"{python} -m workflow_rl"
