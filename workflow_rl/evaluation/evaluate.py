"""Play seeded episodes with a trained agent, and score the agent or record a video."""

from __future__ import annotations

import dataclasses
import functools
import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from workflow_rl.agents.policies.numpy_policy import Actor, Policy
from workflow_rl.agents.settings import Settings
from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.agents.user_modules import in_one_line
from workflow_rl.collection.async_collector import AsyncCollector
from workflow_rl.collection.local_pool import LocalPool
from workflow_rl.collection.messages import Fault, TooManyFailuresError
from workflow_rl.collection.rollout import outweighing, what_is_not_finite
from workflow_rl.environments.challenge import Scores, Scoring
from workflow_rl.environments.environment import Environment
from workflow_rl.environments.episode import EpisodeSpec, SeedStream, episode_spec
from workflow_rl.environments.source import guests
from workflow_rl.errors import ConfigError
from workflow_rl.evaluation.intervals import Mean, mean_of
from workflow_rl.machine_facts import usable_cores
from workflow_rl.output_files import (
    NOT_OURS,
    copy_file,
    read_json,
    require_writable_folder,
    sha256_of,
)
from workflow_rl.portable import load_elsewhere
from workflow_rl.progress_bar import Progress
from workflow_rl.terminal import fitting
from workflow_rl.text_table import text_table

if TYPE_CHECKING:
    from workflow_rl.environments.environment import Tell
    from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment
    from workflow_rl.evaluation.measures import Measure, Ratio, Times

_log = logging.getLogger(__name__)

AGENT_DIGEST = "agent_sha256"
"""The key of the SHA-256 digest of the agent's file in scores."""
SHORTFALL = "shortfall"
"""The key of a `Shortfall` in scores."""
MOST_OF_SCORES = 2**28
"""The largest file of scores that is read, in bytes."""
MOST_OF_VIDEO = 2**40
"""The largest video that is copied, in bytes."""
SAMPLED_EPISODES = 20
"""The number of episodes that compare sampled actions with the likeliest actions."""
MOST_NAMED = 10
"""The largest number of episodes that an error names."""


