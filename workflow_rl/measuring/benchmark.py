"""Measure how fast each way of collecting plays episodes, compared with the machine's limit.

The ceiling is measured, not assumed: one free-running process a core, each playing episodes with
the same policy and sending nothing. Every variant's turn follows a turn of the ceiling and is
compared with the ceiling of the same round.

The variant STEPS plays as the ceiling does, but only the calls of the environments count: this is
the speed of a simulator, resets included.
"""

from __future__ import annotations

import functools
import itertools
import math
import statistics
import tempfile
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import cloudpickle
from tqdm import tqdm

from workflow_rl.collection.messages import Command
from workflow_rl.collection.player import play_episodes
from workflow_rl.collection.rollout import utilisation
from workflow_rl.environments.episode import EpisodeSpec, SeedStream
from workflow_rl.machine_facts import environment, usable_cores
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.resolve import EPISODES_PER_UPDATE
from workflow_rl.text_table import text_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from prettytable import PrettyTable

    from workflow_rl.agents.policies.numpy_policy import Actor
    from workflow_rl.collection.pool import AnyPool
    from workflow_rl.collection.rollout import Collector
    from workflow_rl.environments.env_batch import EnvBatch
    from workflow_rl.environments.environment import Tell


STEPS = "steps"
VARIANTS = ("sync", "sync-packed", "async", "sync-training", "async-training", STEPS)
CEILING = "ceiling"
COLOURS = {
    "sync": "C1",
    "sync-packed": "C3",
    "async": "C0",
    "sync-training": "C8",
    "async-training": "C9",
    "steps": "C2",
}

LABEL_HEIGHT = 0.14
"""Height of a label of three lines, as a share of the height of the axes."""


class Variant(NamedTuple):
    """One bar of the chart.

    name: one of VARIANTS, or CEILING. simulator: the name of the env_args that are measured.
    """

    name: str
    simulator: str
    config: TrainConfig

    def __str__(self) -> str:
        return f"{self.simulator} {self.name}, {self.config.n_envs} envs"


class Rate(NamedTuple):
    """The result of one turn. worker_utilisation: from 0 to 1."""

    episodes_per_second: float
    env_steps_per_second: float
    worker_utilisation: float


Turn: TypeAlias = Callable[[int], Rate]
"""Measures a variant once, in the round of that number."""


def measured_rows(
    env: str,
    simulators: Mapping[str, Mapping[str, Any]],
    n_envs: Sequence[int],
    names: Sequence[str],
    rounds: int,
    seconds: float,
    episodes: int | None = None,
    seed: int = 0,
    quiet: bool = True,
) -> list[dict[str, Any]]:
    """Measure variants of an environment in turns, and return their rows: see `make_rows`.

    simulators: the env_args to measure with, by name. names: some of VARIANTS. seconds: length of
    a turn of the ceiling. episodes: of a turn, instead of what the ceiling plays in that time.

    Raises ConfigError, TooManyFailuresError, StopRequested.
    """
    settings: dict[str, Any] = {"env": env, "seed": seed}
    of_a_turn = {
        simulator: episodes
        or episodes_in(seconds, simulator, max(n_envs), env_args=env_args, **settings)
        for simulator, env_args in simulators.items()
    }
    variants = make_variants(simulators, n_envs, names, of_a_turn, **settings)
    return make_rows(variants, measure(variants, rounds, seconds, quiet))


def make_variants(
    simulators: Mapping[str, Mapping[str, Any]],
    n_envs: Sequence[int],
    names: Sequence[str],
    episodes: Mapping[str, int],
    **settings: Any,
) -> list[Variant]:
    """Return every combination once, and each simulator's ceiling first. Raises ConfigError.

    simulators: the env_args of each, by name. episodes: of a turn, at least, by simulator; rounded
    up to a multiple of the number of envs, so that synchronous collection leaves no env idle at
    the end. settings: further fields of TrainConfig.
    """
    variants = []
    for simulator, env_args in simulators.items():
        of_env = {**settings, "env_args": env_args}
        variants.append(_ceiling(simulator, episodes[simulator], max(n_envs), **of_env))
        for number in dict.fromkeys(n_envs):
            for name in dict.fromkeys(names):
                if name == STEPS:
                    config = _ceiling(simulator, episodes[simulator], number, **of_env).config
                    variants.append(Variant(name, simulator, config))
                    continue
                packed = math.ceil(number / usable_cores()) if name == "sync-packed" else None
                config = TrainConfig(
                    "async" if name.startswith("async") else "sync",
                    number,
                    envs_per_worker=packed,
                    total_episodes=math.ceil(episodes[simulator] / number) * number,
                    episodes_per_update=_rollout_size(number),
                    **of_env,
                )
                variants.append(Variant(name, simulator, config))
    # With one env a process, STEPS is the same for all numbers of envs.
    return list({str(variant): variant for variant in variants}.values())


