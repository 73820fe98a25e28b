"""A duel: two sides learn from each other, generation by generation.

Policy-space response oracles (Lanctot et al. 2017): in each generation each side trains a new
policy against a mixture of all the other side's agents, in a run with a folder of its own. Then all
new pairs play each other, and the table of payoffs gives the next mixtures. The duel's folder
records each finished part, so that a killed duel continues from there.
"""

import dataclasses
import functools
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from workflow_rl.agents.policies.numpy_policy import Actor
from workflow_rl.collection import try_in_worker
from workflow_rl.environments.challenge import NOTHING, Side
from workflow_rl.environments.environment import ENV, OPPONENTS, Environment
from workflow_rl.environments.episode import SeedStream, episode_spec
from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment
from workflow_rl.environments.source import guests, make_environment
from workflow_rl.errors import ConfigError, UserError, message_of
from workflow_rl.evaluation.intervals import Mean, mean_of
from workflow_rl.output_files import begin_folder, make_folder
from workflow_rl.runs.checkpoint import LATEST
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.execute import Outcome, execute, new_plan
from workflow_rl.runs.export import write_policy
from workflow_rl.runs.folder import can_go_on, is_finished
from workflow_rl.runs.learner import make_agent, only_warned
from workflow_rl.runs.loop import stopped_by_signals
from workflow_rl.runs.read_checkpoint import load_checkpoint
from workflow_rl.runs.resolve import preset_named
from workflow_rl.runs.resume import free_on_resume, resumed_plan
from workflow_rl.runs.run_dir import locked
from workflow_rl.runs.saved_agent import load_saved
from workflow_rl.studies.attackers import beginnings, by_hand, names_by_hand, played, worst_first
from workflow_rl.studies.duel_config import DuelConfig
from workflow_rl.studies.duel_dir import (
    DUEL_FILE,
    DuelRecord,
    Shares,
    is_duel,
    label,
    read_duel,
    responses_of,
)
from workflow_rl.studies.matrix_game import Array, equilibrium, priorities
from workflow_rl.studies.one_side import RANDOM, OneSide, text_of_weights
from workflow_rl.terminal import in_short


def sides_in(config: TrainConfig, rules: str) -> Mapping[str, Side]:
    """Return the sides of a config's environment, by name: see `sides_of`. Raises ConfigError."""
    if config.make_env is not None:
        raise ConfigError("env", f"{config.env}: name the environment by its module, module:name")
    if config.env_python:
        raise ConfigError("env_python", f"{config.env_python}: a duel plays in this interpreter")
    if config.env not in guests:
        if ":" in (network := str(getattr(config.settings, "network", ""))):
            raise ConfigError("network", f"{network}: workers play opponents of known networks")
        try_in_worker.learn_facts(config.environment, config.worker_timeout)
        return sides_of(config.environment, rules)
    sides = guests[config.env].sides(config.environment.args)
    if not sides:
        raise ConfigError("env", f"{config.env} has one side alone to play")
    return sides


def sides_of(environment: Environment, rules: str) -> dict[str, Side]:
    """Return the two sides of a ParallelEnv, by name.

    rules: patterns of agents' names, with their sides, such as "chaser_*=chasers,*=runner". The
    first rule that fits an agent's name gives its side. Without a rule, the agent is a side of its
    own name. The first side is the first agent's side. Raises ConfigError.
    """
    layout = environment.spaces().team
    if not isinstance(environment, GymnasiumEnvironment) or layout is None:
        raise ConfigError(ENV, f"{environment.env_id} has no sides: one agent plays")
    parsed = [rule.strip().split("=") for rule in filter(None, rules.split(","))]
    if wrong := [rule for rule in parsed if len(rule) != 2 or not all(rule)]:
        raise ConfigError("sides", f"{'='.join(wrong[0])!r} is not agent=side")
    named: dict[str, list[str]] = {}
    for agent in layout.agents:
        fitting = (side for pattern, side in parsed if fnmatchcase(agent, pattern))
        named.setdefault(next(fitting, agent), []).append(agent)
    if len(named) != 2:
        told = f"{environment.env_id} would have the sides {', '.join(named)}"
        raise ConfigError("sides", f"{told}: say which agents are which of two sides")
    whole = {"env": environment.env_id, "env_args": dict(environment.args)}
    one_side = f"{OneSide.__module__}:{OneSide.__name__}"
    return {
        name: Side(one_side, {**whole, "side": ",".join(agents)}, OPPONENTS, (RANDOM,))
        for name, agents in named.items()
    }


