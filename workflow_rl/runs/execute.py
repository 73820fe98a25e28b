"""Check what a run needs, execute its plan, choose the best agents, and return the outcome."""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from workflow_rl import portable
from workflow_rl.agents.ppo.config import REWARD, budgets_of
from workflow_rl.collection.cluster_address import NONE
from workflow_rl.collection.worker_process import require_no_worker
from workflow_rl.environments.source import guests
from workflow_rl.errors import ConfigError, UserError
from workflow_rl.output_files import remove_own
from workflow_rl.runs.checkpoint import Checkpoint
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.learner import Draw, Learner
from workflow_rl.runs.loop import Meetings, Watch, train_together
from workflow_rl.runs.run_dir import make_run_folder
from workflow_rl.runs.training_state import has_skipped

if TYPE_CHECKING:
    # Only runs of several policies import these modules.
    from workflow_rl.runs.on_update import OnUpdate
    from workflow_rl.runs.several_policies import ExchangeConfig, PopulationRecord

FEW_UPDATES = 2
_log = logging.getLogger(__name__)


def warn_if_results_vary(config: TrainConfig) -> None:
    """Check the processor and the environment, and log why results may differ from run to run.
    Raises ConfigError if the processor or the environment cannot be used."""
    if not portable.is_native():
        if not portable.is_supported():
            raise ConfigError(
                "device",
                "this processor lacks AVX2 with FMA, without which its weights would differ from "
                f"other processors' weights: {portable.NATIVE}=1 trains with what it has",
            )
        if departures := portable.departures():
            _log.warning(
                "the weights may differ from another processor's, and between the trainers: %s",
                "; ".join(departures),
            )
    from workflow_rl.collection import try_in_worker  # This imports Gymnasium.

    difference = try_in_worker.check(config.environment, config.worker_timeout)
    config.plug_in.distribution(config.environment.spaces(), config.settings)
    require_costs(config)
    if difference is not None:
        _log.warning(
            "%s is not determined by its seed: %s. Runs of it will vary. An episode that has to be "
            "played again goes otherwise: after --resume, a lost worker, or, with "
            "--num-steps-per-env, an evaluation",
            config.env,
            difference,
        )


def require_costs(config: TrainConfig) -> None:
    """Raise ConfigError if a budget or `reward_from` names a cost that the environment lacks."""
    environment = config.environment
    names = environment.spaces().costs
    limits = getattr(config.settings, "budgets", {})
    asked = {
        "budgets": [budget.cost for budget in budgets_of(limits)],
        "reward_from": [name for name in config.reward_from if name != REWARD],
    }
    for field, costs in asked.items():
        for name in costs:
            if name in names:
                continue
            told = f"{name!r:.100} is no cost of {config.env}: its steps have "
            if names:
                raise ConfigError(field, f"{told}{', '.join(names)}")
            if environment.args.get("measures") is False:
                raise ConfigError(field, f"{told}costs only with ", "measures")
            raise ConfigError(
                field,
                f"{told}none. Give numbers as info['cost'], or by name in info['costs'], with "
                "every step from the first on",
            )


def hint_of_few_updates(config: TrainConfig) -> str | None:
    """Return a hint if the run learns once, twice or never; None if it learns more often."""
    steps = env_steps_of(config)
    needed = config.plug_in.steps_before_learning(config.settings)
    if needed and steps is not None and steps <= needed:
        return (
            f"this run learns nothing: its {steps:,} steps are no more than --warm-up-steps "
            f"{needed:,}"
        )
    n_updates = updates_of(config)
    per_update = config.episodes_per_update or config.steps_per_update
    if n_updates is not None and n_updates <= FEW_UPDATES:
        often = "once" if n_updates == 1 else "twice"
    elif n_updates is None and steps and per_update and steps <= FEW_UPDATES * per_update:
        often = "only a few times"
    else:
        return None
    total = "steps" if config.total_episodes is None else "episodes"
    unit = "steps" if config.episodes_per_update is None else "episodes"
    return (
        f"this run learns {often}: a larger --total-{total} or a smaller --{unit}-per-update lets "
        "it learn more often"
    )