def _rollout_size(n_envs: int) -> int:
    return math.ceil(EPISODES_PER_UPDATE / n_envs) * n_envs


def _ceiling(simulator: str, episodes: int, n_envs: int, **settings: Any) -> Variant:
    """Return the variant of one process a core.

    A process has its share of n_envs if one call or one forward pass serves several envs, whose
    episodes are equally long. Otherwise a process has one env, because the unfinished episodes of
    further envs would not count when the time is up.
    """
    n_workers = usable_cores()
    config = TrainConfig(
        "async", n_workers, n_workers=n_workers, total_episodes=episodes, **settings
    )
    if config.environment.plays_together and config.environment.episode_steps is not None:
        config = config.changed(n_envs=max(n_envs, n_workers))
    return Variant(
        CEILING, simulator, config.changed(episodes_per_update=_rollout_size(config.n_envs))
    )


def episodes_in(seconds: float, simulator: str, n_envs: int, **settings: Any) -> int:
    """Return how many episodes the machine plays in these seconds, with at most `n_envs` envs."""
    with ExitStack() as stack:
        variant = _ceiling(simulator, EPISODES_PER_UPDATE, n_envs, **settings)
        rate = _prepare(variant, seconds, stack)(0)
    return math.ceil(rate.episodes_per_second * seconds)


def measure(
    variants: Sequence[Variant], rounds: int, seconds: float, quiet: bool = True
) -> list[list[Rate]]:
    """Return each variant's rates, one a round. Raises TooManyFailuresError, StopRequested.

    seconds: length of a turn of the ceiling. The ceiling has half a turn before every other
    variant's turn, and its rate in a round is the mean of those: the machine's speed throughout
    the round. Workers start and warm up before the first round and idle between their turns; only
    training runs start workers of their own, outside the measured time.
    """
    with ExitStack() as stack:
        prepared = [(variant, _prepare(variant, seconds / 2, stack)) for variant in variants]
        ceilings = {
            variant.simulator: turn for variant, turn in prepared if variant.name == CEILING
        }

        beside: dict[str, list[list[Rate]]] = {
            simulator: [[] for _ in range(rounds)] for simulator in ceilings
        }

        def measure_beside_ceiling(variant: Variant, turn: Turn, number: int) -> Rate:
            ceiling = ceilings[variant.simulator](number)
            beside[variant.simulator][number].append(ceiling)
            return turn(number)

        turns = {
            str(variant): functools.partial(measure_beside_ceiling, variant, turn)
            for variant, turn in prepared
            if variant.name != CEILING
        }
        rates = in_turns(turns, rounds, quiet)
    for variant in variants:
        if variant.name == CEILING:
            rates[str(variant)] = [_mean(of_round) for of_round in beside[variant.simulator]]
    return [rates[str(variant)] for variant in variants]


def _mean(rates: Sequence[Rate]) -> Rate:
    return Rate(*map(statistics.mean, zip(*rates, strict=True)))


def _prepare(variant: Variant, ceiling_seconds: float, stack: ExitStack) -> Turn:
    from workflow_rl.runs.learner import make_agent
    from workflow_rl.runs.make_schedule import make_collector, make_pool

    config = variant.config
    if variant.name.endswith("-training"):
        _train(config.changed(total_episodes=config.n_envs), 0)
        return functools.partial(_train, config)
    policy = make_agent(config).policy_parameters().actor()
    pool = stack.enter_context(make_pool(config))
    collector = make_collector(pool, config)
    collector.collect(policy, _specs(config, 0)[: config.n_envs])
    if variant.name in (CEILING, STEPS):
        seconds = ceiling_seconds if variant.name == CEILING else 2 * ceiling_seconds
        is_alone = variant.name == STEPS
        return functools.partial(_run_freely, config, pool, policy, seconds, is_alone)
    return functools.partial(_collect, config, collector, policy)


def _specs(config: TrainConfig, number: int) -> list[EpisodeSpec]:
    """Return the episodes of a round: the same for all variants of equal length."""
    from workflow_rl.runs.make_schedule import episode_specs

    assert config.total_episodes is not None
    first = number * config.total_episodes
    return episode_specs(config, range(first, first + config.total_episodes), SeedStream.BENCHMARK)


def _run_freely(
    config: TrainConfig, pool: AnyPool, policy: Actor, seconds: float, is_alone: bool, number: int
) -> Rate:
    """Return the rate of all workers together, which send nothing while they play: the ceiling.

    is_alone: see `_play_freely`.
    """
    play = cloudpickle.dumps(
        functools.partial(_play_freely, policy, _specs(config, number), seconds, is_alone)
    )
    for worker in range(pool.n_workers):
        pool.send(worker, Command.ASK, play)
    counts = [pool.receive(worker).result for worker in range(pool.n_workers)]
    for worker in range(pool.n_workers):
        assert pool.receive(worker).result is None  # The worker's end of its turn.
    return Rate(
        sum(episodes / taken for episodes, _, taken in counts),
        sum(env_steps / taken for _, env_steps, taken in counts),
        1.0,
    )