def against(config: TrainConfig, side: Side, opponents: Mapping[str, float]) -> TrainConfig:
    """Return the config of a side's run against opponents. Without opponents, use its default."""
    args = {**side.args, **({side.opponents: text_of_weights(opponents)} if opponents else {})}
    is_own = side.env == config.env or "env_args" not in preset_named(config.preset)
    changed = config.changed(env=side.env, env_args=args, preset=config.preset if is_own else None)
    separate_like(config.environment, changed.environment)
    return changed


def separate_like(whole: Environment, *sides: Environment) -> None:
    """Give the envs of the sides random states of their own if the whole environment needs it."""
    if isinstance(whole, GymnasiumEnvironment) and whole.private_random:
        for side in sides:
            assert isinstance(side, GymnasiumEnvironment)
            side.separate()


def actor_for_side(
    agent: str, side: Side, opponents: Mapping[str, float]
) -> tuple[Actor, Mapping[str, Any]]:
    """Return the actor of an agent as an opponent, and the arguments of the environment in which it
    plays on this side. Raises UserError."""
    released = guests[side.env].released if side.env in guests else {}
    saved = load_saved(Path(released.get(agent, agent)), greedy=side.greedy)
    args = {**side.args, side.opponents: text_of_weights(opponents)}
    # A guest's agent may have other observations and actions than the agents that learn here.
    if side.env not in guests or saved.environment.env_id != side.env:
        return saved.policy, args
    args |= {name: saved.environment.args[name] for name in side.brought}
    return guests[side.env].actor_for_side(saved.policy, saved.environment, args)


def trained(
    config: TrainConfig,
    folder: Path,
    changes: Sequence[Mapping[str, Any]] = (NOTHING,),
    **options: Any,
) -> Outcome | None:
    """Train in a folder, new or resumed. Return None if the run is finished.

    changes: the changes of the config for each new policy. options: further arguments of `execute`.
    Raises the errors of `execute`, and ConfigError if the run in the folder has another config,
    apart from the fields that `free_on_resume` returns.
    """
    if is_finished(folder):
        return None
    init_from = options.pop("init_from", None)
    if can_go_on(folder):
        apart = ("seed", "teacher", "teacher_episodes")
        asked = {name: value for name, value in config.to_dict().items() if name not in apart}
        plan, init_from = resumed_plan(folder, asked), None
        separate_like(config.environment, *(of.environment for of in plan.configs))
    else:
        plan = new_plan(config, len(changes))
        pairs = zip(plan.configs, changes, strict=True)
        plan = dataclasses.replace(plan, configs=[of.changed(**change) for of, change in pairs])
    watch = stopped_by_signals
    return execute(plan, folder, watch=watch, choose=False, init_from=init_from, **options)


def run_duel(
    config: TrainConfig,
    path: Path,
    settings: DuelConfig,
    start: Mapping[str, Sequence[str]] = NOTHING,
    say: Callable[[str], None] = lambda line: None,
    quiet: bool = True,
) -> DuelRecord:
    """Train a duel in a new or empty folder, or continue the duel of an earlier call in its folder.

    Args:
        config: the common config of all runs: the environment of both sides, the algorithm, the
            length of each run.
        settings: how the sides learn from each other.
        start: agents that a side begins with, by side: policy files, or names that the
            environment knows. The first side's agents must be policies. By default a side begins
            with an untrained policy.
        say: takes a line about each generation.

    Raises:
        UserError: the folder holds something else.
        ConfigError: the environment has no two sides.
        Exception: what `execute` and `played` raise.
    """
    path, sides = Path(os.path.abspath(path)), checked_sides(config, settings, start)
    if "," in str(path):
        raise ConfigError("run_dir", f"{path} has a comma, which separates agents")
    asked = {**settings.to_dict(), "start": {side: list(start.get(side, ())) for side in sides}}
    record = DuelRecord(config.to_dict(), asked, {side: [] for side in sides})
    if is_duel(path):
        record = _going_on(path, record)
    else:
        _try_start(config, sides, start)
        begin_folder(path, DUEL_FILE, record.to_dict())
    with locked(path):
        return _Duel(path, config, settings, sides, record, say, quiet).run()


