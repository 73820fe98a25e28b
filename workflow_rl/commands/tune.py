"""The command `tune`: which settings train best, found by trying."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from workflow_rl.commands.config_words import show_config, words_of
from workflow_rl.commands.errors import own_command, training_errors
from workflow_rl.commands.options import (
    COUNT,
    MOST_POLICIES,
    POSITIVE,
    given_options,
    plain_option,
    range_of,
    spelled,
    spelling,
    under,
)
from workflow_rl.commands.training_options import (
    asked_of_run,
    new_config,
    path_to_resume,
    training_command,
)
from workflow_rl.errors import ConfigError, UserError
from workflow_rl.output_files import NOT_OURS, read_json
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.several_policies import VARIABLE, require_range
from workflow_rl.terminal import fitting, printable

if TYPE_CHECKING:
    import optuna

    from workflow_rl.studies.search import Search

TUNABLE = (*VARIABLE, "epochs", "minibatch_size")
RANGES: dict[str, tuple[float, float]] = {
    "learning_rate": (1e-5, 1e-1),
    "entropy_coef": (1e-5, 1e-1),
    "discount": (0.9, 0.999),
    "gae_lambda": (0.5, 0.99),
    "clip_range": (0.03, 0.5),
    "epochs": (1, 20),
}
TUNE_FILE = "tune.json"
SHOWN_TRIALS = 10
IGNORED = frozenset(("init_from", "trace", "final_evaluation", "on_update"))
GOES_ON_WITH = frozenset(("resume", "run_dir", "trials", "minutes", "quiet", "dry_run"))


_OPTIONS = under(
    "Search",
    plain_option("--trials", type=COUNT, show_default="no limit",
                 help="Number of trials, including those before --resume."),
    plain_option("--minutes", type=POSITIVE, show_default="no limit",
                 help="Minutes that the search takes, including the finals. --trials or --minutes "
                      "is needed."),
    plain_option("--range", "ranges", type=range_of(TUNABLE), multiple=True,
                 show_default="wide ones of learning-rate, entropy-coef, discount, gae-lambda, "
                              "clip-range, epochs",
                 help="A setting to search and its range, in logarithms; may be given again. "
                      f"One of {spelled(TUNABLE)}."),
    plain_option("--finalists", type=click.IntRange(min=0), default=3,
                 help="Number of the best trials that are trained again, with seeds that no trial "
                      "had. The first trial is trained again, too, unless it "
                      "failed or was given up."),
)  # fmt: skip


@training_command("tune", _OPTIONS, n_policies=2)
def tune(**options: Any) -> None:
    """Search for the settings with which PPO learns an environment best.

    Optuna proposes settings, first those of the command line. Each trial trains --n-policies
    policies. A trial that does worse than most is given up early. The best trials, and the first,
    are trained again with three or more fresh seeds, the same for each. These finals alone decide
    which settings are named, with the options to train with. The study is kept in the run's folder
    (--run-dir), with a folder of each trial and Optuna's plots; --resume goes on with it.

    \b
    Examples:
      tune --minutes 20 --simulator compiled --run-dir runs/tuned
      tune --trials 50 --env CartPole-v1 --total-steps 30000
    """
    try:
        import optuna  # noqa: F401 (what follows needs it)
    except ModuleNotFoundError:
        raise click.UsageError("tune needs Optuna: pip install -e '.[tune]'") from None
    if options["trials"] is None and options["minutes"] is None:
        raise click.UsageError("say how long to search: --trials N, --minutes M, or both")
    for name in IGNORED & given_options():
        raise click.UsageError(f"{spelling(name)} is not for a search: leave it out")
    search = _new_search(options) if options["resume"] is None else _search_to_resume(options)
    if options["dry_run"]:
        _show(search, options)
        return
    from workflow_rl.runs.run_dir import locked

    seconds = None if options["minutes"] is None else 60 * options["minutes"]
    again = ["tune", "--resume", str(search.path)]
    for name in sorted({"trials", "minutes", "cluster"} & given_options()):
        again += [spelling(name), f"{options[name]}"]
    with (
        training_errors(own_command(*again), search.path),
        locked(search.path, TUNE_FILE),
    ):
        study = search.study()
        search.run(study, options["trials"], seconds)
        _report(search, study)


def _new_search(options: dict[str, Any]) -> Search:
    """Return a new search, whose folder has been made unless this is a dry run."""
    from workflow_rl.output_files import begin_folder
    from workflow_rl.runs.execute import require_ready
    from workflow_rl.runs.run_dir import make_run_folder
    from workflow_rl.runs.several_policies import require_shareable
    from workflow_rl.studies.population import require_variable
    from workflow_rl.studies.search import Search

    config = new_config("async", options)
    require_variable(config)
    require_shareable(config)
    require_ready(config)
    ranges = dict(options["ranges"]) or RANGES
    _require_ranges(config, ranges)
    path = options["run_dir"]
    if not options["dry_run"]:
        path = path or make_run_folder("tune", config.environment.label)
        content = {
            "config": config.to_save(),
            "ranges": ranges,
            "n_policies": options["n_policies"],
            "finalists": options["finalists"],
        }
        begin_folder(path, TUNE_FILE, content)
    return Search(
        config, ranges, options["n_policies"], options["finalists"], path, options["quiet"]
    )


def _search_to_resume(options: dict[str, Any]) -> Search:
    from workflow_rl.runs.execute import require_cluster, require_device
    from workflow_rl.runs.resume import changes_on_resume, free_on_resume
    from workflow_rl.studies.search import Search

    path = path_to_resume(options)
    config, ranges, n_policies, n_finalists = _read(path)
    others = given_options() - GOES_ON_WITH
    saved = config.to_dict()
    if kept := others - free_on_resume(saved):
        raise click.UsageError(
            f"{spelling(min(kept))} does not go with --resume: a search goes on as it began"
        )
    fields = asked_of_run(options)
    asked = {name: fields[name] for name in others}
    if asked:
        config = config.changed(**changes_on_resume(saved, asked))
    require_device(config)
    require_cluster(config)
    return Search(config, ranges, n_policies, n_finalists, path, options["quiet"])


def _read(path: Path) -> tuple[TrainConfig, dict[str, tuple[float, float]], int, int]:
    from workflow_rl.collection import try_in_worker
    from workflow_rl.runs.several_policies import require_shareable

    try:
        values = read_json(path / TUNE_FILE)
        ranges = {str(n): (float(low), float(high)) for n, (low, high) in values["ranges"].items()}
        names_cluster = "cluster" in given_options()
        config = TrainConfig.to_train(values["config"], names_cluster=names_cluster)
        try_in_worker.check(config.environment, config.worker_timeout)
        n_policies, n_finalists = int(values["n_policies"]), int(values["finalists"])
        if not 1 <= n_policies <= MOST_POLICIES or n_finalists < 0:
            raise ValueError(f"n_policies {n_policies} and finalists {n_finalists} make no search")
        require_shareable(config)
        _require_ranges(config, ranges)
        return config, ranges, n_policies, n_finalists
    except FileNotFoundError:
        raise UserError(f"{path} is no folder of tune's: it has no {TUNE_FILE}") from None
    except NOT_OURS as error:
        raise UserError(f"{path / TUNE_FILE} cannot be read: {error}") from None


def _require_ranges(config: TrainConfig, ranges: Mapping[str, tuple[float, float]]) -> None:
    """Raise ConfigError for no ranges, and for ends that the algorithm cannot be set to."""
    if not ranges:
        raise ConfigError("ranges", "there is nothing to search")
    for name, (low, high) in ranges.items():
        if name not in TUNABLE:
            raise ConfigError("ranges", f"{name!r} is not one of {', '.join(TUNABLE)}")
        require_range(name, low, high)
        is_whole = isinstance(getattr(config.settings, name), int)
        for end in (low, high):
            value = int(end) if is_whole and int(end) == end else end
            try:
                config.settings.changed(**{name: value})
            except ValueError as error:
                raise ConfigError("ranges", f"{name}={low:g}:{high:g}: {error}") from None


def _show(search: Search, options: dict[str, Any]) -> None:
    show_config(search.config, options)
    for name, (low, high) in search.ranges.items():
        click.echo(f"{spelled([name])}: {low:g} to {high:g}")


def _report(search: Search, study: optuna.Study) -> None:
    import numpy as np
    from optuna.trial import TrialState

    from workflow_rl.studies.search import FAILURE, draw, ranked, trial_score, write_best
    from workflow_rl.text_table import text_table

    trials = study.get_trials(deepcopy=False)
    complete, failed = ranked(study), [trial for trial in trials if FAILURE in trial.user_attrs]
    best = search.best(study)
    if best is None:
        why = f": {failed[0].user_attrs[FAILURE]}" if failed else ": give it more time"
        raise click.ClickException(printable(f"no trial came to its end{why}"))
    if trial_score(complete[0]) == -math.inf:
        raise click.ClickException("no trial has a score: too many episodes could not be played")
    finals = search.compared(study)
    names = list(search.ranges)
    rows = []
    digits = fitting(2, *map(trial_score, complete))
    for place, trial in enumerate(complete):
        returns = finals.get(trial.number, [])
        if place >= SHOWN_TRIALS and not returns:
            continue
        rows.append(
            [
                f"{'* ' if trial.number == best.number else ''}{trial.number}",
                f"{trial_score(trial):{digits}}",
                f"{np.mean(returns):{digits}}" if returns else "",
                len(returns) or "",
                *(f"{value:.3g}" for value in search.settings(trial).values()),
            ]
        )
    drawn = draw(study, search.path)
    write_best(search.path, search.settings(best))
    headings = ["trial", "return", "finals", "seeds", *(spelled([name]) for name in names)]
    click.echo(text_table(headings, rows, left=0))
    n_pruned = sum(trial.state is TrialState.PRUNED for trial in trials) - len(failed)
    told = f"{len(complete)} trials to their end, {n_pruned} given up early"
    click.echo(told + f", {len(failed)} failed" * bool(failed))
    for file in drawn:
        click.echo(f"plot:           {file}")
    click.echo(f"study:          {search.path / 'study.db'}")
    settings = search.settings(best)
    are = "" if best.number else ", the settings as they were given"
    click.echo(f"best settings:  {search.path / 'best.json'} (trial {best.number}{are})")
    won = search.config.changed(settings=search.config.settings.changed(**settings))
    click.echo(f"train with:     {own_command(*words_of(won))}")
