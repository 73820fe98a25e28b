"""Search for settings: Optuna proposes, short runs tell, and the finalists run again.

Akiba et al. 2019, "Optuna: a next-generation hyperparameter optimization framework".
"""

import contextlib
import math
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.distributions import FloatDistribution, IntDistribution
from optuna.trial import FrozenTrial, TrialState
from tqdm import tqdm

from workflow_rl.agents.algorithm import DivergedError
from workflow_rl.collection.cluster_address import NONE
from workflow_rl.errors import ObservationError, UserError
from workflow_rl.output_files import NOT_OURS, replacing, require_numbers, write_json
from workflow_rl.reporting import learning_curve
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.execute import Plan, execute
from workflow_rl.runs.learner import Learner, only_warned
from workflow_rl.runs.loop import Meetings, stopped_by_signals
from workflow_rl.runs.return_curves import RECENT_EPISODES
from workflow_rl.runs.run_dir import NotWrittenError
from workflow_rl.runs.several_policies import SHARES, PopulationRecord, begin_population
from workflow_rl.studies.study_database import require_own_database, url_of

STUDY_FILE = "study.db"
REPORTS = 10
"""Number of reports of a trial. After each the trial may be given up."""
FINAL_SEEDS = 3
"""Seeds that a finalist is trained again with, time allowing, or as many as a trial has."""
FIRST_FINAL_SEED = 1_000_000
"""No trial has this seed or a later seed, because a chosen trial's score is partly luck."""
FINALS = "returns of finalists"
OWN = "the config's own settings"
"""Marks the trial that has the settings of the command line, also those outside their ranges."""
FAILURE = "failure"
"""The name under which a trial keeps the error that ended it."""

_OVER = (TrialState.COMPLETE, TrialState.PRUNED)

Ranges = Mapping[str, tuple[float, float]]


class Reports(Meetings):
    """Meetings at which a trial's policies report. `optuna.TrialPruned` gives the trial up."""

    may_lose = False

    def __init__(self, trial: optuna.Trial, learners: Sequence[Learner]) -> None:
        self._trial = trial
        self._learners = learners
        config = learners[0].config
        self._total = config.total_episodes or config.total_steps or 1
        self._n_reports = 0

    def is_due(self, learner: Learner) -> bool:
        return learner.position >= (self._n_reports + 1) * self._total / REPORTS

    def meet(self) -> None:
        self._n_reports += 1
        self._trial.report(score_of(self._learners), self._n_reports)
        if self._trial.should_prune():
            raise optuna.TrialPruned


def score_of(learners: Sequence[Learner]) -> float:
    """Return the mean of the policies' mean returns of their last training episodes.

    The score is minus infinity before an episode has ended, and if episodes could not be played.
    """
    return float(np.mean([_return_of(learner) for learner in learners]))


def _return_of(learner: Learner) -> float:
    # A mean of more episodes than a run's own last mean ranks settings more reliably.
    mean = learner.state.recent_mean(learner.config.environment.variants, RECENT_EPISODES)
    if mean is None or learner.state.has_skipped():
        return -math.inf
    return mean.mean