@dataclass(frozen=True)
class Evaluation:
    """The returns and lengths, in steps, of seeded episodes.

    returns_of: the returns of each agent of a team whose agents have rewards of their own.
    env_args: the arguments of the environment. costs: the sums of each cost, by its name. measures:
    the measures of the episodes. readings: the readings of each measure, by its name.
    """

    env: str
    seed: int
    returns: list[float]
    lengths: list[int]
    seconds: float
    returns_of: Mapping[str, list[float]] = field(default_factory=dict)
    env_args: Mapping[str, Any] = field(default_factory=dict)
    costs: Mapping[str, list[float]] = field(default_factory=dict)
    measures: Sequence[Measure] = ()
    readings: Mapping[str, list[Ratio] | list[Times]] = field(default_factory=dict)

    def __repr__(self) -> str:
        told = Mean(self.mean, self.interval_95).told()
        return f"Evaluation({self.env}, {len(self.returns)} episodes, mean {told})"

    @property
    def mean(self) -> float:
        return float(np.mean(self.returns))

    @property
    def std(self) -> float:
        """Sample standard deviation of the returns; NaN for one episode."""
        return float(np.std(self.returns, ddof=1)) if len(self.returns) > 1 else math.nan

    @property
    def interval_95(self) -> float:
        """Half the width of the mean's 95% confidence interval; NaN for one episode."""
        return mean_of([self.returns]).interval_95

    def lines(self, agent: str) -> list[str]:
        """Return a table of returns and lengths, and what was played. agent: a name to show."""
        returns, lengths = self.returns, np.array(self.lengths)
        every = {"return": returns, **{f"return of {a}": of for a, of in self.returns_of.items()}}
        rows = []
        for name, of in every.items():
            mean, spread, digits = mean_of([of]), ["", ""], fitting(2, *of)
            if len(of) > 1:
                spread = [f"± {mean.interval_95:{digits}}", f"{np.std(of, ddof=1):{digits}}"]
            ends = [f"{min(of):{digits}}", f"{max(of):{digits}}"]
            rows.append([name, f"{mean.mean:{digits}}", *spread, *ends])
        ends = [lengths.min(), lengths.max()]
        rows.append(["steps", f"{lengths.mean():.1f}", "", f"{lengths.std():.1f}", *ends])
        of_measures = []
        if self.measures:
            from workflow_rl.evaluation.measures import measure_lines

            readings = {name: [of] for name, of in self.readings.items()}
            of_measures = measure_lines(self.measures, readings)
        return [
            str(text_table(["", "mean", "95%", "std", "min", "max"], rows)),
            *of_measures,
            f"{agent} on {self.env}: {len(returns)} episodes, seed {self.seed}, "
            f"{self.seconds:.1f} s.",
        ]

    def closing_lines(self, agent: str) -> list[str]:
        return self.lines(agent)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for evaluation.json. None replaces NaN."""
        plain = dataclasses.asdict(self)
        for name in ("costs", "measures", "readings"):
            del plain[name]
        if not self.returns_of:
            del plain["returns_of"]
        if self.measures:
            from workflow_rl.evaluation.measures import MEASURES, plain_readings

            plain[MEASURES] = plain_readings({self.env: self.readings})
        return {
            **plain,
            "mean": self.mean,
            "std": self.std if math.isfinite(self.std) else None,
            "interval_95": self.interval_95 if math.isfinite(self.interval_95) else None,
        }


@dataclass(frozen=True)
class ChallengeScore:
    """What an agent scored by the evaluation of a challenge.

    agent: its name or path. returns: the episodes' returns, by task, such as a cell of a challenge.
    scores: what the environment's scoring returns. `print` shows what `evaluate` prints.
    """

    agent: str
    returns: Mapping[str, Sequence[float]]
    scores: Scores

    def __repr__(self) -> str:
        told = Mean(self.mean, self.interval_95).told()
        return f"ChallengeScore({self.agent}, tasks: {len(self.returns)}, score {told})"

    def __str__(self) -> str:
        return "\n".join(self.scores.lines(self.agent))

    @property
    def mean(self) -> float:
        """The score: the mean return, or the sum of the tasks' mean returns."""
        return mean_of([*self.returns.values()]).mean

    @property
    def interval_95(self) -> float:
        """Half the width of the score's 95% confidence interval; NaN for one episode."""
        return mean_of([*self.returns.values()]).interval_95


def is_scripted(agent: str, env_id: str) -> bool:
    """Return whether an environment has a scripted agent of this name, and no file is there."""
    try:
        scoring_of(env_id).settings(agent=agent)
    except ConfigError:
        return False
    return not Path(agent).exists()


def score_agent(
    name: str,
    actor: Policy | None,
    environment: Environment | None,
    settings: Mapping[str, Any],
    env_id: str = "",
    is_own: bool = False,
    trained: float | None = None,
    **played: Any,
) -> Evaluation | ChallengeScore:
    """Score an agent by its environment's scoring: see `environments.challenge.Scoring`.

    actor, environment: None for a scripted agent of `env_id`, which the settings name. is_own:
    whether the environment is a user's function. Its agents are scored by mean return. trained: see
    `scored`.
    """
    for count, least in (("episodes", 1), ("seed", 0)):
        if played[count] < least:
            raise ValueError(f"{count} is {played[count]}: give {least} or more")
    scoring: Scoring = ReturnScoring()
    if not is_own:
        scoring = scoring_of(env_id if environment is None else environment.env_id)
    chosen = scoring.settings(**settings)
    scores, _ = scored(scoring, actor, environment, chosen, trained, name=name, **played)
    if isinstance(scores, Evaluation):
        return scores
    return ChallengeScore(name, scoring.returns(scores.to_dict()), scores)