def checked_sides(
    config: TrainConfig, settings: DuelConfig, start: Mapping[str, Sequence[str]]
) -> Mapping[str, Side]:
    """Return the sides of a duel. Raise ConfigError for settings that do not go with them."""
    sides = sides_in(config, settings.sides)
    if len({*map(label, sides)}) == 1:
        raise ConfigError("sides", f"{' and '.join(sides)} would have the same folders")
    if settings.warm_start_side and not settings.warm_start:
        raise ConfigError(
            "warm_start_side", f"{settings.warm_start_side}: it goes with --warm-start"
        )
    if settings.copy_known and not any(names_by_hand(side.env) for side in sides.values()):
        raise ConfigError("copy_known", f"{config.env} brings no attackers: leave this option out")
    if settings.copy_known and not config.plug_in.takes_teachers:
        raise ConfigError("copy_known", f"{config.algorithm} copies no agent: use ppo")
    for name, named in (
        ("start", [*start]),
        ("warm_start_side", [settings.warm_start_side] * bool(settings.warm_start_side)),
        ("responses", [*responses_of(settings.responses)]),
    ):
        if unknown := {*named} - sides.keys():
            raise ConfigError(name, f"{min(unknown)} is no side: there is {' and '.join(sides)}")
    for side, agents in start.items():
        if sum(settings.kept.get(agent, 0.0) for agent in agents) > 1 + 1e-9:
            raise ConfigError("keep", f"the shares of {side} are more than 1 in all")
    if unknown := settings.kept.keys() - {agent for of in start.values() for agent in of}:
        raise ConfigError("keep", f"{min(unknown)} is no agent of --start")
    return sides


def _try_start(
    config: TrainConfig, sides: Mapping[str, Side], start: Mapping[str, Sequence[str]]
) -> None:
    """Raise ConfigError for agents at the start that cannot play. Workers try them."""
    first, second = sides
    for side, agents in start.items():
        other = sides[second if side == first else first]
        for agent in agents:
            try:
                if list(agents).count(agent) > 1:
                    raise UserError("it is given twice")
                try_in_worker.check(
                    against(config, other, {agent: 1.0}).environment, config.worker_timeout
                )
                if side == first:
                    actor_for_side(agent, sides[side], {})
            except (UserError, ConfigError) as error:
                raise ConfigError("start", f"{side}={agent}: {message_of(error)}") from None


def _going_on(path: Path, asked: DuelRecord) -> DuelRecord:
    """Return the record with which the duel in a folder goes on. Raise UserError for another."""
    before, free = read_duel(path), {*free_on_resume(asked.config), "generations"}
    was = {**before.config, **DuelConfig().to_dict(), **before.duel, "both sides": [*before.agents]}
    now = {**asked.config, **asked.duel, "both sides": [*asked.agents]}
    for name in sorted({*was, *now} - free):
        if was.get(name) != now.get(name):
            raise UserError(
                f"{path} is a duel with {name} {in_short(was.get(name))}, not "
                f"{in_short(now.get(name))}: go on with the same, or begin in another folder"
            )
    typed = {agent for agents in asked.duel["start"].values() for agent in agents}
    agents = {name for of in before.agents.values() for name in of}
    before.require_playable(path, agents - typed)
    return dataclasses.replace(before, config=asked.config, duel=asked.duel)


