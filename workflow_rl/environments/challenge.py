"""The interface of a guest, which is an environment that a package brings, for the rooms above."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from workflow_rl.agents.policies.numpy_policy import Actor, Parameters
    from workflow_rl.agents.settings import Settings
    from workflow_rl.environments.env_batch import EnvBatchFactory
    from workflow_rl.environments.environment import Environment

NOTHING: Mapping[str, Any] = MappingProxyType({})

Exported: TypeAlias = "Parameters | str"
"""An agent: PolicyParameters, TeamParameters, or the name of a scripted agent."""
Export: TypeAlias = "Callable[[Exported, Environment, Path], None]"
"""Writes an agent into a folder that does not exist yet.
Raises ConfigError if agents of this environment cannot be written."""


class Scores(Protocol):
    """What an agent scored."""

    def lines(self, agent: str) -> Sequence[str]:
        """Return the lines of text to show. agent: the agent's name in the text."""

    def closing_lines(self, agent: str) -> Sequence[str]:
        """Return the lines that end a training run: the agent's most important scores."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for evaluation.json."""


class Scoring(Protocol):
    """How agents are scored on an environment."""

    unit: str
    """The unit of the number of episodes: "episodes", or "episodes a cell"."""

    @property
    def settings(self) -> type[Settings]:
        """The user's choices besides the agent, the number of episodes, the seed and the workers.

        The options of `evaluate` are generated from the fields. A field `agent`, if there is one,
        names an agent that is scored instead of a trained agent. A path is a folder to write in.
        """

    def settings_for(self, args: Mapping[str, Any]) -> Settings:
        """Return the settings that score an agent that was trained with these arguments.

        Raise ConfigError if such an agent cannot be scored.
        """

    def is_whole(self, settings: Settings) -> bool:
        """Return whether scores with these settings are the ones that a run's folder stores."""

    def returns(self, scores: Mapping[str, Any]) -> Mapping[str, Sequence[float]]:
        """Return the episodes' returns by task, from the result of `Scores.to_dict`.

        Agents that are compared must have tasks with equal names. An agent's score is the mean
        return, or the sum of the tasks' mean returns. Raise LookupError, TypeError or ValueError
        for other values.
        """

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
    ) -> Scores:
        """Play the episodes and score them.

        Args:
            actor: the agent; None if the settings name an agent.
            environment: what the agent was trained on; None if the settings name an agent.
            settings: an instance of the class `settings`.
            name: the agent's path or name.
            episodes: the number of episodes, in `unit`.
            seed: a seed gives the same scores for any number of workers.
            n_workers: the number of processes; None: one for each core.
            worker_timeout: the time limit in seconds for each call of an environment.
            quiet: show no progress bar.

        Raises:
            ConfigError: the agent cannot be scored.
            TooManyFailuresError: an episode cannot be played.
        """


class Side(NamedTuple):
    """One side of a duel: the environment in which its agents learn and play, against agents of the
    other side.

    env: the environment's id. args: its arguments, without the opponents. opponents: the name of
    the argument that takes agents of the other side with their weights, as "agent=weight,..." of
    policy files or names. An episode draws an opponent by its seed. On the first side, the
    episode's variant may name the opponent. greedy: whether this side's agents, as opponents,
    choose their likeliest actions, or sample actions. fixed: names of this side's fixed agents,
    which the other side's `opponents` takes. brought: names of arguments about observations and
    actions, for which an agent keeps the values of its training.
    """

    env: str
    args: Mapping[str, Any]
    opponents: str
    fixed: Sequence[str] = ()
    greedy: bool = False
    brought: Sequence[str] = ()


class Replay(NamedTuple):
    """An episode as a page. page: HTML. lines: lines of text about the episode. is_same: False if
    another simulator of the environment played the episode differently."""

    page: str
    lines: Sequence[str]
    is_same: bool = True


class Replays(Protocol):
    """How the command `replay` shows episodes."""

    @property
    def settings(self) -> type[Settings]:
        """The user's choices about an episode. The options of `replay` are made from the fields."""

    def load(self, agent: Path, which: str | None, greedy: bool | None) -> Any:
        """Return the agent of a run folder, checkpoint, policy file or name, for `replay`. Nothing
        that a file names is imported or called.

        which: the checkpoint of a run folder, see `saved_path`. greedy: choose likeliest actions;
        None: as the agent's file says.
        Raises UserError or ConfigError.
        """

    def replay(self, agents: Sequence[Any], settings: Settings, seed: int, episode: int) -> Replay:
        """Play an episode of the evaluation with this seed, with each of one or two agents.

        Raises RuntimeError if the episode cannot be played, ConfigError if the settings name an
        opponent that cannot play.
        """


