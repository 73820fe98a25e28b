"""A search for settings: Optuna proposes, short runs tell, and the finalists run again.

Akiba et al. 2019, "Optuna: a next-generation hyperparameter optimization framework".
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import sqlite3
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy import URL
from tqdm import tqdm

from agents.algorithm import DivergedError
from workflow_rl.collection.cluster import connected
from workflow_rl.collection.rollout import NotFiniteError
from workflow_rl.output_files import NOT_OURS, replacing, write_text
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.exchange import SHARES
from workflow_rl.runs.folder import RunDirError
from workflow_rl.runs.learner import Beginning, Learner
from workflow_rl.runs.learning_curve import only_warned
from workflow_rl.runs.loop import stopped_by_signals, train_together
from workflow_rl.runs.population_dir import PopulationRecord, begin_population, policy_folder

STUDY_FILE = "study.db"
REPORTS = 10
"""So often a trial says how it does, and may be given up."""
FINAL_SEEDS = 3
"""So often a finalist is trained again, time allowing; as often as a trial if that is more."""
FIRST_FINAL_SEED = 1_000_000
"""No trial has those from here on: a score that a trial was chosen for owes something to luck."""
FINALS = "returns of finalists"

_JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")
"""A journal of SQLite's begins with it, and ends with it if the journal names another file."""

_OVER = (TrialState.COMPLETE, TrialState.PRUNED)

Ranges = Mapping[str, tuple[float, float]]


class Reports:
    """Meetings at which a trial's policies say how they do; `optuna.TrialPruned` gives it up."""

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

    def can_rescue(self, learner: Learner) -> bool:
        return False

    def may_lose(self, learner: Learner) -> bool:
        return False


def score_of(learners: Sequence[Learner]) -> float:
    """Mean over the policies of the mean return of their last training episodes; minus infinity
    before any has ended, and where some could not be played."""
    return float(np.mean([_return_of(learner) for learner in learners]))


def _return_of(learner: Learner) -> float:
    returns = list(learner.state.recent_returns)
    if not returns or learner.state.has_skipped():
        return -math.inf
    return float(np.mean(returns))