@dataclass(frozen=True)
class Search:
    """A search for settings.

    config: the settings that all trials share. ranges: the ranges of the settings in which trials
    differ. n_policies: the number of policies of each trial, which have seeds of their own.
    n_finalists: the number of the best trials that are trained again, beside the trial of the
    config's own settings. path: the search's folder.
    """

    config: TrainConfig
    ranges: Ranges
    n_policies: int
    n_finalists: int
    path: Path
    quiet: bool

    def study(self) -> optuna.Study:
        """Return the study in the folder, or a new one that begins with the config's settings."""
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        file = (self.path / STUDY_FILE).absolute()
        require_own_database(file)
        if not file.exists() and any(self.path.glob("trial-*")):
            raise UserError(f"{self.path} has no {STUDY_FILE} to go on from")
        try:
            study = optuna.create_study(
                storage=url_of(file), study_name="tune", direction="maximize", load_if_exists=True
            )
            trials = study.get_trials(deepcopy=False)
        except Exception as error:
            # SQLAlchemy raises errors of many kinds.
            raise UserError(f"{self.path / STUDY_FILE} cannot be used: {error!r:.200}") from None
        try:
            self.finals(study)
            for trial in ranked(study):
                self.settings(trial)
            for trial in trials:
                self._require_own(trial)
        except (*NOT_OURS, RuntimeError) as error:
            raise UserError(
                f"{file} holds what no search of this package leaves: {error!r:.200}"
            ) from None
        # With one seed, a study that goes on would propose again what it began with.
        study.sampler = optuna.samplers.TPESampler(seed=self.config.seed + len(trials))
        study.pruner = optuna.pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=REPORTS // 4)
        if not trials:
            study.enqueue_trial(self._own_parameters(), {OWN: True}, skip_if_exists=True)
        for trial in trials:
            if trial.state is TrialState.RUNNING:  # The trial's process is gone.
                study.tell(trial.number, state=TrialState.FAIL)
                study.enqueue_trial(trial.params, trial.user_attrs)
        return study

    def _require_own(self, trial: FrozenTrial) -> None:
        """Raise an error of NOT_OURS for a trial that no search with these ranges asks for."""
        require_numbers(*trial.system_attrs.get("fixed_params", {}).values())
        for name in self.ranges:
            is_whole = isinstance(getattr(self.config.settings, name), int)
            kind = IntDistribution if is_whole else FloatDistribution
            asked = trial.distributions.get(parameter(name))
            if asked is not None and not (type(asked) is kind and asked.log):
                raise ValueError(f"{asked} is no range of {name}")

    def _own_settings(self) -> dict[str, Any]:
        return {name: getattr(self.config.settings, name) for name in self.ranges}

    def _own_parameters(self) -> dict[str, float]:
        """Return the config's settings as Optuna has them.

        Optuna takes no value outside a range, such as an entropy coefficient of 0. Instead of such
        a value, it is told the nearest one that is in the range.
        """
        parameters = {}
        for name, value in self._own_settings().items():
            low, high = self.ranges[name]
            nearest = min(max(value, low), high)
            parameters[parameter(name)] = 1 - nearest if name in SHARES else nearest
        return parameters

    def run(self, study: optuna.Study, n_trials: int | None, seconds: float | None) -> None:
        """Try settings, then train the finalists again.

        n_trials: trials in all, or None. seconds: time in all, the finalists' included, or None.
        Raises ConfigError, StopRequested and whatever else ends a training.
        """
        deadline = math.inf if seconds is None else time.monotonic() + seconds
        try:
            with _connected(self.config):
                self._run_trials(study, n_trials, deadline)
                n_seeds = self._seeds_affordable(study, deadline - time.monotonic())
                for finalist in tqdm(
                    self.finalists(study), "finalists", disable=self.quiet or None
                ):
                    self._run_again(study, finalist, n_seeds)
        except optuna.exceptions.StorageInternalError as error:
            reason = str(error.__cause__).partition("\n")[0]
            raise NotWrittenError(
                f"{self.path / STUDY_FILE} cannot be written: {reason}"
            ) from error

    def _run_trials(self, study: optuna.Study, n_trials: int | None, deadline: float) -> None:
        n_over = len(study.get_trials(deepcopy=False, states=_OVER))
        with tqdm(total=n_trials, initial=n_over, unit="trial", disable=self.quiet or None) as bar:
            while n_trials is None or n_over < n_trials:
                spare, needed = deadline - time.monotonic(), self._seconds_of_one_more(study)
                if needed > spare:
                    self._say(
                        f"no further trial: {max(0.0, spare):.0f} s are left, and one more, with "
                        f"the finalists' training after it, could take {needed:.0f} s"
                    )
                    break
                self._try(study, study.ask())
                n_over += 1
                bar.update()

    def _try(self, study: optuna.Study, trial: optuna.Trial) -> None:
        settings = {name: self._suggested(trial, name) for name in self.ranges}
        if trial.user_attrs.get(OWN):
            settings = self._own_settings()
        first_seed, name = trial.number * self.n_policies, f"trial-{trial.number}"
        seeds = range(first_seed, first_seed + self.n_policies)
        try:
            result = float(np.mean(self._train(settings, seeds, name, trial)))
        except (optuna.TrialPruned, DivergedError, ObservationError) as error:
            if not isinstance(error, optuna.TrialPruned):
                trial.set_user_attr(FAILURE, str(error))
            frozen = study.tell(trial, state=TrialState.PRUNED)
        else:
            frozen = study.tell(trial, result)
        self._say(described_trial(frozen, settings))

    def _say(self, line: str) -> None:
        if not self.quiet:
            tqdm.write(line, file=sys.stdout)

    def _suggested(self, trial: optuna.Trial, name: str) -> float:
        low, high = self.ranges[name]
        if isinstance(getattr(self.config.settings, name), int):
            return trial.suggest_int(name, int(low), int(high), log=True)
        if name in SHARES:
            return 1 - trial.suggest_float(parameter(name), 1 - high, 1 - low, log=True)
        return trial.suggest_float(name, low, high, log=True)

    def _run_again(self, study: optuna.Study, finalist: FrozenTrial, n_seeds: int) -> None:
        """Train a finalist with the finals' seeds that it has not had."""
        before = self.finals(study).get(finalist.number, [])
        seeds = range(FIRST_FINAL_SEED + len(before), FIRST_FINAL_SEED + n_seeds)
        if not seeds:
            return
        try:
            returns = self._train(self.settings(finalist), seeds, f"final-{finalist.number}", None)
        except (DivergedError, ObservationError):
            returns = [-math.inf] * len(seeds)
        finals = {**self.finals(study), finalist.number: before + returns}
        study.set_user_attr(FINALS, {str(number): kept for number, kept in finals.items()})

    def _train(
        self,
        settings: Mapping[str, Any],
        seeds: Sequence[int],
        name: str,
        trial: optuna.Trial | None,
    ) -> list[float]:
        """Train policies with these seeds. Return their returns.

        A policy that diverges ends its trial, and its return is minus infinity.
        """
        tried = self.config.settings.changed(**settings)
        configs = [
            self.config.changed(settings=tried, seed=self.config.seed + seed) for seed in seeds
        ]
        path, record = _unused(self.path / name), PopulationRecord([c.to_save() for c in configs])
        begin_population(path, record)
        outcome = execute(
            Plan(configs, [None] * len(configs), record=record),
            path,
            choose=False,
            watch=stopped_by_signals,
            draw=learning_curve.plot_learning_curve,
            meetings_of=None
            if trial is None
            else lambda path, record, learners: Reports(trial, learners),
        )
        return [
            _return_of(learner) if summary["finished"] else -math.inf
            for learner, summary in zip(outcome.learners, outcome.summaries, strict=True)
        ]

    def settings(self, trial: FrozenTrial) -> dict[str, float]:
        """Return a trial's settings by their names."""
        found = {name: trial.params[parameter(name)] for name in self.ranges}
        if trial.user_attrs.get(OWN):
            return self._own_settings()
        return {name: 1 - value if name in SHARES else value for name, value in found.items()}

    def finalists(self, study: optuna.Study) -> list[FrozenTrial]:
        """Return the best of the complete trials, the best first, and the trial of the config's
        settings, if it is complete.

        Only the finals can tell whether anything is better than these settings.
        """
        complete = ranked(study)
        if not self.n_finalists or not complete:
            return []
        best, others = complete[: self.n_finalists], complete[self.n_finalists :]
        return [*best, *(trial for trial in others if trial.user_attrs.get(OWN))]

    def finals(self, study: optuna.Study) -> dict[int, list[float]]:
        """Return the returns of the finalists' policies, by the trial's number."""
        kept = study.user_attrs.get(FINALS, {}).items()
        return {int(number): list(map(float, returns)) for number, returns in kept}

    def compared(self, study: optuna.Study) -> dict[int, list[float]]:
        """Return the present finalists' returns, with the seeds that all of them have had.

        A trial that was a finalist before can have had more seeds.
        """
        finals = self.finals(study)
        numbers = [trial.number for trial in self.finalists(study) if finals.get(trial.number)]
        n_seeds = min((len(finals[number]) for number in numbers), default=0)
        return {number: finals[number][:n_seeds] for number in numbers}

    def best(self, study: optuna.Study) -> FrozenTrial | None:
        """Return the finalist that did best in the finals, or without finals the best trial."""
        means = {
            number: float(np.mean(returns)) for number, returns in self.compared(study).items()
        }
        again = [trial for trial in self.finalists(study) if trial.number in means]
        if not again:
            return next(iter(ranked(study)), None)
        return max(again, key=lambda trial: means[trial.number])

    @property
    def _n_final_seeds(self) -> int:
        return max(FINAL_SEEDS, self.n_policies)

    def _seconds_of_one_more(self, study: optuna.Study) -> float:
        """Return the seconds that another trial takes, and the finals after it."""
        n_finalists = min(self.n_finalists + 1, len(ranked(study)) + 1) if self.n_finalists else 0
        n_policies = self.n_policies + n_finalists * self._n_final_seeds
        return n_policies * self._seconds_of_policy(study)

    def _seeds_affordable(self, study: optuna.Study, seconds: float) -> int:
        """Return the number of seeds, at least 1, that each finalist has time for."""
        of_one_seed = len(self.finalists(study)) * self._seconds_of_policy(study)
        if of_one_seed * self._n_final_seeds <= max(seconds, 0.0):
            return self._n_final_seeds
        return max(1, round(seconds / of_one_seed))

    def _seconds_of_policy(self, study: optuna.Study) -> float:
        """Return the seconds that a policy of the slowest trial took."""
        seconds = [
            trial.duration.total_seconds()
            for trial in study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
            if trial.duration is not None
        ]
        return max(seconds, default=0.0) / self.n_policies


