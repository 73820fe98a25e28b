"""What an algorithm has to offer, and the registry in which a run finds it by name. No torch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from workflow_rl.agents.settings import NetworkSettings, Settings, giver
from workflow_rl.agents.user_modules import attribute_named
from workflow_rl.errors import ConfigError
from workflow_rl.plug_ins import plug_ins

if TYPE_CHECKING:
    from workflow_rl.agents.policies.distributions import Distribution
    from workflow_rl.agents.policies.numpy_policy import Parameters, PolicyParameters
    from workflow_rl.agents.replay import Transitions
    from workflow_rl.agents.spaces import Spaces
    from workflow_rl.agents.trajectory import Trajectory


class DivergedError(ArithmeticError):
    """A loss or a gradient became NaN or infinite."""


class Metrics(Protocol):
    """Numbers that describe one update, such as a NamedTuple."""

    def _asdict(self) -> dict[str, Any]: ...


class CopyMetrics(NamedTuple):
    """How well a policy does as its teacher did, after an epoch of copying.

    policy_loss: minus the mean log-probability of the teacher's actions. value_loss: the critic's,
    on the returns. agreement: in episodes that nothing was learned from, the share of the decisions
    in which the likeliest action is the teacher's; of actions that are real numbers, the share of
    their variance that the likeliest actions explain; of both, the least of the parts.
    """

    policy_loss: float
    value_loss: float
    agreement: float


class Series(NamedTuple):
    """Steps that an agent remembers, numbered from the first step that it ever had of this kind.

    pieces: the steps held, as ranges of numbers (first, end), oldest first. A file holds steps of
    one piece. numbered: return the steps from number `first` up to `end`, all of one piece.
    capacity: how many of the last steps the agent holds, or None for all that are in files.
    load: remember other steps instead, given the number after the last and the parts, oldest first;
    it copies what it needs, and raises ValueError for steps that do not fit.
    """

    pieces: Sequence[tuple[int, int]]
    numbered: Callable[[int, int], Transitions]
    capacity: int | None
    load: Callable[[int, Iterable[Transitions]], None]


class LearningAgent(Protocol):
    """A learner of one policy. Derive from this class to have its defaults.

    policy_version: number of updates that the weights have seen. distribution: of the actions.
    on_modelling: a run sets this function to trace the updates. An agent that fits a model calls it
    with True before the fit, and with False after it.
    """

    policy_version: int
    distribution: Distribution
    on_modelling: Callable[[bool], None] = staticmethod(lambda begins: None)

    def policy_parameters(self) -> Parameters:
        """Return a NumPy copy of the actor, which workers act with."""

    def copy(
        self, taught: Sequence[Trajectory], held_out: Sequence[Trajectory], epochs: int
    ) -> Iterator[CopyMetrics]:
        """Learn to act as a teacher did, before the first update. Yield after each epoch.

        Called if the algorithm `takes_teachers`. taught: complete episodes that the teacher played.
        held_out: others, which nothing is learned from. Raises DivergedError.
        """
        raise TypeError("it copies no teacher")

    def update(self, trajectories: Sequence[Trajectory], progress: float) -> Metrics:
        """Learn from a rollout; afterwards `policy_version` is one higher.

        progress: share of the run's episodes (or steps) collected before this rollout, from 0 to 1.
        Raises DivergedError; the agent must then be given an earlier state.
        """

    def state_dict(self) -> dict[str, Any]:
        """Return a copy of all that the next update depends on, except what `memory` has.

        It has tensors and plain values alone: at least "network", the weights by name;
        "distribution", as its `to_plain` gives it; "policy_version" and "seed".
        """

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state_dict()`.

        Raises ValueError with a reason, or RuntimeError, LookupError, TypeError, AttributeError or
        ArithmeticError for a state that does not fit.
        """

    def load_policy(self, state: Mapping[str, Any]) -> None:
        """Take the weights alone from a `state_dict()`, to begin a run with. Raises the same."""

    def memory(self) -> Mapping[str, Series]:
        """Return what the agent remembers besides its state, by a name for files.

        A run writes the steps beside its latest checkpoint, each of them a few times at most.
        """
        return {}


