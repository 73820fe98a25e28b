"""The interface of an algorithm, and the registry of algorithms by name. Imports no torch."""

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
    """How well a policy agrees with its teacher after an epoch of copying.

    policy_loss: minus the mean log-probability of the teacher's actions. value_loss: the critic's
    loss on the returns. agreement: in held-out episodes, the share of decisions in which the
    likeliest action is the teacher's. For actions of real numbers, it is the share of the variance
    that the likeliest actions explain. For actions with both parts, it is the smaller value.
    """

    policy_loss: float
    value_loss: float
    agreement: float


class Series(NamedTuple):
    """Steps that an agent remembers. Step 0 is the first step that this series ever had.

    pieces: the ranges (first, end) of held steps, oldest first. A file holds steps of one piece.
    numbered: return the steps from number `first` to before `end`, all of one piece. capacity: how
    many of the last steps the agent holds, or None for all steps in files. load: replace the steps,
    given the end of the last range and the parts, oldest first. It copies arrays that it keeps, and
    raises ValueError for steps that do not fit.
    """

    pieces: Sequence[tuple[int, int]]
    numbered: Callable[[int, int], Transitions]
    capacity: int | None
    load: Callable[[int, Iterable[Transitions]], None]


class LearningAgent(Protocol):
    """A learner of one policy. Derive from this class to have its defaults.

    policy_version: number of updates of the weights. distribution: the distribution of actions.
    on_modelling: a run sets this function to trace the updates. An agent that fits a model calls
    on_modelling(True) before the fit, and on_modelling(False) after the fit.
    """

    policy_version: int
    distribution: Distribution
    on_modelling: Callable[[bool], None] = staticmethod(lambda begins: None)

    def policy_parameters(self) -> Parameters:
        """Return a NumPy copy of the actor. Workers act with this copy."""

    def copy(
        self, taught: Sequence[Trajectory], held_out: Sequence[Trajectory], epochs: int
    ) -> Iterator[CopyMetrics]:
        """Learn to act like a teacher, before the first update. Yield after each epoch.

        Called if the algorithm `takes_teachers`. taught: complete episodes that the teacher played.
        held_out: other complete episodes of the teacher, only for tests. Raises DivergedError.
        """
        raise TypeError("it copies no teacher")

    def update(self, trajectories: Sequence[Trajectory], progress: float) -> Metrics:
        """Learn from a rollout. This adds 1 to `policy_version`.

        progress: share of the run's episodes (or steps) collected before this rollout, from 0 to 1.
        Raises DivergedError. The agent must then load an earlier state.
        """

    def state_dict(self) -> dict[str, Any]:
        """Return a copy of the state that the next update depends on, without `memory`.

        The values are tensors and plain values. The keys are at least "network", the weights by
        name; "distribution", the result of `to_plain`; "policy_version" and "seed".
        """

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state_dict()`.

        Raises ValueError with a reason, or RuntimeError, LookupError, TypeError, AttributeError or
        ArithmeticError for a state that does not fit.
        """

    def load_policy(self, state: Mapping[str, Any]) -> None:
        """Take only the weights of a `state_dict()`, for a new run. Raises as load_state_dict."""

    def memory(self) -> Mapping[str, Series]:
        """Return the steps that the agent remembers besides its state, by a name for files.

        A run writes these steps beside its latest checkpoint, each step at most a few times.
        """
        return {}


class Algorithm(Protocol):
    """A way to learn. Derive from this class to have its defaults.

    name: the name for `--algorithm`. settings: class of the hyperparameters. metrics: the fields of
    the result of `LearningAgent.update`, which are columns of a run's metrics. devices: "cpu",
    "cuda" or both. most_threads: the most CPU threads, or None for any number. takes_masks: whether
    agents take masks of actions: see `policies.distributions`. takes_teams: whether the algorithm
    learns for several agents in one environment: see `agents.team`. takes_privileged: whether the
    critic may see more than the actor. takes_teachers: whether agents have `copy`. general: a class
    of settings. An environment may replace the defaults of this class, but not of its subclasses.
    off_policy: whether agents learn from all remembered steps of any policy. Observations must then
    suffice to predict values. to_lower: settings that should be lowered if learning diverges.
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
        """Return the distribution of an agent's actions.

        Raises ConfigError for spaces that this algorithm cannot learn on.
        """
        if spaces.team is not None and not self.takes_teams:
            raise ConfigError("algorithm", f"{self.name} cannot learn for teams of agents: use ppo")
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
        """Make an agent. `seed` determines weights and random numbers. Raises ConfigError.

        device: an element of `devices`. threads: the number of CPU threads that torch uses.
        """

    def settings_for(
        self, environment: Mapping[str, Any], given: Mapping[str, Any] = {}
    ) -> Settings:
        """Return the given settings, completed by `replaced_by`, then defaults. Raises ConfigError.

        environment: an environment's own settings for this algorithm and for other algorithms.
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
        """Return the metrics of `LearningAgent.update` in a run with these spaces."""
        return self.metrics

    def saved_policy(self, settings: Settings, state: Mapping[str, Any]) -> Parameters:
        """Return the actor of a `state_dict()`. No agent is made.

        The default is for an `actor_critic.ActorCritic` with NetworkSettings. Raises the errors of
        `LearningAgent.load_state_dict`.
        """
        from workflow_rl.agents.policy_from_checkpoint import saved_policy

        assert isinstance(settings, NetworkSettings)
        return saved_policy(settings, state)

    def saved_critic(
        self, settings: Settings, state: Mapping[str, Any]
    ) -> tuple[PolicyParameters, float]:
        """Return the critic of a `state_dict()`, and the scale of rewards in values.

        The network has one output: the value of an observation. A reward of 1 adds the scale to a
        value. Raises ValueError if there is no critic.
        """
        from workflow_rl.agents.policy_from_checkpoint import saved_critic

        assert isinstance(settings, NetworkSettings)
        return saved_critic(settings, state), settings.reward_scale

    def max_policy_lag(self, settings: Settings) -> int | None:
        """Return the largest lag, in updates, of steps that agents learn from. None is any lag."""
        return None

    def steps_before_learning(self, settings: Settings) -> int:
        """Return the number of steps that a run collects before the first learning step."""
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
    """Return the names that `find` knows: of this package, registered and installed."""
    return list(dict.fromkeys([*plug_ins("algorithms"), *_registered]))


def find(name: str) -> Algorithm:
    """Return the algorithm of this name. A name such as "module:name" is not imported.

    Raises ConfigError for an unknown name.
    """
    if name in _registered:
        return _registered[name]
    if name in plug_ins("algorithms"):
        return _installed(name)
    hint = ": name it with --algorithm to import it" if ":" in name else ""
    raise ConfigError("algorithm", f"{name!r} is not one of {', '.join(names())}{hint}")


def load(name: str) -> Algorithm:
    """Return the algorithm of this name. "module:name" imports the algorithm, or makes one if it is
    a class.

    Call this only for names that the user has typed, never for names from a file. Afterwards `find`
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