class Shortfall(NamedTuple):
    """The mean returns of an agent's likeliest actions, and of its better sampled actions."""

    greedy: float
    sampled: float

    def __str__(self) -> str:
        digits = fitting(2, *self)
        return (
            f"greedy {self.greedy:{digits}}, sampled {self.sampled:{digits}} ({SAMPLED_EPISODES} "
            "episodes): the likeliest actions play much worse than sampled ones, with which the "
            "agent trained. --play sampled of the training, or of its --resume, has the agent "
            "sample wherever it plays"
        )


def read_scores(file: Path) -> dict[str, Any]:
    """Return the scores in a file of the command `evaluate`. Raises the errors in `NOT_OURS`."""
    return dict(read_json(file, MOST_OF_SCORES))


def are_of(scores: Mapping[str, Any], agent: Path) -> bool:
    """Return whether scores belong to the agent that is in a file now. Raises OSError."""
    return bool(scores.get(AGENT_DIGEST) == sha256_of(agent))


def shortfall_in(scores: Mapping[str, Any]) -> Shortfall | None:
    found = scores.get(SHORTFALL)
    return found and Shortfall(float(found["greedy"]), float(found["sampled"]))


def known_shortfall(agent: Path) -> Shortfall | None:
    """Return the shortfall that an earlier evaluation found. agent: a file in a run's folder."""
    try:
        scores = read_scores(agent.parent / "evaluation.json")
        return shortfall_in(scores) if are_of(scores, agent) else None
    except NOT_OURS:
        return None


def scored(
    scoring: Scoring,
    player: Policy | None,
    environment: Environment | None,
    settings: Settings,
    trained: float | None,
    **played: Any,
) -> tuple[Scores, Shortfall | None]:
    """Return the scores of `Scoring.score`, and a `Shortfall` or None. Warn of a shortfall: the
    likeliest actions play much worse than the training's episodes, and than sampled actions.

    Plays sampled episodes only if the training's returns were better.

    trained: the mean return of the last episodes of the training, if it is known.
    """
    scores, agent = scoring.score(player, environment, settings, **played), Path(played["name"])
    if player is None or not player.greedy:
        return scores, None
    if (known := known_shortfall(agent)) is not None:
        return scores, known  # The user was told when the agent was loaded.
    greedy, variance, n_greedy = _all_returns(scoring, scores)
    # An agent that learned until the end is better than in the last episodes of its training.
    if trained is None or greedy >= trained - abs(trained) / 2:
        return scores, None
    sampling = player.parameters.actor(player.policy_version, False)
    unwritten = settings.model_copy(update={n: None for n, v in settings if isinstance(v, Path)})
    played |= {"episodes": SAMPLED_EPISODES}
    others = scoring.score(sampling, environment, unwritten, **played)
    sampled, other_variance, n_sampled = _all_returns(scoring, others)
    by_chance = 1.96 * (max(variance, other_variance) * (1 / n_greedy + 1 / n_sampled)) ** 0.5
    if greedy >= sampled - max(abs(sampled) / 2, by_chance):
        return scores, None
    short = Shortfall(greedy, sampled)
    _log.warning("%s: %s", agent, short)
    return scores, short


def _all_returns(scoring: Scoring, scores: Scores) -> tuple[float, float, int]:
    """Return the mean of all returns, the mean variance within a task, and how many there are."""
    tasks = [np.array(returns) for returns in scoring.returns(scores.to_dict()).values()]
    every = np.concatenate(tasks)
    return float(every.mean()), float(np.mean([task.var() for task in tasks])), len(every)