@dataclass(frozen=True)
class Search:
    """What is tried, and how. config: what all trials have in common. ranges: of the settings that
    they differ in. n_policies: each trial's, with seeds of their own. n_finalists: of the best
    trials, how many run again, and the first trial with them."""

    config: TrainConfig
    ranges: Ranges
    n_policies: int
    n_finalists: int
    path: Path
    quiet: bool

    def study(self) -> optuna.Study:
        """The one kept in the folder, or a new one, whose first trial has the config's settings."""
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        file = (self.path / STUDY_FILE).absolute()
        _require_own_database(file)
        try:
            study = optuna.create_study(
                storage=_url_of(file), study_name="tune", direction="maximize", load_if_exists=True
            )
            trials = study.get_trials(deepcopy=False)
        except Exception as error:
            # SQLAlchemy's own, of many kinds.
            raise RunDirError(f"{self.path / STUDY_FILE} cannot be used: {error}") from None
        try:
            self.finals(study)
            for trial in ranked(study):
                self.settings(trial)
        except (*NOT_OURS, RuntimeError) as error:
            raise RunDirError(
                f"{file} holds what no search of this package leaves: {error!r:.200}"
            ) from None
        # Otherwise a study that goes on would propose again what it began with.
        study.sampler = optuna.samplers.TPESampler(seed=self.config.seed + len(trials))
        study.pruner = optuna.pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=REPORTS // 4)
        if not trials:
            study.enqueue_trial(self._own_parameters(), skip_if_exists=True)
        for trial in trials:
            if trial.state is TrialState.RUNNING:  # Its process is gone.
                study.tell(trial.number, state=TrialState.FAIL)
                study.enqueue_trial(trial.params)
        return study

    def _own_parameters(self) -> dict[str, float]:
        """The config's settings, where they are in their ranges, as Optuna has them."""
        own = {}
        for name, (low, high) in self.ranges.items():
            value = getattr(self.config.ppo, name)
            if low <= value <= high:
                own[parameter(name)] = 1 - value if name in SHARES else value
        return own

    def run(self, study: optuna.Study, n_trials: int | None, seconds: float | None) -> None:
        """Try settings until there have been so many trials, or until only the finalists' time is
        left of so many seconds. Raises ClusterError, StopRequested and whatever else ends a
        training."""
        deadline = math.inf if seconds is None else time.monotonic() + seconds
        with connected(self.config.cluster, self.config.n_workers):
            self._run_trials(study, n_trials, deadline)
            n_seeds = self._seeds_affordable(study, deadline - time.monotonic())
            for finalist in tqdm(self.finalists(study), "finalists", disable=self.quiet or None):
                self._run_again(study, finalist, n_seeds)

    def _run_trials(self, study: optuna.Study, n_trials: int | None, deadline: float) -> None:
        n_over = len(study.get_trials(deepcopy=False, states=_OVER))
        with tqdm(total=n_trials, initial=n_over, unit="trial", disable=self.quiet or None) as bar:
            while n_trials is None or n_over < n_trials:
                left, needed = deadline - time.monotonic(), self._seconds_of_one_more(study)
                if needed > left:
                    self._say(
                        f"no further trial: {max(0.0, left):.0f} s are left, and one more, with "
                        f"the finalists' training after it, could take {needed:.0f} s"
                    )
                    break
                self._try(study, study.ask())
                n_over += 1
                bar.update()

    def _try(self, study: optuna.Study, trial: optuna.Trial) -> None:
        settings = {name: self._suggested(trial, name) for name in self.ranges}
        first_seed, name = trial.number * self.n_policies, f"trial-{trial.number}"
        seeds = range(first_seed, first_seed + self.n_policies)
        try:
            result = float(np.mean(self._train(settings, seeds, name, trial)))
        except (optuna.TrialPruned, DivergedError, NotFiniteError):
            frozen = study.tell(trial, state=TrialState.PRUNED)
        else:
            frozen = study.tell(trial, result)
        self._say(described(frozen, settings))

    def _say(self, line: str) -> None:
        if not self.quiet:
            tqdm.write(line, file=sys.stdout)

    def _suggested(self, trial: optuna.Trial, name: str) -> float:
        low, high = self.ranges[name]
        if isinstance(getattr(self.config.ppo, name), int):
            return trial.suggest_int(name, int(low), int(high), log=True)
        if name in SHARES:
            return 1 - trial.suggest_float(parameter(name), 1 - high, 1 - low, log=True)
        return trial.suggest_float(name, low, high, log=True)

    def _run_again(self, study: optuna.Study, finalist: FrozenTrial, n_seeds: int) -> None:
        """With so many of the finals' seeds, less those that it has had."""
        before = self.finals(study).get(finalist.number, [])
        seeds = range(FIRST_FINAL_SEED + len(before), FIRST_FINAL_SEED + n_seeds)
        if not seeds:
            return
        try:
            returns = self._train(self.settings(finalist), seeds, f"final-{finalist.number}", None)
        except (DivergedError, NotFiniteError):
            returns = [-math.inf] * len(seeds)
        finals = {**self.finals(study), finalist.number: before + returns}
        study.set_user_attr(FINALS, {str(number): one for number, one in finals.items()})

    def _train(
        self,
        settings: Mapping[str, Any],
        seeds: Sequence[int],
        name: str,
        trial: optuna.Trial | None,
    ) -> list[float]:
        """Policies with these seeds, and their returns; minus infinity of one that diverges. A
        trial ends with the first that does."""
        ppo = dataclasses.replace(self.config.ppo, **settings)
        configs = [
            dataclasses.replace(self.config, ppo=ppo, seed=self.config.seed + seed)
            for seed in seeds
        ]
        path = _unused(self.path / name)
        begin_population(path, PopulationRecord([config.to_dict() for config in configs]))
        learners = [
            Learner(Beginning(config, policy_folder(path, number)))
            for number, config in enumerate(configs)
        ]
        summaries = train_together(
            learners,
            quiet=True,
            watch=stopped_by_signals,
            meetings=None if trial is None else Reports(trial, learners),
        )
        return [
            _return_of(learner) if summary["finished"] else -math.inf
            for learner, summary in zip(learners, summaries, strict=True)
        ]

    def settings(self, trial: FrozenTrial) -> dict[str, float]:
        """A trial's, by their names in PPOConfig."""
        found = {name: trial.params[parameter(name)] for name in self.ranges}
        return {name: 1 - value if name in SHARES else value for name, value in found.items()}

    def finalists(self, study: optuna.Study) -> list[FrozenTrial]:
        """The best of those that were not given up, the best first; then the first trial, for only
        the finals can tell whether anything is better."""
        complete = ranked(study)
        if not self.n_finalists or not complete:
            return []
        best = complete[: self.n_finalists]
        first = min(complete, key=lambda trial: trial.number)
        return best if first in best else [*best, first]

    def finals(self, study: optuna.Study) -> dict[int, list[float]]:
        """Returns of the policies that finalists have trained again, by the trial's number."""
        kept = study.user_attrs.get(FINALS, {}).items()
        return {int(number): [float(one) for one in returns] for number, returns in kept}

    def compared(self, study: optuna.Study) -> dict[int, list[float]]:
        """Of the finals those of the present finalists, with the seeds that all of them have had:
        one that was a finalist before can have had more."""
        finals = self.finals(study)
        own = {one.number: finals.get(one.number, []) for one in self.finalists(study)}
        n_seeds = min((len(returns) for returns in own.values() if returns), default=0)
        return {number: returns[:n_seeds] for number, returns in own.items() if returns}

    def best(self, study: optuna.Study) -> FrozenTrial | None:
        """The finalist that did best with the same seeds as the others, its trial aside; without
        finals the best trial."""
        means = {number: float(np.mean(one)) for number, one in self.compared(study).items()}
        again = [trial for trial in self.finalists(study) if trial.number in means]
        if not again:
            return next(iter(ranked(study)), None)
        return max(again, key=lambda trial: means[trial.number])

    @property
    def _n_final_seeds(self) -> int:
        return max(FINAL_SEEDS, self.n_policies)

    def _seconds_of_one_more(self, study: optuna.Study) -> float:
        """Those that a trial more takes, and the finals after it."""
        n_finalists = min(self.n_finalists + 1, len(ranked(study)) + 1) if self.n_finalists else 0
        n_policies = self.n_policies + n_finalists * self._n_final_seeds
        return n_policies * self._seconds_of_policy(study)

    def _seeds_affordable(self, study: optuna.Study, seconds: float) -> int:
        """How many each finalist can have within so many seconds; one at least."""
        of_one_seed = len(self.finalists(study)) * self._seconds_of_policy(study)
        if of_one_seed * self._n_final_seeds <= seconds:
            return self._n_final_seeds
        return max(1, round(seconds / of_one_seed))

    def _seconds_of_policy(self, study: optuna.Study) -> float:
        """Of those of the slowest trial."""
        seconds = [
            trial.duration.total_seconds()
            for trial in study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
            if trial.duration is not None
        ]
        return max(seconds, default=0.0) / self.n_policies