def _connected(config: TrainConfig) -> contextlib.AbstractContextManager[None]:
    """Let all trials share one connection to a cluster."""
    if config.cluster == NONE:
        return contextlib.nullcontext()
    from workflow_rl.cluster.cluster import connected

    return connected(config.cluster, config.n_workers)


def ranked(study: optuna.Study) -> list[FrozenTrial]:
    """Return the trials that came to their end, the best first."""
    complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    return sorted(complete, key=lambda trial: -trial_score(trial))


def described_trial(trial: FrozenTrial, settings: Mapping[str, float]) -> str:
    """Return a line about a trial that is over."""
    result, why = f"{trial_score(trial):9.2f}", ""
    if FAILURE in trial.user_attrs:
        result, why = "failed", f": {trial.user_attrs[FAILURE]}"
    elif trial.state is TrialState.PRUNED:
        result = f"given up at {max(trial.intermediate_values) / REPORTS:.0%}"
    told = ", ".join(f"{name.replace('_', '-')} {value:.3g}" for name, value in settings.items())
    return f"trial {trial.number:3}  {result:>15}  {told}{why}"


def parameter(name: str) -> str:
    """Return a setting's name in the study."""
    return f"1 - {name}" if name in SHARES else name


def trial_score(trial: FrozenTrial) -> float:
    return -math.inf if trial.value is None else trial.value


def _unused(path: Path) -> Path:
    """Return the path, or if a stopped run has left files there, the path with a number."""
    number = 2
    found = path
    while found.exists():
        found, number = path.with_name(f"{path.name}-{number}"), number + 1
    return found


def write_best(path: Path, settings: Mapping[str, float]) -> None:
    write_json(path / "best.json", dict(settings))


def draw(study: optuna.Study, path: Path) -> list[Path]:
    """Draw Optuna's plots as PNG files, except plots for which there are too few trials."""
    from matplotlib import pyplot
    from optuna.visualization import matplotlib as plots

    pyplot.switch_backend("Agg")
    files = []
    for name in ("optimization_history", "param_importances", "slice", "intermediate_values"):
        file = path / f"{name}.png"
        with (
            only_warned(file),
            contextlib.suppress(ValueError, RuntimeError),
            warnings.catch_warnings(),
        ):
            # Optuna warns that these plots are experimental, matplotlib of their layout.
            warnings.simplefilter("ignore")
            getattr(plots, f"plot_{name}")(study)
            with replacing(file, "wb") as out:
                pyplot.gcf().savefig(out, dpi=120, format="png", bbox_inches="tight")
            files.append(file)
        pyplot.close("all")
    return files