def steps_per_second(config: TrainConfig, seconds: float) -> float:
    """Return the speed of a config's envs alone, all in this process: see STEPS.

    seconds: length of the measurement.
    """
    from workflow_rl.runs.learner import make_agent

    policy, rates = make_agent(config).policy_parameters().actor(), list[float]()
    envs, specs = config.environment.make_envs(config.n_envs), _specs(config, 0)

    def note(_: int, env_steps: int, taken: float) -> None:
        rates.append(env_steps / taken)

    for length in (0.0, seconds):  # The first episodes load compiled code.
        _play_freely(policy, specs, length, True, envs, note)
    return rates[-1]


def _play_freely(
    policy: Actor,
    specs: Sequence[EpisodeSpec],
    seconds: float,
    is_alone: bool,
    envs: EnvBatch,
    tell: Tell,
) -> None:
    """Play the episodes again and again for these seconds. Tell the number of episodes, the number
    of steps, and the seconds.

    is_alone: whether to tell the seconds of the envs alone, in which nobody acts.
    """
    start, timed = time.perf_counter(), _TimedEnvs(envs)
    episodes = env_steps = 0
    for finished in play_episodes(timed, policy, itertools.cycle(specs)):
        episodes += len(finished)
        env_steps += sum(trajectory.length for trajectory in finished)
        if (taken := time.perf_counter() - start) >= seconds:
            tell(episodes, env_steps, timed.seconds if is_alone else taken)
            return


class _TimedEnvs:
    """Envs that count the seconds of their calls. An EnvBatch."""

    def __init__(self, envs: EnvBatch) -> None:
        self.n_envs = envs.n_envs
        self.seconds = 0.0
        self.reset = self._timed(envs.reset)
        self.step = self._timed(envs.step)
        self.close = envs.close

    def _timed(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any) -> Any:
            start = time.perf_counter()
            answer = call(*arguments)
            self.seconds += time.perf_counter() - start
            return answer

        return timed


def _collect(config: TrainConfig, collector: Collector, policy: Actor, number: int) -> Rate:
    # In rollouts of a training run's size: at the end of each, some workers wait for others.
    specs, size = _specs(config, number), config.episodes_per_update
    assert size is not None
    rollouts = [collector.collect(policy, specs[n : n + size]) for n in range(0, len(specs), size)]
    seconds = sum(rollout.collect_seconds for rollout in rollouts)
    busy_seconds = sum(rollout.busy_seconds for rollout in rollouts)
    worker_seconds = sum(rollout.worker_seconds for rollout in rollouts)
    return Rate(
        len(specs) / seconds,
        sum(rollout.env_steps for rollout in rollouts) / seconds,
        utilisation(busy_seconds, worker_seconds),
    )


def _train(config: TrainConfig, number: int) -> Rate:
    """Run a whole training, files and all. The run's clock leaves out the workers' start."""
    from workflow_rl.runs.loop import train_policy

    config = config.changed(seed=config.seed + number)
    with tempfile.TemporaryDirectory() as folder:
        summary = train_policy(config, Path(folder), quiet=True)
    return Rate(
        summary["episodes_per_second_run"],
        summary["env_steps"] / summary["wall_seconds"],
        summary["worker_utilisation_run"],
    )


def make_rows(variants: Sequence[Variant], rates: Sequence[Sequence[Rate]]) -> list[dict[str, Any]]:
    """Return a row for each variant, as the JSON file has them: medians over the rounds.

    ratio_to_ceiling, speedup_over_sync: medians of the ratios within each round; the latter is None
    where the variant "sync" of the same simulator and number of envs was not measured.
    """
    columns = {
        (variant.name, variant.simulator, variant.config.n_envs): list(zip(*rounds, strict=True))
        for variant, rounds in zip(variants, rates, strict=True)
    }
    ceilings = {key[1]: rates for key, rates in columns.items() if key[0] == CEILING}
    made_with = environment()
    rows = []
    for name, simulator, config in variants:
        episodes, steps, utilisations = columns[name, simulator, config.n_envs]
        sync = None
        if name != CEILING:
            sync = columns.get(("sync", simulator, config.n_envs))
        rows.append(
            {
                "env": config.env,
                **config.environment.args,
                "mode": "sync" if name == "sync-packed" else name,
                "variant": name,
                "simulator": simulator,
                "n_envs": config.n_envs,
                "n_workers": config.n_workers,
                "envs_per_worker": config.envs_per_worker,
                "episodes_per_second": statistics.median(episodes),
                "env_steps_per_second": statistics.median(steps),
                "worker_utilisation": statistics.median(utilisations),
                "ratio_to_ceiling": median_ratio(episodes, ceilings[simulator][0]),
                "speedup_over_sync": None if sync is None else median_ratio(episodes, sync[0]),
                "episodes_per_second_by_round": list(episodes),
                "seed": config.seed,
                **made_with,
            }
        )
    return rows