class Guest:
    """An environment that a package brings, with its facts for training and scoring.

    A subclass sets `env_id`, defines `arguments` and `make`, and may override other members. Heavy
    imports are inside the methods. A package registers its guest by the entry point
    `workflow_rl.guests`, whose name is `env_id`. The entry points `workflow_rl.presets` and
    `workflow_rl.released` name the guest's class for each name in `presets` and `released`.
    """

    env_id: ClassVar[str]
    """The name of the environment in `--env`."""

    title: ClassVar[str] = ""
    """The environment's name in headings; "" means `env_id`."""

    most_used: ClassVar[Sequence[str]] = ()
    """The arguments that --help lists first."""

    shown: ClassVar[Sequence[str]] = ()
    """The arguments that decide the meaning of observations and actions."""

    is_team: ClassVar[bool] = False
    """Whether several agents play."""

    single: ClassVar[str] = ""
    """The id that `check-env` makes instead of `env_id`: another Gymnasium id, or module:name."""

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = NOTHING
    """Defaults of whole runs on this environment, as fields of a config, by the preset's name."""

    recommended: ClassVar[Collection[str]] = ()
    """The presets that a run on this environment recommends for better agents. Empty: all."""

    off_policy: ClassVar[Mapping[str, Any]] = NOTHING
    """Default arguments for algorithms that learn off-policy: an observation from which a value can
    be learned, and a matching set of actions."""

    measured: ClassVar[Mapping[str, Mapping[str, Any]]] = NOTHING
    """The arguments that `benchmark` measures, by the name of each variant."""

    has_verdicts: ClassVar[bool] = True
    """Whether a training's returns can be compared with `known_returns`, for a verdict."""

    places: ClassVar[Mapping[str, tuple[str, str]]] = NOTHING
    """The user's folders that the environment needs: by the option's name, the environment variable
    with the folder's path, and a description. A run's files do not contain these paths."""

    released: ClassVar[Mapping[str, Path]] = NOTHING
    """Policy files that come with the package, by the agent's name. A name without an entry point
    is found only if the environment is named, too."""

    def player(self, agent: Path) -> Any:
        """Return the result of `load_agent` for a path or name of an agent that this package's
        trainers did not write. None if there is no such agent."""
        return None

    def arguments(self) -> type[Settings]:
        """Return the class of the arguments. Options, checks and pages are made from its fields."""
        raise NotImplementedError

    def make(self, args: Settings) -> Environment:
        """Return the environment with these arguments, an instance of the class `arguments`."""
        raise NotImplementedError

    def known_returns(self, args: Mapping[str, Any]) -> Mapping[str, float]:
        """Return mean returns of other agents in episodes with these arguments, by agent's name."""
        return NOTHING

    def choose_best(self, run_path: Path, quiet: bool) -> str | None:
        """Save the best candidate of a run's folder as best.safetensors. Return text for the user.

        Return None if no candidate was chosen. Raise UserError or OSError if a candidate cannot
        be read.
        """
        return None

    def by_hand(self) -> Sequence[str]:
        """Return the names of agents of this side that were written by hand. `exploit` tries them
        as attackers, and `--teacher` takes them."""
        return ()

    def teaching(self, agent: str, environment: Environment) -> EnvBatchFactory | None:
        """Return a factory of envs whose rows end with an agent's next action: see `--teacher`.

        agent: a name or a path, as in `evaluate`. environment: an environment of this guest, whose
        policies learn from the rows.

        The envs are those of `environment.make_envs`, but each row ends with the agent's action, in
        the numbers of the policies: a number, or K numbers for a team or an action of K numbers.
        The next step plays this action. If the policies do not have the action, or a mask forbids
        it, choose another action that does the least. Return None if a policy with this name or
        path can act on the unchanged rows.

        Raise ConfigError or a UserError for an agent that cannot teach.
        """
        return None

    def sides(self, args: Mapping[str, Any]) -> Mapping[str, Side]:
        """Return the two sides of this environment by name, for `train-duel` and `exploit`; empty
        if only one side can be played.

        The payoff table has the first side's returns. args: all arguments of this environment. They
        hold on both sides where possible, except the opponents.
        """
        return NOTHING

    def actor_for_side(
        self, policy: Any, environment: Environment, args: Mapping[str, Any]
    ) -> tuple[Any, Mapping[str, Any]]:
        """Return an actor that plays a policy of this guest's `environment`, and `args` with the
        observations and actions that the actor needs.

        Raises ConfigError if the policy does not fit `args`.
        """
        return policy, args

    def measures(self, args: Mapping[str, Any]) -> Sequence[Any]:
        """Return the `evaluation.measures.Measure`s of episodes, which are read from steps' costs.

        args: all arguments of this environment. If the result is empty, each cost's total is a
        measure.
        """
        return ()

    def scoring(self) -> Scoring | None:
        """Return how agents are scored; None: by their mean return."""
        return None

    def replays(self) -> Replays | None:
        """Return how `replay` shows episodes as pages; None if it cannot."""
        return None

    def exports(self) -> Mapping[str, Export]:
        """Return functions that write an agent in formats of this environment, by format."""
        return NOTHING

    def handed_in(self, args: Mapping[str, Any]) -> str | None:
        """Return the format of `exports` for agents that were trained with these arguments; None if
        the challenge cannot play them."""
        return next(iter(self.exports()), None)

    played_by: ClassVar[Mapping[str, str]] = NOTHING
    """By format of `exports`: the command that plays the written agent, at `{output}`."""

    def findings(self) -> Iterable[Callable[[], Iterable[Any]]]:
        """Return the checks of this environment's installation, for `doctor`: see
        `commands.doctor.findings_of`."""
        return ()

    def report_sections(self, runs: Sequence[Any], folder: Path) -> Sequence[Any] | None:
        """Return the sections (title, HTML) of a report about runs on this environment.

        Args:
            runs: the runs that the report has read.
            folder: a folder for further pages, which does not exist yet.

        Return None for the general section about scores.
        """
        return None