class Algorithm(Protocol):
    """A way to learn. Derive from this class to have its defaults.

    name: as `--algorithm` takes it. settings: class of its hyperparameters. metrics: fields of what
    `LearningAgent.update` returns, the columns of a run's metrics. devices: of "cpu" and "cuda",
    where its agents can learn. most_threads: of the CPU, or None for any number. takes_masks:
    whether its agents take masks of actions: see `policies.distributions`. takes_teams: whether
    it learns for several agents in one environment: see `agents.team`. takes_privileged: whether it
    has a critic that may see more than the actor. takes_teachers: whether its agents have `copy`.
    general: the class of settings whose defaults an environment may replace. The defaults of a
    class that derives from it are right in every environment. off_policy: whether its agents learn
    from all steps that they remember, whichever policy chose them: values of an observation then
    need an observation that tells enough. to_lower: settings of which smaller values keep learning
    from diverging.
    """

    name: str
    settings: type[Settings]
    metrics: tuple[str, ...]
    devices: tuple[str, ...] = ("cpu",)
    most_threads: int | None = None
    takes_masks: bool = False
    takes_teams: bool = False
    takes_privileged: bool = False
    takes_teachers: bool = False
    general: type[Settings] = NetworkSettings
    off_policy: bool = False
    to_lower: tuple[str, ...] = ("learning_rate",)

    def distribution(self, spaces: Spaces, settings: Settings) -> Distribution:
        """Return what the actions of an agent are drawn from.

        Raises ConfigError for spaces that this algorithm cannot learn on.
        """
        if spaces.team is not None and not self.takes_teams:
            raise ConfigError("algorithm", f"{self.name} learns for no teams of agents: use ppo")
        if spaces.masked and not self.takes_masks:
            raise ConfigError(
                "action_mask",
                f"{self.name} takes no masks of actions, which the environment offers: give "
                "--no-action-mask",
            )
        if spaces.privileged and not self.takes_privileged:
            raise ConfigError(
                "algorithm", f"{self.name} has no critic for the environment's privileged_obs"
            )
        return spaces.distribution

    def make(
        self, settings: Settings, spaces: Spaces, seed: int, device: str, threads: int
    ) -> LearningAgent:
        """Make an agent. Weights and random numbers follow from `seed`. Raises ConfigError.

        device: one of `devices`. threads: of the CPU, which torch has been told.
        """

    def settings_for(
        self, environment: Mapping[str, Any], given: Mapping[str, Any] = {}
    ) -> Settings:
        """Return settings: those given, then `replaced_by`, then the defaults. Raises ConfigError.

        environment: an environment's own settings, of this algorithm and others.
        """
        return self.settings(**{**self.replaced_by(environment), **given})

    def replaced_by(self, environment: Mapping[str, Any]) -> dict[str, Any]:
        """Return an environment's own settings that replace defaults: see `general`."""
        kind = self.settings
        general = {
            name for name in kind.model_fields if issubclass(self.general, giver(kind, name))
        }
        return {name: environment[name] for name in environment if name in general}

    def metrics_of(self, settings: Settings, spaces: Spaces) -> tuple[str, ...]:
        """Return the fields of what `LearningAgent.update` returns to a run with these spaces."""
        return self.metrics

    def saved_policy(self, settings: Settings, state: Mapping[str, Any]) -> Parameters:
        """Return the actor of a `state_dict()`, without making an agent.

        By default that of an `actor_critic.ActorCritic`, if the settings are NetworkSettings.
        Raises what `LearningAgent.load_state_dict` raises.
        """
        from workflow_rl.agents.policy_from_checkpoint import saved_policy

        assert isinstance(settings, NetworkSettings)
        return saved_policy(settings, state)

    def saved_critic(
        self, settings: Settings, state: Mapping[str, Any]
    ) -> tuple[PolicyParameters, float]:
        """Return the critic of a `state_dict()`, as `saved_policy` returns the actor.

        The network has one output: the value of an observation. The number is what a reward of 1
        adds to a value. Raises ValueError if there is no critic.
        """
        from workflow_rl.agents.policy_from_checkpoint import saved_critic

        assert isinstance(settings, NetworkSettings)
        return saved_critic(settings, state), settings.reward_scale

    def max_policy_lag(self, settings: Settings) -> int | None:
        """Return the largest lag of steps, in updates, that agents learn from; None is any."""
        return None

    def steps_before_learning(self, settings: Settings) -> int:
        """Return the number of steps that a run collects before anything is learned."""
        return 0


_registered: dict[str, Algorithm] = {}


def register(algorithm: Algorithm) -> None:
    _registered[algorithm.name] = algorithm


@functools.cache
def _installed(name: str) -> Algorithm:
    found = plug_ins("algorithms")[name].load()
    algorithm: Algorithm = found() if isinstance(found, type) else found
    return algorithm


def names() -> list[str]:
    """Return the names that `find` knows: this package's, registered and installed ones."""
    return list(dict.fromkeys([*plug_ins("algorithms"), *_registered]))


def find(name: str) -> Algorithm:
    """Return the algorithm of this name. Imports nothing that only the name names.

    Raises ConfigError if there is none.
    """
    if name in _registered:
        return _registered[name]
    if name in plug_ins("algorithms"):
        return _installed(name)
    hint = ": name it with --algorithm to import it" if ":" in name else ""
    raise ConfigError("algorithm", f"{name!r} is not one of {', '.join(names())}{hint}")


def load(name: str) -> Algorithm:
    """Return the algorithm of this name, or import the one that "module:name" names, which may be
    the algorithm or its class.

    Call this for names that the user has typed, never for those from a file. From then on `find`
    knows the name. Raises ConfigError.
    """
    if ":" in name:
        try:
            found = attribute_named(name)
        except ValueError as error:
            raise ConfigError("algorithm", str(error)) from error
        found = found() if isinstance(found, type) else found
        if not isinstance(getattr(found, "settings", None), type):
            raise ConfigError("algorithm", f"{name} is no algorithm: it has no class `settings`")
        _registered[name] = found
    return find(name)
