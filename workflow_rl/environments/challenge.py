"""What a guest, an environment that a package brings, can tell the rooms above."""

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
"""What acts: PolicyParameters, TeamParameters, or the name of a scripted agent."""
Export: TypeAlias = "Callable[[Exported, Environment, Path], None]"
"""Write what acts into a folder, which is not there yet.
Raise ConfigError if agents of this environment cannot be written."""


class Scores(Protocol):
    """What an agent scored."""

    def lines(self, agent: str) -> Sequence[str]:
        """Return the text to show, line by line. agent: what the text calls the agent."""

    def closing_lines(self, agent: str) -> Sequence[str]:
        """Return the text that ends a training run: what counts most for its agent."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as evaluation.json keeps them."""


class Scoring(Protocol):
    """How agents are scored on an environment."""

    unit: str
    """What the number of episodes counts: "episodes", or "episodes a cell"."""

    @property
    def settings(self) -> type[Settings]:
        """What can be chosen besides the agent, the number of episodes, the seed and the workers.

        The options of `evaluate` are generated from the fields. A field `agent`, if there is one,
        names an agent that is scored instead of a trained one. A path is a folder to write in.
        """

    def settings_for(self, args: Mapping[str, Any]) -> Settings:
        """Return the settings that score an agent which was trained with these arguments.

        Raise ConfigError if such an agent cannot be scored.
        """

    def is_whole(self, settings: Settings) -> bool:
        """Return whether these scores are the agent's own, which a run's folder keeps."""

    def returns(self, scores: Mapping[str, Any]) -> Mapping[str, Sequence[float]]:
        """Return the episodes' returns by task, from scores as `Scores.to_dict` gives them.

        Agents that are compared have played tasks of the same names. An agent's score is the mean
        return, of several tasks the sum of these. Raise LookupError, TypeError or ValueError if
        they are no such scores.
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
            actor: the agent; None if the settings name one.
            environment: what the agent was trained on; None if the settings name an agent.
            settings: an instance of the class `settings`.
            name: the agent's path or name.
            episodes: the number of episodes, in `unit`.
            seed: the same seed gives the same scores, for any number of workers.
            n_workers: the number of processes; None: one a core.
            worker_timeout: seconds within which each call of an environment must return.
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
    policy files or names. An episode draws one of them by its seed, or, on the first side, plays
    against the one that its variant names. greedy: whether agents of this side choose their
    likeliest actions as opponents, or else sample them. fixed: names of this side's fixed agents,
    which the other side's `opponents` takes. brought: names of the arguments of which a guest's
    agents keep those of their training: what they see and do.
    """

    env: str
    args: Mapping[str, Any]
    opponents: str
    fixed: Sequence[str] = ()
    greedy: bool = False
    brought: Sequence[str] = ()


class Replay(NamedTuple):
    """An episode as a page. page: HTML. lines: what to tell about the episode, line by line.
    is_same: False if another simulator of the environment played the episode differently."""

    page: str
    lines: Sequence[str]
    is_same: bool = True


class Replays(Protocol):
    """How the command `replay` shows episodes."""

    @property
    def settings(self) -> type[Settings]:
        """What can be chosen of an episode. The options of `replay` are made from the fields."""

    def load(self, agent: Path, which: str | None, greedy: bool | None) -> Any:
        """Return the agent of a run folder, checkpoint or policy file, or one that a name stands
        for, as `replay` takes it. Nothing is imported or called that a file names.

        which: the checkpoint of a run folder, see `saved_path`. greedy: choose likeliest actions;
        None: as the agent is to be played.
        Raises UserError or ConfigError.
        """

    def replay(self, agents: Sequence[Any], settings: Settings, seed: int, episode: int) -> Replay:
        """Play an episode of the evaluation with this seed, with each of one or two agents.

        Raises RuntimeError if the episode cannot be played, ConfigError if the settings
        name what cannot play.
        """