def play_with_progress(
    pool: LocalPool,
    actor: Actor,
    specs: Sequence[EpisodeSpec],
    progress_bar: Progress,
    name_of: Callable[[EpisodeSpec], str] = lambda spec: str(spec.number),
    together: int = 1,
) -> list[Trajectory]:
    """Return the trajectories of all these episodes, in the order of the specs.

    name_of: an episode's name in an error. together: how many episodes a worker gets at a time.
    Raises TooManyFailuresError. It is also raised if a single episode cannot be played or has
    numbers that are not finite, because a mean of the other episodes would be biased.
    """
    # Blocks let the bar move. Blocks are large, because some workers wait at the end of a block.
    collector = AsyncCollector(pool, together)
    size = 20 * together * pool.n_workers
    trajectories: list[Trajectory] = []
    for first in range(0, len(specs), size):
        block = specs[first : first + size]
        try:
            rollout = collector.collect(actor, block)
        except TooManyFailuresError as error:
            if not error.is_of_episodes:
                raise
            told = _no_score(pool.faults, first + len(block), name_of)
            raise TooManyFailuresError(told) from None
        if rollout.skipped:
            left_out = [fault for fault in pool.faults if fault.spec.number in rollout.skipped]
            raise TooManyFailuresError(_no_score(left_out, first + len(block), name_of))
        if (problem := what_is_not_finite(rollout.trajectories)) is not None:
            raise TooManyFailuresError(f"there is no score: {problem}")
        trajectories += rollout.trajectories
        progress_bar.update(len(block))
    return trajectories


def _no_score(faults: Iterable[Fault], n_tried: int, name_of: Callable[[EpisodeSpec], str]) -> str:
    """Return a line that says why there is no score. faults: the exceptions of episodes."""
    what = {fault.spec: fault.what for fault in faults}
    specs = sorted(what, key=lambda spec: spec.number)
    names = ", ".join(map(name_of, specs[:MOST_NAMED])) + ", ..." * (len(specs) > MOST_NAMED)
    return (
        f"there is no score: {len(specs)} of the {n_tried} episodes tried raise exceptions: "
        f"{names}. The first of them raises {what[specs[0]]}"
    )


def record_video(
    actor: Actor,
    environment: Environment,
    folder: Path,
    seed: int = 0,
    worker_timeout: float = 60.0,
) -> Path:
    """Record the evaluation's first episode as an mp4, in a worker, and return the file.

    worker_timeout: the time limit in seconds for each call of the environment, and for writing the
    episode.

    Raises ConfigError if the environment cannot be recorded.
    """
    from workflow_rl.collection.try_in_worker import ask
    from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment

    if not isinstance(environment, GymnasiumEnvironment):
        raise ConfigError("video", f"{environment.env_id} draws no pictures")
    require_writable_folder(folder, "--video")
    name = f"{environment.label}-episode-0.mp4"
    # Gymnasium writes through links. So it writes into a new folder, where nobody can place a link.
    with TemporaryDirectory(dir=folder) as temporary:
        unseen = Path(temporary).absolute() / "video"
        record = functools.partial(_record, actor, environment, unseen, seed)
        for problem in list(ask(record, environment.env_id, worker_timeout)):
            raise ConfigError("video", problem)
        copy_file(unseen / name, folder / name, MOST_OF_VIDEO)
    return folder / name


def _record(
    actor: Actor, environment: GymnasiumEnvironment, folder: Path, seed: int, tell: Tell
) -> None:
    """Record an episode, in a worker. If something goes wrong, tell the caller."""
    from gymnasium.error import DependencyNotInstalled
    from gymnasium.wrappers import RecordVideo

    from workflow_rl.collection.player import play_episode
    from workflow_rl.environments.env_batch import SerialEnvs
    from workflow_rl.environments.flat_env import FlatEnv

    try:
        load_elsewhere("moviepy")  # A file .env could name the program that writes the video.
        env = environment.make_env(render_mode="rgb_array")
        if env.render_mode != "rgb_array":
            raise ValueError("render_mode='rgb_array' has no effect")
        recorded = RecordVideo(env, str(folder), name_prefix=environment.label, disable_logger=True)
    except (DependencyNotInstalled, ModuleNotFoundError) as error:
        missing = str(error).partition(",")[0]  # Gymnasium's advice after the comma is cut.
        tell(f"{missing}: pip install moviepy")
        return
    except BaseException as error:
        problem = in_one_line(error)
        if isinstance(error, TypeError) and "render_mode" in problem:
            problem = "give it an argument render_mode=None, and pass that on to what draws"
        tell(f"{environment.env_id} draws no pictures: {problem}")
        return
    spec = episode_spec(seed, 0, (), SeedStream.EVALUATION)
    envs = SerialEnvs(lambda: FlatEnv(recorded, environment.masks), 1)
    try:
        play_episode(envs, actor, spec)
    except BaseException as error:
        tell(f"{environment.env_id} could not be drawn: {error}")
    finally:
        envs.close()


