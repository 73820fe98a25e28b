"""A duel: two sides learn from each other, generation by generation.

Policy-space response oracles (Lanctot et al. 2017): in each generation each side trains a new
policy against a mixture of all that the other side has, an ordinary run in a folder of its own.
Then all new pairs play each other, and the table of payoffs gives the next mixtures. What is done
is in the folder, so that a duel which is killed goes on where it was.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from workflow_rl.agents.policies.numpy_policy import Actor
from workflow_rl.agents.settings import ConfigError
from workflow_rl.collection import trial
from workflow_rl.collection.local_pool import LocalPool
from workflow_rl.environments.by_name import make_environment
from workflow_rl.environments.environment import Environment
from workflow_rl.environments.episode import EpisodeSpec, SeedStream, episode_spec
from workflow_rl.environments.guest import NOTHING, Side
from workflow_rl.environments.guests import guests
from workflow_rl.environments.one_side import sides_of, text_of
from workflow_rl.runs.bar import Progress
from workflow_rl.runs.checkpoint import load_checkpoint
from workflow_rl.runs.config import TrainConfig, usable_cores
from workflow_rl.runs.duel_dir import DUEL_FILE, DuelRecord, Shares, is_duel, read_duel
from workflow_rl.runs.evaluation import play_with_progress
from workflow_rl.runs.execute import AtOnce, Outcome, execute
from workflow_rl.runs.export import write_policy
from workflow_rl.runs.folder import RunDirError, begin_folder, is_finished, is_population, locked
from workflow_rl.runs.intervals import mean_of
from workflow_rl.runs.learner import make_agent, only_warned
from workflow_rl.runs.loop import stopped_by_signals
from workflow_rl.runs.plan import free_on_resume, new_plan, resumed_plan
from workflow_rl.runs.presets import preset_named
from workflow_rl.runs.saved_agent import load_saved, policy_of
from workflow_rl.studies.duel_config import DuelConfig
from workflow_rl.studies.matrix_game import Array, equilibrium, priorities

EPISODES_TOGETHER = 16
"""That a worker plays at once, where envs step or act together."""


def sides_in(config: TrainConfig, rules: str) -> Mapping[str, Side]:
    """Return the two sides of a config's environment, by name. Raises ConfigError and
    InvalidEnvironmentError. rules: see `sides_of`."""
    if config.make_env is not None:
        raise ConfigError("env", f"{config.env}: name the environment by its module, module:name")
    if config.env not in guests:
        trial.learn_facts(config.environment, config.worker_timeout)
        return sides_of(config.environment, rules)
    sides = guests[config.env].sides(config.environment.args)
    if not sides:
        raise ConfigError("env", f"{config.env} has one side alone to play")
    return sides


def against(config: TrainConfig, side: Side, opponents: Mapping[str, float]) -> TrainConfig:
    """Return the config of a run in which a side learns against opponents; none: its default."""
    args = {**side.args, **({side.opponents: text_of(opponents)} if opponents else {})}
    is_own = side.env == config.env or "env_args" not in preset_named(config.preset)
    return config.changed(env=side.env, env_args=args, preset=config.preset if is_own else None)


def trained(config: TrainConfig, folder: Path, trust: bool, **options: Any) -> Outcome | None:
    """Train in a folder, new or resumed. Return None if the run is finished.

    options: those of `execute`, and `n_policies`. Raises ConfigError if the run in the folder has
    another config, but for what `free_on_resume` names, and what `execute` raises.
    """
    if is_finished(folder):
        return None
    n_policies, init_from = options.pop("n_policies", 1), options.pop("init_from", None)
    if is_population(folder) or (folder / "checkpoint.pt").exists():
        asked = {name: value for name, value in config.flat().items() if name != "seed"}
        plan, init_from = resumed_plan(folder, asked, trust=trust, names_cluster=True), None
    else:
        plan = new_plan(config, n_policies)
    watch = stopped_by_signals
    return execute(plan, folder, watch=watch, choose=False, init_from=init_from, **options)


def played(
    environment: Environment,
    wanted: Sequence[tuple[Actor, Sequence[EpisodeSpec]]],
    n_workers: int | None,
    worker_timeout: float,
    quiet: bool = True,
) -> list[list[float]]:
    """Return the returns of each actor's episodes, all played by one pool of workers.

    Raises TooManyFailuresError, UnplayableError for an episode that cannot be played, and
    StopRequested.
    """
    total = sum(len(specs) for _, specs in wanted)
    together = EPISODES_TOGETHER if environment.plays_together else 1
    pool = LocalPool(
        environment.make_envs, n_workers or usable_cores(), together, worker_timeout,
        preload=environment.preload,
    )  # fmt: skip
    with stopped_by_signals(AtOnce()), pool, Progress(quiet, total, "ep") as bar:
        return [
            [
                trajectory.episode_return
                for trajectory in play_with_progress(pool, actor, specs, bar, together=together)
            ]
            for actor, specs in wanted
        ]


class Duel:
    """A duel in a folder, new or one that goes on.

    record: what the folder says. sides: from `sides_in`. start: agents that each side begins with
    besides nothing trained, by side; those of the first side are policies. say: takes lines about
    each generation. trust: see `resumed_plan`.
    """

    def __init__(
        self,
        path: Path,
        config: TrainConfig,
        settings: DuelConfig,
        record: DuelRecord,
        sides: Mapping[str, Side],
        start: Mapping[str, Sequence[str]],
        say: Callable[[str], None] = lambda line: None,
        quiet: bool = True,
        trust: bool = False,
    ) -> None:
        self.path, self.config, self.settings, self.record = path, config, settings, record
        self.sides, self._start, self._say = sides, start, say
        self._quiet, self._trust = quiet, trust
        self._first, self._second = sides

    def run(self) -> None:
        """Train all generations. Raises what `execute` and `played` raise."""
        with locked(self.path):
            if not self.record.mixtures:
                self._keep({side: self._starting(side) for side in self.sides})
            while len(self.record.opponents) < self.settings.generations:
                opponents = self._opponents()
                agents = {side: self._response(side, opponents) for side in self.sides}
                self._keep(agents, opponents)
            with only_warned(self.path / "duel.png"):
                from workflow_rl.reporting.duel_figure import draw_duel  # It loads matplotlib.

                draw_duel(self.path)

    def _starting(self, side: str) -> list[str]:
        """Return a side's agents at the start: those given, or one that has learned nothing."""
        if self._start.get(side):
            return list(self._start[side])
        config = self._config_of(side, 0, {})
        name = f"start/{label(side)}.npz"
        (self.path / "start").mkdir(exist_ok=True)
        agent = make_agent(config)
        write_policy(agent.policy_parameters(), config.environment, self.path / name)
        return [name]

    def _opponents(self) -> Shares:
        """Return how often the next generation meets each agent of each side."""
        payoffs = np.array(self.record.payoffs)
        if self.settings.opponents == "prioritised":
            return self._by_side(priorities(-payoffs.T), priorities(payoffs))
        if self.settings.opponents == "uniform":
            return self._by_side(*(np.full(n, 1 / n) for n in payoffs.shape))
        return self.record.mixtures[-1]

    def _mixtures(self) -> Shares:
        payoffs = np.array(self.record.payoffs)
        if self.settings.opponents == "latest":
            return self._by_side(*(np.eye(n)[-1] for n in payoffs.shape))
        return self._by_side(*equilibrium(payoffs))

    def _by_side(self, *shares: Array) -> Shares:
        return {side: of.tolist() for side, of in zip(self.sides, shares, strict=True)}

    def _config_of(self, side: str, generation: int, opponents: Mapping[str, float]) -> TrainConfig:
        words = [self.config.seed, generation, [*self.sides].index(side)]
        seed = int(np.random.SeedSequence(words).generate_state(1)[0])
        return against(self.config, self.sides[side], opponents).changed(seed=seed)

    def _response(self, side: str, opponents: Shares) -> list[str]:
        """Train a side's next policy, if that is still to be done, and return its file."""
        number = len(self.record.opponents) + 1
        name = f"generation-{number}/{label(side)}"
        folder, file = self.path / name, self.path / f"{name}.npz"
        other = self._second if side == self._first else self._first
        config = self._config_of(side, number, self.record.weights(self.path, other, opponents))
        before = self.path / f"generation-{number - 1}" / label(side) / "checkpoint.pt"
        begins = load_checkpoint(before) if self.settings.warm_start and before.exists() else None
        trained(config, folder, self._trust, init_from=begins, quiet=self._quiet)
        latest = folder / "checkpoint.pt"
        policy = policy_of(load_checkpoint(latest), latest)
        write_policy(policy.parameters, config.environment, file)
        return [str(file.relative_to(self.path))]

    def _keep(self, agents: Mapping[str, list[str]], opponents: Shares | None = None) -> None:
        """Add agents to the record, with their payoffs and the mixtures that follow."""
        record = self.record
        before = {side: len(record.agents.get(side, ())) for side in self.sides}
        everybody = {side: [*record.agents.get(side, ()), *agents[side]] for side in self.sides}
        self.record = dataclasses.replace(record, agents=everybody)
        self._fill_table(*before.values())
        mixtures = [*record.mixtures, self._mixtures()]
        met = [*record.opponents, *([opponents] if opponents is not None else [])]
        self.record = dataclasses.replace(self.record, mixtures=mixtures, opponents=met)
        self.record.write(self.path)
        self._say(self._told())

    def _fill_table(self, n_rows: int, n_columns: int) -> None:
        """Play all pairs that the table lacks. Every pair plays the same episodes."""
        record, side = self.record, self.sides[self._first]
        rows, columns = (
            [record.agent(self.path, name) for name in names] for names in record.agents.values()
        )
        numbers = range(self.settings.payoff_episodes)
        seeds = [episode_spec(self.config.seed, n, (), SeedStream.SELECTION) for n in numbers]
        missing = {
            row: range(n_columns if row < n_rows else 0, len(columns)) for row in range(len(rows))
        }
        # Actors of the same environment share a pool of workers.
        by_args: dict[str, list[tuple[int, Actor]]] = {}
        for row, agent in enumerate(rows):
            saved = load_saved(Path(agent), greedy=False, trust=self._trust)
            is_guests = side.env in guests and saved.environment.env_id == side.env
            args = {**(saved.environment.args if is_guests else side.args)}
            args[side.opponents] = text_of(dict.fromkeys(columns, 1.0))
            by_args.setdefault(json.dumps(args, sort_keys=True), []).append((row, saved.policy))
        tables = [[[*of] for of in table] for table in (record.payoffs, record.intervals)]
        for table in tables:
            table += [[] for _ in range(len(rows) - len(table))]
        for args_text, actors in by_args.items():
            environment = make_environment(
                side.env, json.loads(args_text), masks=self.config.action_mask
            )
            wanted = [
                (actor, [spec._replace(variant=columns[column]) for spec in seeds])
                for row, actor in actors
                for column in missing[row]
            ]
            n_workers = self.config.n_workers
            returns = iter(played(environment, wanted, n_workers, self.config.worker_timeout))
            for row, _ in actors:
                for _ in missing[row]:
                    mean = mean_of([next(returns)])
                    for table, number in zip(tables, mean, strict=True):
                        table[row].append(float(np.nan_to_num(number)))
        self.record = dataclasses.replace(record, payoffs=tables[0], intervals=tables[1])

    def _told(self) -> str:
        """Return a line about the last generation."""
        record, payoffs = self.record, np.array(self.record.payoffs)
        x, y = (np.array(record.mixtures[-1][side]) for side in self.sides)
        told = f"generation {len(record.opponents)}: {self._first} gets {x @ payoffs @ y:.3f}"
        if record.opponents:
            x, y = (np.array([*record.mixtures[-2][side], 0]) for side in self.sides)
            gains = (payoffs[-1] @ y - x @ payoffs @ y, x @ payoffs @ y - x @ payoffs[:, -1])
            for side, gain in zip(self.sides, gains, strict=True):
                told += f", {side}'s answer gains {gain:.3f}"
        return told