class Guest:
    """An environment that a package brings, and what the trainers should know of it.

    A subclass sets `env_id`, defines `arguments` and `make`, and overrides what else it has. A hook
    imports inside the method whatever is heavy. A package makes its guest known by the entry point
    `workflow_rl.guests`, whose name is `env_id`. The entry points `workflow_rl.presets` and
    `workflow_rl.released` name the guest's class for each name of `presets` and `released`.
    """

    env_id: ClassVar[str]
    """The name of the environment, as `--env` has it."""

    title: ClassVar[str] = ""
    """What headings call the environment; "": `env_id`."""

    most_used: ClassVar[Sequence[str]] = ()
    """The arguments that --help lists first."""

    shown: ClassVar[Sequence[str]] = ()
    """The arguments that decide what observations and actions mean."""

    is_team: ClassVar[bool] = False
    """Whether several agents play."""

    single: ClassVar[str] = ""
    """What `check-env` makes instead of the id: another id of Gymnasium's, or module:name."""

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = NOTHING
    """Defaults of whole runs on this environment, as fields of a config, by the preset's name."""

    recommended: ClassVar[Collection[str]] = ()
    """The presets that a run on this environment recommends for better agents; none: all."""

    off_policy: ClassVar[Mapping[str, Any]] = NOTHING
    """The arguments that algorithms which learn off-policy get unless others are asked for: an
    observation of which a value can be learned, and a set of actions that goes with it."""

    measured: ClassVar[Mapping[str, Mapping[str, Any]]] = NOTHING
    """The arguments that `benchmark` measures, by the name of each variant."""

    has_verdicts: ClassVar[bool] = True
    """Whether a training's returns are so like `known_returns` that one can be called better."""

    places: ClassVar[Mapping[str, tuple[str, str]]] = NOTHING
    """Folders of the user's that the environment needs: by the option's name, the environment
    variable that holds the folder, and what the folder is. No file of a run names such a folder."""

    released: ClassVar[Mapping[str, Path]] = NOTHING
    """Policy files that come with the package, by the agent's name. A name without an entry point
    is known where the environment is named."""

    def player(self, agent: Path) -> Any:
        """Return what `load_agent` returns for an agent that no trainer of the package wrote, at a
        path or of a name. None if there is no such agent."""
        return None

    def arguments(self) -> type[Settings]:
        """Return the class of the arguments. Options, checks and pages are made from its fields."""
        raise NotImplementedError

    def make(self, args: Settings) -> Environment:
        """Return the environment with these arguments, an instance of the class `arguments`."""
        raise NotImplementedError

    def known_returns(self, args: Mapping[str, Any]) -> Mapping[str, float]:
        """Return mean returns of other agents in such episodes, by the agent's name."""
        return NOTHING

    def choose_best(self, run_path: Path, quiet: bool) -> str | None:
        """Make the best candidate of a run's folder best.safetensors. Return what to tell.

        Return None if nothing was chosen. Raise UserError or OSError if a candidate cannot
        be read.
        """
        return None

    def by_hand(self) -> Sequence[str]:
        """Return the names of agents of this side that were written by hand. `exploit` tries them
        as attackers, and `--teacher` takes them."""
        return ()

    def teaching(self, agent: str, environment: Environment) -> EnvBatchFactory | None:
        """Return what makes envs whose rows end with an agent's next action: see `--teacher`.

        agent: a name or a path, as `evaluate` takes it. environment: of this guest; its policies
        learn from the rows.

        The envs are those of `environment.make_envs`. After all that a row has there, it has the
        agent's action among those of the policies: a number, or K numbers of a team or of another
        action of K numbers. The next step takes this action. Where the policies lack the action, or
        a mask rules it out, choose another that does the least. None: a policy of this name or path
        acts on the rows as they are.

        Raise ConfigError or a UserError for an agent that cannot teach.
        """
        return None

    def sides(self, args: Mapping[str, Any]) -> Mapping[str, Side]:
        """Return the two sides of this environment by name, for `train-duel` and `exploit`; nothing
        if one side alone can be played.

        The first side's return is what the payoff table holds. args: all arguments of this
        environment. What they ask for beside the opponents holds on both sides, where it can.
        """
        return NOTHING

    def actor_for_side(
        self, policy: Any, environment: Environment, args: Mapping[str, Any]
    ) -> tuple[Any, Mapping[str, Any]]:
        """Return an actor that plays a policy of `environment`, which is this guest's, and `args`
        with the observations and actions that the actor needs.

        Raises ConfigError for a policy that does not fit them.
        """
        return policy, args

    def measures(self, args: Mapping[str, Any]) -> Sequence[Any]:
        """Return the `evaluation.measures.Measure`s of episodes, which the costs of steps tell.

        args: all arguments of this environment. Empty: the total of each cost is measured.
        """
        return ()

    def scoring(self) -> Scoring | None:
        """Return how agents are scored; None: by their mean return."""
        return None

    def replays(self) -> Replays | None:
        """Return how episodes are shown as pages; None: they are not."""
        return None

    def exports(self) -> Mapping[str, Export]:
        """Return functions that write an agent in formats of this environment, by format."""
        return NOTHING

    def handed_in(self, args: Mapping[str, Any]) -> str | None:
        """Return the format of `exports` for agents that were trained with these arguments; None if
        the challenge cannot play them."""
        return next(iter(self.exports()), None)

    played_by: ClassVar[Mapping[str, str]] = NOTHING
    """By format of `exports`: the command that plays what was written, at `{output}`."""

    def findings(self) -> Iterable[Callable[[], Iterable[Any]]]:
        """Return the checks of this environment's installation, for `doctor`: see
        `commands.doctor.findings_of`."""
        return ()

    def report_sections(self, runs: Sequence[Any], folder: Path) -> Sequence[Any] | None:
        """Return the sections (title, HTML) of a report about runs on this environment.

        Args:
            runs: the runs, as a report has read them.
            folder: where further pages may be written to; it is not there yet.

        None: the general section about scores will do.
        """
        return None