def updates_of(config: TrainConfig) -> int | None:
    """Return the number of updates, or None if it is unknown, because episodes differ in length."""
    length, total = config.environment.episode_steps, env_steps_of(config)
    if config.num_steps_per_env is not None:
        assert config.steps_per_update is not None
        return None if total is None else math.ceil(total / config.steps_per_update)
    episodes = config.total_episodes
    if episodes is None and total is not None and length is not None:
        episodes = math.ceil(total / length)
    if episodes is None:
        return None
    if config.episodes_per_update is None and (length is None or config.async_rl):
        return None
    # The size of the first rollout is chosen before any episode's length is known. In overlapped
    # collecting, so are the sizes of further rollouts.
    first, size = config.episodes_of_rollout(0), config.episodes_of_rollout(length or 0)
    return 1 + max(0, math.ceil((episodes - first) / size))


def env_steps_of(config: TrainConfig) -> int | None:
    """Return the run's env steps, or None if the length of episodes is unknown."""
    if config.total_steps is not None:
        return config.total_steps
    assert config.total_episodes is not None
    steps = config.environment.episode_steps
    return None if steps is None else config.total_episodes * steps


MeetingsOf = Callable[[Path, "PopulationRecord | None", Sequence[Learner]], Meetings]
"""Makes the meetings of learners that learn from each other, from the folder and its record."""


@dataclass(frozen=True)
class Plan:
    """One run, or several policies of one run.

    configs: the config of each policy. resumed: each policy's checkpoint to continue from, or None
    for a new policy. exchange: how the policies learn from each other, or None. record: the record
    in the folder of several policies, if it exists. over: for a finished run, why there is nothing
    left to do.
    """

    configs: Sequence[TrainConfig]
    resumed: Sequence[Checkpoint | None]
    exchange: ExchangeConfig | None = None
    record: PopulationRecord | None = None
    over: ConfigError | None = None

    def folders(self, path: Path) -> list[Path]:
        if len(self.configs) == 1 and self.record is None:
            return [path]
        from workflow_rl.runs.several_policies import policy_folder

        return [policy_folder(path, number) for number in range(len(self.configs))]