def label(side: str) -> str:
    """Return a side's name as files have it."""
    return re.sub(r"[^\w.-]+", "-", side)


def run_duel(
    config: TrainConfig,
    path: Path,
    settings: DuelConfig,
    start: Mapping[str, Sequence[str]] = NOTHING,
    say: Callable[[str], None] = lambda line: None,
    quiet: bool = True,
    trust: bool = False,
) -> DuelRecord:
    """Train a duel in a new or empty folder, or go on with the same duel in its own.

    Args:
        config: what all runs have in common: the environment of both sides, the algorithm, the
            length of each run.
        path: the folder.
        settings: how the sides learn from each other.
        start: agents that a side begins with, by side: policy files, or names that the
            environment knows. Those of the first side are policies. By default a policy that has
            learned nothing.
        say: takes a line about each generation.
        quiet: show no progress bars.
        trust: import and call what only the files in the folder name.

    Raises:
        RunDirError: the folder holds something else.
        ConfigError, InvalidEnvironmentError: the environment has no two sides.
        Exception: what `execute` raises.
    """
    sides = sides_in(config, settings.sides)
    if unknown := start.keys() - sides:
        raise ConfigError("start", f"{min(unknown)} is no side: there is {' and '.join(sides)}")
    asked = {**settings.to_dict(), "start": {side: list(of) for side, of in start.items()}}
    record = DuelRecord(config.to_dict(), asked)
    if is_duel(path):
        record = _going_on(path, record)
    else:
        begin_folder(path, DUEL_FILE, record.text)
    duel = Duel(path, config, settings, record, sides, start, say, quiet, trust)
    duel.run()
    return duel.record


def _going_on(path: Path, asked: DuelRecord) -> DuelRecord:
    """Return the record with which the duel in a folder goes on. Raise RunDirError for another."""
    before, free = read_duel(path), {*free_on_resume(asked.config), "generations"}
    for was, now in ((before.config, asked.config), (before.duel, asked.duel)):
        for name in sorted({*was, *now} - free):
            if was.get(name) != now.get(name):
                raise RunDirError(
                    f"{path} is a duel with {name} {was.get(name)}, not {now.get(name)}: go on "
                    "with the same, or begin in another folder"
                )
    return dataclasses.replace(before, config=asked.config, duel=asked.duel)