def measures_read(
    environment: Environment, trajectories: Sequence[Trajectory]
) -> tuple[Sequence[Measure], Mapping[str, list[Ratio] | list[Times]]]:
    """Return the measures of complete episodes, and each measure's readings. The measures are the
    guest's, or else the total of each cost. Steps without costs have no measures."""
    names = environment.spaces().costs
    if not names:
        return (), {}
    from workflow_rl.evaluation.measures import measures_of_costs, read_measures

    guest = guests.get(environment.env_id)
    of_guest = () if guest is None else guest.measures(environment.args)
    measures = of_guest or measures_of_costs(names)
    return measures, read_measures(measures, names, trajectories)


def scoring_of(env_id: str) -> Scoring:
    scoring = guests[env_id].scoring() if env_id in guests else None
    return scoring or ReturnScoring()


class ReturnScoring:
    """Scoring by mean return, without settings: see `environments.challenge.Scoring`."""

    unit = "episodes"
    settings = Settings

    def settings_for(self, args: Mapping[str, Any]) -> Settings:
        return Settings()

    def is_whole(self, settings: Settings) -> bool:
        return True

    def returns(self, scores: Mapping[str, Any]) -> dict[str, list[float]]:
        """Return the episodes' returns, by the environment's id."""
        return {str(scores["env"]): list(map(float, scores["returns"]))}

    def score(
        self,
        actor: Actor | None,
        environment: Environment | None,
        settings: Settings,
        *,
        name: str,
        episodes: int,
        seed: int,
        n_workers: int | None,
        worker_timeout: float,
        quiet: bool,
    ) -> Evaluation:
        """Play episodes. Each episode depends only on the seed and the episode's number."""
        assert actor is not None
        assert environment is not None
        specs = [
            episode_spec(seed, number, environment.variants, SeedStream.EVALUATION)
            for number in range(episodes)
        ]
        environment.spaces()  # Learns the costs, which workers receive with the environment.
        start = time.perf_counter()
        n_workers = min(n_workers or usable_cores(), episodes)
        with (
            LocalPool(
                environment.make_envs, n_workers, 1, worker_timeout, preload=environment.preload
            ) as pool,
            Progress(quiet, episodes, "ep") as progress_bar,
        ):
            trajectories = play_with_progress(pool, actor, specs, progress_bar)
        if (warning := outweighing(trajectories)) is not None:
            _log.warning("%s", warning)
        names = environment.spaces().costs
        sums = np.array([played.episode_costs for played in trajectories]).T.tolist()
        team, returns_of = environment.spaces().team, {}
        if team is not None and team.own_rewards:
            of_agents = team.own_returns(trajectories).T.tolist()
            returns_of = dict(zip(team.agents, of_agents, strict=True))
        return Evaluation(
            environment.env_id,
            seed,
            [trajectory.episode_return for trajectory in trajectories],
            [trajectory.length for trajectory in trajectories],
            time.perf_counter() - start,
            returns_of,
            dict(environment.args),
            dict(zip(names, sums, strict=True)),
            *measures_read(environment, trajectories),
        )