@dataclass
class _Duel:
    """A duel that goes on from its record: see `run_duel`."""

    path: Path
    config: TrainConfig
    settings: DuelConfig
    sides: Mapping[str, Side]
    record: DuelRecord
    say: Callable[[str], None]
    quiet: bool

    def run(self) -> DuelRecord:
        if not self.record.mixtures:
            self._keep({side: self._starting(side) for side in self.sides})
        while len(self.record.opponents) < self.settings.generations:
            opponents = self.opponents()
            self._keep({side: self._responses(side, opponents) for side in self.sides}, opponents)
        self._fill_kinds()
        with only_warned(self.path / "duel.png"):
            from workflow_rl.studies.policies_figure import draw_folder  # It loads matplotlib.

            draw_folder(self.path)
        return self.record

    def opponents(self) -> Shares:
        """Return how often the next generation meets each agent of each side."""
        shares = self._chosen()
        kept = self.settings.kept
        for side, agents in self.record.agents.items():
            fixed = np.array([kept.get(agent, 0.0) for agent in agents])
            rest = max(0.0, 1 - fixed.sum())
            shares[side] = (fixed + rest * np.array(shares[side])).tolist()
        return shares

    def _chosen(self) -> Shares:
        payoffs = np.array(self.record.payoffs)
        if self.settings.opponents == "prioritised":
            return self._by_side(priorities(-payoffs.T), priorities(payoffs))
        if self.settings.opponents == "uniform":
            return self._by_side(*(np.full(n, 1 / n) for n in payoffs.shape))
        return self.mixtures()

    def mixtures(self) -> Shares:
        """Return each side's mixture by the payoffs so far."""
        payoffs = np.array(self.record.payoffs)
        if self.settings.opponents == "latest":
            latest = [self._n_latest(side) for side in self.sides]
            shares = zip(payoffs.shape, latest, strict=True)
            return self._by_side(*(np.eye(n)[-n_latest:].mean(0) for n, n_latest in shares))
        return self._by_side(*equilibrium(payoffs))

    def _n_latest(self, side: str) -> int:
        """Return how many policies the last generation gave a side."""
        agents, mixtures = self.record.agents[side], self.record.mixtures
        is_start = not mixtures or len(agents) == len(mixtures[0][side])
        return 1 if is_start else self.record.responses[side]

    def _by_side(self, *shares: Array) -> Shares:
        return {side: share.tolist() for side, share in zip(self.sides, shares, strict=True)}

    def _starting(self, side: str) -> list[str]:
        """Return a side's agents at the start: the given agents, or one untrained policy."""
        if given := self.record.duel["start"][side]:
            return list(given)
        config, name = self._config_of(side, {}), f"start/{label(side)}.npz"
        make_folder(self.path / "start")
        parameters = make_agent(config).policy_parameters()
        write_policy(parameters, config.environment, self.path / name)
        return [name]

    def _config_of(self, side: str, opponents: Mapping[str, float], number: int = 0) -> TrainConfig:
        words = [self.config.seed, len(self.record.mixtures), [*self.sides].index(side)]
        words += [number] if number else []
        seed = int(np.random.SeedSequence(words).generate_state(1)[0])
        return against(self.config, self.sides[side], opponents).changed(seed=seed)

    def _responses(self, side: str, opponents: Shares) -> list[str]:
        """Train a side's next policies, and return their files."""
        (other,) = self.sides.keys() - {side}
        met, number = self.record.weights(self.path, other, opponents), self.record.responses[side]
        starts = functools.cache(lambda: self._starts(self._config_of(side, met), number))
        return [self._response(side, met, n, starts) for n in range(number)]

    def _starts(self, config: TrainConfig, number: int) -> Sequence[Mapping[str, Any]]:
        """Return what each of a side's next policies changes in the config, if it begins anew."""
        if not self.settings.copy_known:
            return [NOTHING] * number
        attackers, episodes = by_hand(config.environment), self.settings.payoff_episodes
        return beginnings(config, worst_first(config, attackers, episodes, self.quiet), number)

    def _response(
        self,
        side: str,
        met: Mapping[str, float],
        number: int,
        starts: Callable[[], Sequence[Mapping[str, Any]]],
    ) -> str:
        """Train one of a side's next policies, if that is still to be done, and return its file.

        met: the opponents. starts: see `_starts`.
        """
        generation = len(self.record.mixtures)
        # Labels of sides contain no point.
        name = label(side) + (f".{number + 1}" if number else "")
        folder = self.path / f"generation-{generation}" / name
        config = self._config_of(side, met, number)
        before = self.path / f"generation-{generation - 1}" / name / LATEST
        is_warm = self.settings.warm_start and self.settings.warm_start_side in ("", side)
        begins = load_checkpoint(before) if is_warm and before.exists() else None
        try:
            make_folder(folder.parent)
            make_folder(folder)
        except OSError as error:
            raise UserError(f"{error.filename} cannot be used: {error.strerror}") from None
        goes_on = begins is not None or can_go_on(folder)
        changes = NOTHING if goes_on else starts()[number]
        trained(config, folder, [changes], init_from=begins, quiet=self.quiet)
        policy = load_saved(folder / LATEST).policy
        write_policy(policy.parameters, config.environment, folder.with_name(f"{name}.npz"))
        return f"generation-{generation}/{name}.npz"

    def _keep(self, agents: Mapping[str, list[str]], opponents: Shares | None = None) -> None:
        """Add agents to the record, with their payoffs and the mixtures that follow."""
        record = self.record
        all_agents = {side: [*known, *agents[side]] for side, known in record.agents.items()}
        self.record = dataclasses.replace(record, agents=all_agents)
        self._fill_table()
        met = record.opponents if opponents is None else [*record.opponents, opponents]
        mixtures = [*record.mixtures, self.mixtures()]
        self.record = dataclasses.replace(self.record, mixtures=mixtures, opponents=met)
        self.record.write(self.path)
        self._tell()

    def _fill_table(self) -> None:
        """Play all pairs that the table lacks."""
        record, second = self.record, [*self.sides][1]
        columns = [record.agent(self.path, name) for name in record.agents[second]]
        payoffs, intervals = ([*map(list, table)] for table in (record.payoffs, record.intervals))
        for row, means in enumerate(self._means(columns, [*map(len, payoffs)])):
            if row == len(payoffs):
                payoffs.append([])
                intervals.append([])
            payoffs[row] += [of.mean for of in means]
            intervals[row] += [float(np.nan_to_num(of.interval_95)) for of in means]
        self.record = dataclasses.replace(record, payoffs=payoffs, intervals=intervals)

    def _means(self, opponents: Sequence[str], known: Sequence[int]) -> list[list[Mean]]:
        """Return what each of the first side's agents gets from opponents. Every pair plays the
        same episodes.

        known: by agent, how many opponents, from the first, are left out; none for later agents.
        """
        (first, side), *_ = self.sides.items()
        agents = [self.record.agent(self.path, name) for name in self.record.agents[first]]
        numbers = range(self.settings.payoff_episodes)
        specs = [episode_spec(self.config.seed, n, (), SeedStream.SELECTION) for n in numbers]
        # Actors of the same environment share a pool of workers.
        pools: dict[str, list[tuple[int, Actor, str]]] = {}
        for row, (agent, n_known) in enumerate(zip_longest(agents, known, fillvalue=0)):
            if missing := opponents[n_known:]:
                actor, args = actor_for_side(str(agent), side, dict.fromkeys(opponents, 1.0))
                pairs = pools.setdefault(json.dumps(args, sort_keys=True), [])
                pairs += [(row, actor, opponent) for opponent in missing]
        found: list[list[Mean]] = [[] for _ in agents]
        for text, pairs in pools.items():
            environment = make_environment(
                side.env, json.loads(text), masks=self.config.action_mask
            )
            separate_like(self.config.environment, environment)
            wanted = [
                (actor, [spec._replace(variant=opponent) for spec in specs])
                for _, actor, opponent in pairs
            ]
            returns = played(environment, wanted, self.config)
            for (row, _, _), sample in zip(pairs, returns, strict=True):
                found[row].append(mean_of([sample]))
        return found

    def _fill_kinds(self) -> None:
        """Play the first side's agents against those that the environment brings for the other
        side, as far as that is still to be done, and add the payoffs by kind to the record."""
        record, second = self.record, [*self.sides][1]
        other, n_start = self.sides[second], len(record.duel["start"][second]) or 1
        kinds = {"fixed": [*other.fixed], "by hand": [*names_by_hand(other.env)]}
        brought = [name for names in kinds.values() for name in names]
        had = {name: payoffs for of in record.by_kind.values() for name, payoffs in of.items()}
        n_had = min((len(had.get(name, ())) for name in brought), default=0)
        means = self._means(brought, [len(brought)] * n_had)
        payoffs = {
            name: [*had.get(name, ())[:n_had], *(of[n].mean for of in means[n_had:])]
            for n, name in enumerate(brought)
        }
        agents = record.agents[second]
        kinds["start"] = [name for name in agents[:n_start] if name not in brought]
        kinds["learned"] = agents[n_start:]
        payoffs |= dict(zip(agents, np.array(record.payoffs).T.tolist(), strict=True))
        by_kind = {kind: {of: payoffs[of] for of in names} for kind, names in kinds.items()}
        by_kind = {kind: of for kind, of in by_kind.items() if of}
        if by_kind != record.by_kind:
            self.record = dataclasses.replace(record, by_kind=by_kind)
            self.record.write(self.path)

    def _tell(self) -> None:
        record, payoffs = self.record, np.array(self.record.payoffs)
        first, second = self.sides
        x, y = (np.array(record.mixtures[-1][side]) for side in self.sides)
        told = f"generation {len(record.opponents)}: {first} gets {x @ payoffs @ y:.3f}"
        if record.opponents:
            x, y = (np.array(record.mixtures[-2][side]) for side in self.sides)
            before = x @ payoffs[: len(x), : len(y)] @ y
            told += f"; against the mixtures before, {first}'s answer gains "
            told += f"{(payoffs[len(x) :, : len(y)] @ y).max() - before:.3f}, and {second}'s "
            told += f"{before - (x @ payoffs[: len(x), len(y) :]).min():.3f}"
        self.say(told)