def benchmark_table(rows: Sequence[Mapping[str, Any]]) -> PrettyTable:
    headings = ["simulator", "mode", "envs", "workers", "episodes/s", "steps/s", "utilisation"]
    cells, groups = [], []
    for row in rows:
        n_envs = None if row["variant"] == "ceiling" else row["n_envs"]
        speedup = row["speedup_over_sync"]
        groups.append((row["simulator"], n_envs))
        cells.append(
            [
                row["simulator"],
                row["variant"],
                "" if n_envs is None else n_envs,
                row["n_workers"],
                f"{row['episodes_per_second']:.1f}",
                f"{row['env_steps_per_second']:.0f}",
                f"{row['worker_utilisation']:.1%}",
                f"{row['ratio_to_ceiling']:.1%}",
                "" if speedup is None else f"{speedup:.2f}",
            ]
        )
    return text_table([*headings, "of ceiling", "x sync"], cells, left=2, groups=groups)


def benchmark_figure(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """Draw the episodes per second of every variant and the ceiling; a panel for each simulator."""
    from matplotlib.figure import Figure  # Whoever measures does without.

    simulators = list(dict.fromkeys(row["simulator"] for row in rows))
    n_bars = max(sum(row["simulator"] == name for row in rows) - 1 for name in simulators)
    figure = Figure(figsize=(len(simulators) * max(4.0, 1.1 * n_bars), 4.6), layout="constrained")
    panels = figure.subplots(1, len(simulators), squeeze=False)[0]
    for axes, simulator in zip(panels, simulators, strict=True):
        (ceiling,) = (
            row for row in rows if row["simulator"] == simulator and row["variant"] == "ceiling"
        )
        bars = [row for row in rows if row["simulator"] == simulator and row is not ceiling]
        heights = [row["episodes_per_second"] for row in bars]
        axes.bar(range(len(bars)), heights, 0.92, color=[COLOURS[row["variant"]] for row in bars])
        axes.set_xticks(
            range(len(bars)),
            [f"{row['variant'].replace('-', chr(10))}\n{row['n_envs']} envs" for row in bars],
        )
        limit = ceiling["episodes_per_second"]
        top = 1.35 * max(*heights, limit)
        for index, row in enumerate(bars):
            # A label goes into its bar where the line of the ceiling would run through the label.
            is_within = heights[index] < limit < heights[index] + LABEL_HEIGHT * top
            axes.annotate(
                f"{row['episodes_per_second']:.1f}/s\n{row['ratio_to_ceiling']:.0%} of ceiling\n"
                f"utilisation {row['worker_utilisation']:.0%}",
                (index, heights[index]),
                xytext=(0, -3 if is_within else 3),
                textcoords="offset points",
                ha="center",
                va="top" if is_within else "bottom",
                fontsize=7,
                color="white" if is_within else "black",
            )
        axes.axhline(limit, color="black", linestyle="--", label=f"ceiling {limit:.1f}/s", zorder=0)
        axes.legend(loc="upper left")
        axes.set_ylim(top=top)
        axes.set(title=f"simulator: {simulator}", ylabel="episodes per second")
    return figure


Name = TypeVar("Name", bound=Hashable)
Result = TypeVar("Result")


def in_turns(
    turns: Mapping[Name, Callable[[int], Result]], rounds: int, quiet: bool = True
) -> dict[Name, list[Result]]:
    """Call every turn once in each round, and return the results of each variant, round by round.

    A machine may be slower for a minute, or shared: hence the turns, and ratios within a round. A
    turn is called with the number of its round. Every other round goes backwards, so that a machine
    that slows down steadily favours no variant.
    """
    results: dict[Name, list[Result]] = {name: [] for name in turns}
    with tqdm(total=rounds * len(turns), unit="turn", leave=False, disable=quiet or None) as bar:
        for number in range(rounds):
            for name in list(turns)[:: 1 if number % 2 == 0 else -1]:
                bar.set_description(str(name))
                results[name].append(turns[name](number))
                bar.update()
    return results


def median_ratio(values: Sequence[float], others: Sequence[float]) -> float:
    return statistics.median(value / other for value, other in zip(values, others, strict=True))


def machine_name() -> str:
    about = environment()
    return f"{about['cores']} cores of {about['processor']}, Python {about['python']}"