def new_plan(config: TrainConfig, n_policies: int = 1) -> Plan:
    """Return the plan of new runs, each with its own seed. Raises ConfigError."""
    if n_policies == 1:
        return Plan([config], [None])
    from workflow_rl.runs.several_policies import member_configs

    return Plan(member_configs(config, n_policies), [None] * n_policies)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a plan.

    path: the run's folder. learners: each policy's learner, in its last state. summaries: the
    content of each summary.json. best: the number of the best policy. chosen: text for the user
    about the choice of the best agent, or None. record: the record of several policies, or None.
    """

    path: Path
    learners: Sequence[Learner]
    summaries: Sequence[dict[str, Any]]
    best: int
    chosen: str | None
    record: PopulationRecord | None


def require_ready(config: TrainConfig, begins: bool = True) -> None:
    """Check the device, processor, environment and cluster, and the teacher of a new run. Raises
    ConfigError if one of them cannot be used, and RuntimeError in a worker."""
    require_no_worker("nothing can be trained")
    require_device(config)
    warn_if_results_vary(config)
    require_cluster(config)
    if config.teacher is not None and begins:
        from workflow_rl.runs.copy_teacher import teacher_of

        teacher_of(config)


def require_device(config: TrainConfig) -> None:
    """Raise ConfigError if the device that the agent learns on is missing."""
    if config.device == "cuda" and not torch.cuda.is_available():
        why = "finds no CUDA device here" if torch.version.cuda else "is built without CUDA"
        raise ConfigError("device", f"torch {torch.__version__} {why}: use cpu")


def require_cluster(config: TrainConfig) -> None:
    """Raise ConfigError if Ray or the cluster is missing. Takes a few seconds."""
    if config.cluster != NONE:
        from workflow_rl.cluster.cluster import require_answer

        require_answer(config.cluster)


@contextlib.contextmanager
def run_folder(path: Path | None, config: TrainConfig) -> Iterator[Path]:
    """Yield the folder, or a new folder in `runs`. An error removes the new folder if it is empty.
    Raises UserError."""
    if path is not None:
        yield path
        return
    path = make_run_folder(config.mode, config.environment.label)
    try:
        yield path
    except BaseException:
        with contextlib.suppress(OSError):
            remove_own(path)
        raise


def execute(
    plan: Plan,
    path: Path,
    *,
    init_from: Checkpoint | None = None,
    quiet: bool = True,
    trace: Path | None = None,
    choose: bool = True,
    watch: Watch = contextlib.nullcontext,
    meetings_of: MeetingsOf | None = None,
    draw: Draw | None = None,
    on_update: OnUpdate | None = None,
) -> Outcome:
    """Train the policies of a plan, new or resumed, in a folder.

    Args:
        plan: what is trained. `require_ready` has accepted its first config.
        path: a new or empty folder, or the folder of the run to resume.
        init_from: a checkpoint whose agent new policies begin with.
        trace: file for a record of the activities of workers and learners over time.
        choose: let the environment choose the best agent of each run, if it can.
        watch: see `loop.train_together`.
        meetings_of: makes the learners' meetings, if they have any.

    Raises:
        UserError: a checkpoint does not fit, or the folder cannot be used.
        Exception: the errors of `loop.train_together`.
    """
    learners = [
        Learner(config, folder, resumed, init_from, draw, on_update)
        for config, folder, resumed in zip(
            plan.configs, plan.folders(path), plan.resumed, strict=True
        )
    ]
    record: PopulationRecord | None = None
    chosen = None

    def begin() -> Meetings:
        nonlocal record
        record = _record_of(plan, path)
        return Meetings() if meetings_of is None else meetings_of(path, record, learners)

    @contextlib.contextmanager
    def watched(work: Any) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            if record is not None:
                from workflow_rl.runs.several_policies import unfinished_population

                stack.enter_context(unfinished_population(path))
            stack.enter_context(watch(work))
            yield

    def conclude(summaries: Sequence[dict[str, Any]]) -> None:
        nonlocal chosen
        best = best_of(summaries)
        with watch(None):
            for number, (learner, summary) in enumerate(zip(learners, summaries, strict=True)):
                if summary["finished"] and (plan.exchange is None or number == best):
                    chosen = choose_best(learner.path, learner.config, summary, quiet)

    summaries = train_together(
        *(learners, quiet, trace, watched),
        begin=begin,
        conclude=conclude if choose else None,
    )
    best = best_of(summaries)
    if record is not None:
        from workflow_rl.runs.several_policies import finish_population

        finish_population(path, summaries, best)
    return Outcome(path, learners, summaries, best, chosen, record)


def choose_best(
    run_path: Path, config: TrainConfig, summary: Mapping[str, Any], quiet: bool = True
) -> str | None:
    """Let a guest save the run's best candidate as best.safetensors. Return text for the user.

    Returns None without a choice if evaluations in the run (eval_every) have chosen, or if the run
    has budgets or another reward, because guests choose by the return.
    """
    guest = guests.get(config.env)
    if guest is None or (config.eval_every and summary["best_score"] is not None):
        return None
    if config.reward_from or getattr(config.settings, "budgets", {}):
        return None
    try:
        return guest.choose_best(run_path, quiet)
    except (UserError, OSError) as error:
        _log.warning("best.safetensors stays as training left it: %s", error)
        return None


def _record_of(plan: Plan, path: Path) -> PopulationRecord | None:
    """Return the record of several policies, or None. The record of new policies is written."""
    if len(plan.configs) == 1 or plan.record is not None:
        return plan.record
    from workflow_rl.runs.several_policies import PopulationRecord, begin_population

    exchange = None if plan.exchange is None else plan.exchange.to_dict()
    record = PopulationRecord([config.to_save() for config in plan.configs], exchange)
    begin_population(path, record)
    return record


def best_of(summaries: Sequence[dict[str, Any]]) -> int:
    """Return the number of the policy with the best last training episodes.

    An unfinished policy, or a policy with too many unplayable episodes, is the best only if there
    is no other policy. A policy that holds its budgets is better than one that does not.
    """

    def score(number: int) -> tuple[bool, bool, bool, float]:
        summary = summaries[number]
        mean = summary["return_mean_recent"]
        if mean is None or has_skipped(summary["skipped_episodes"], summary["episodes"]):
            mean = -math.inf
        return summary["finished"], mean > -math.inf, summary.get("budgets_hold", True), float(mean)

    return max(range(len(summaries)), key=score)