def _url_of(database: Path) -> str:
    """As SQLAlchemy names a file, whatever the names of its folders: Optuna fills in braces."""
    url = URL.create("sqlite", database=str(database)).render_as_string()
    return url.replace("{", "{{").replace("}", "}}")


def _require_own_database(database: Path) -> None:
    """Raises RunDirError for a database from which SQLite would change a file elsewhere."""
    for end in ("", "-journal", "-wal", "-shm"):
        file = Path(f"{database}{end}")
        if file.is_symlink():
            raise RunDirError(f"{file} is a link: put the file itself there")
    journal = Path(f"{database}-journal")
    # SQLite plays back the journal of a crash, which can name a file that SQLite then removes. Only
    # writing to several databases at once leaves such a name, and Optuna never does that.
    if journal.exists() and _last_bytes(journal, len(_JOURNAL_MAGIC)) == _JOURNAL_MAGIC:
        raise RunDirError(f"{journal} names another file: it is not one of Optuna's")
    if database.exists() and _runs_statements(database):
        raise RunDirError(f"{database} has views or triggers: it is not one of Optuna's")


def _runs_statements(database: Path) -> bool:
    """Whether reading or writing its tables runs what its author wrote, perhaps without an end."""
    if not database.is_file():
        raise RunDirError(f"{database} is no file")
    schema = "SELECT 1 FROM sqlite_master WHERE type NOT IN ('table', 'index')"
    try:
        with contextlib.closing(sqlite3.connect(database)) as connection:
            return connection.execute(schema).fetchone() is not None
    except sqlite3.Error as error:
        raise RunDirError(f"{database} cannot be used: {error}") from None


def _last_bytes(path: Path, number: int) -> bytes:
    """Raises RunDirError if it is no file."""
    if not path.is_file():
        raise RunDirError(f"{path} is no file")
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - number))
        return file.read()


def ranked(study: optuna.Study) -> list[FrozenTrial]:
    """The trials that came to their end, the best first."""
    complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    return sorted(complete, key=lambda trial: -score(trial))


def described(trial: FrozenTrial, settings: Mapping[str, float]) -> str:
    """A trial that is over, in a line."""
    result = f"{score(trial):9.2f}"
    if trial.state is TrialState.PRUNED:
        share = max(trial.intermediate_values, default=0) / REPORTS
        result = f"given up at {share:.0%}" if share else "diverged"
    own = ", ".join(f"{name.replace('_', '-')} {value:.3g}" for name, value in settings.items())
    return f"trial {trial.number:3}  {result:>15}  {own}"


def parameter(name: str) -> str:
    """A setting's name in the study."""
    return f"1 - {name}" if name in SHARES else name


def score(trial: FrozenTrial) -> float:
    """Of a complete trial."""
    return -math.inf if trial.value is None else trial.value


def _unused(path: Path) -> Path:
    """The path, with a number behind it if a run that was stopped has left something there."""
    number = 2
    found = path
    while found.exists():
        found, number = path.with_name(f"{path.name}-{number}"), number + 1
    return found


def write_best(path: Path, settings: Mapping[str, float]) -> None:
    """Leave the settings in the folder."""
    write_text(path / "best.json", json.dumps(dict(settings), indent=2) + "\n")


def draw(study: optuna.Study, path: Path) -> list[Path]:
    """Optuna's own plots, as PNG files. Those that make no sense yet are left out."""
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
            # That these plots are experimental, and that their layout is tight.
            warnings.simplefilter("ignore")
            getattr(plots, f"plot_{name}")(study)
            with replacing(file, "wb") as out:
                pyplot.gcf().savefig(out, dpi=120, format="png", bbox_inches="tight")
            files.append(file)
        pyplot.close("all")
    return files
