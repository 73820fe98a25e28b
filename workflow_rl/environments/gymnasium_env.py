"""Any Gymnasium environment, and any BatchedEnv, as the Environment of a run.

Functions that need the user's code are in `making`, which a run's main process does not import.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import gymnasium

from workflow_rl.agents.policies.numpy_policy import Actor
from workflow_rl.agents.spaces import Spaces
from workflow_rl.agents.user_modules import imported, in_one_line, refuse_a_file
from workflow_rl.environments.environment import ENV, SETTINGS, Facts, Tell
from workflow_rl.environments.named_by_file import TRUST_IT, Gated, is_plain, refused, texts_in
from workflow_rl.errors import ConfigError

if TYPE_CHECKING:
    from workflow_rl.environments.env_batch import Env, EnvBatch

MOST_LEVELS = 32
"""The most levels of nested arguments, because Python cannot copy hundreds of levels."""


@dataclass(frozen=True)
class GymnasiumEnvironment(Gated):
    """An environment by its id.

    env_id: a Gymnasium id ("CartPole-v1", "module:ID"), or "module:name" of a function or class
        that makes a Gymnasium environment, or of a subclass of BatchedEnv or BatchedTeamEnv.
    args: keyword arguments of `gymnasium.make`, of the function, or of the class.
    factory: the function or class. The id is then only a name.
    masks: whether agents see the environment's mask of actions, if it offers masks.
    named_by_file: whether only a stranger's file mentions the id and the arguments. The environment
        is then made only if no stranger's code runs: see `require_named`.
    ignore_unknown: whether entries of a Dict observation whose spaces are not supported are left
        out: see `KnownEntries`.
    python: the interpreter that plays the environment: see `simulator`. "" is this one.
    private_random: whether each env has its own random state: see `PrivateRandom`.
    costs: the names of the costs that each step has. They are empty until the facts are known.

    Raises ConfigError if the id or an argument's name is not text.
    """

    env_id: str
    args: Mapping[str, Any] = field(default_factory=dict)
    factory: Callable[..., Env] | None = None
    masks: bool = True
    named_by_file: bool = False
    ignore_unknown: bool = False
    python: str = ""
    private_random: bool = field(default=False, compare=False)
    costs: tuple[str, ...] = field(default=(), compare=False)

    variants = ()
    episode_steps = None
    plays_together = True
    preload = "workflow_rl.environments.making"
    settings = SETTINGS

    def __post_init__(self) -> None:
        names = [self.env_id, *self.args]
        if not all(isinstance(name, str) for name in names):
            raise ConfigError(ENV, f"{names!r:.200} are not all text")
        if self.factory is not None and not callable(self.factory):
            raise ConfigError(
                ENV, f"{self.factory!r:.200}: give the function or class that makes the environment"
            )
        if _is_deeper(self.args, MOST_LEVELS):
            raise ConfigError(ENV, f"its arguments have more than {MOST_LEVELS} levels")

    @property
    def imports_a_module(self) -> bool:
        """Whether the user's id names a module. It is imported before envs are made."""
        return self.factory is None and ":" in self.env_id and not self.named_by_file

    def require_named(self) -> None:
        """Raise ConfigError if only a file mentions the environment, and making the environment
        would import a module, start an interpreter, or pass an argument that may name a file."""
        if not self.named_by_file:
            return
        if self.python:
            raise ConfigError(
                "env_python",
                f"only the file mentions the interpreter {self.python}, to be run: give ",
                "env_python",
                f", or {TRUST_IT}",
            )
        if self.factory is None and ":" in self.env_id:
            # An environment of this package may make another environment, which an argument names.
            names = [name for name in (self.env_id, *texts_in(self.args)) if ":" in name]
            of_others = (name for name in names if not name.startswith("workflow_rl."))
            raise ConfigError(ENV, refused(next(of_others, self.env_id)))
        for name, value in self.args.items():
            if not is_plain({name: value}):
                raise ConfigError(
                    ENV,
                    f"only the file gives the environment {self.env_id} its argument "
                    f"{name}={value!r:.100}, which may name a file or a module: {TRUST_IT}",
                )

    @property
    def steps_together(self) -> bool:
        """Whether one call steps all environments of a worker: see `BatchedEnv`.

        Imports the module in the id, unless only a file mentions the id.
        """
        try:
            self.require_named()
            if self.python or (factory := self.made_by()) is None:
                return False
            from workflow_rl.environments.making import is_batched

            return is_batched(factory)
        except Exception:  # `check` reports what is wrong with the module.
            return False

    def made_by(self) -> Callable[..., Any] | None:
        """Return the function or class that makes the environment; None for a Gymnasium id.

        Raise ConfigError if the id names a file.
        """
        module_name, colon, name = self.env_id.partition(":")
        if self.factory is not None or not colon:
            return self.factory
        try:
            refuse_a_file(self.env_id)
        except ValueError as error:
            raise ConfigError(ENV, str(error)) from None
        factory: Callable[..., Any] | None = getattr(imported(module_name), name, None)
        return factory

    @property
    def label(self) -> str:
        """The id, without characters that are forbidden in file names."""
        return re.sub(r"[^\w.-]+", "-", self.env_id)

    def make_env(self, **options: Any) -> Env:
        """Return one environment, without this package's wrappers for policies.

        Raise ConfigError if only a file mentions the environment. Its code may raise any exception.
        """
        self.require_named()
        from workflow_rl.environments.making import single_env

        return single_env(self, options)

    def actor_on_observations(self, actor: Actor) -> Actor:
        return actor  # The environment does not transform observations or actions.

    def _make_envs(self, n_envs: int) -> EnvBatch:
        from workflow_rl.environments.making import several_envs

        return several_envs(self, n_envs)

    def teller(self, checks: bool) -> Callable[[Tell], None]:
        """Return a function for a worker that tells the facts, and, with `checks`, the result of
        `check`. Raises ConfigError if only a file mentions the environment."""
        self.require_named()
        return functools.partial(self._tell_facts, checks)

    def _tell_facts(self, checks: bool, tell: Tell) -> None:
        """Tell the facts and the result of `check`, or a ConfigError. It replaces any exception of
        the environment, SystemExit included."""
        try:
            tell(self.facts)
            if checks:
                tell(self.check(tell))
        except ConfigError as error:
            tell(error)
        except BaseException as error:
            told = f"{self.env_id} cannot be played: {in_one_line(error)}"
            tell(ConfigError(ENV, told))

    @property
    def is_known(self) -> bool:
        return "facts" in vars(self)

    def learn(self, facts: Facts) -> None:
        vars(self).update(facts=facts, costs=facts.spaces.costs)

    def separate(self) -> None:
        """Give each env that is made from now on its own random state."""
        vars(self)["private_random"] = True

    @functools.cached_property
    def facts(self) -> Facts:
        """What the environment declares. Raises ConfigError.

        If the facts are not known, makes an environment in this process. For a worker instead, see
        `collection.try_in_worker`.
        """
        from workflow_rl.environments.making import declared_facts

        self.require_named()
        facts = declared_facts(self)
        self.learn(facts)
        return facts

    def spaces(self) -> Spaces:
        return self.facts.spaces

    def check(self, tell: Tell = lambda *answers: None) -> str | None:
        """Make an env and play it: see Environment. tell: see `found_by_playing`."""
        from workflow_rl.environments.determinism import found_by_playing

        self.require_named()
        return found_by_playing(self, tell)

    def __getstate__(self) -> dict[str, Any]:
        # Workers do not know the ids that the caller's own script registered.
        registered = None if self.python else gymnasium.registry.get(self.env_id)
        state = {part.name: getattr(self, part.name) for part in dataclasses.fields(self)}
        return {"environment": state, "registered": registered}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state["environment"])
        if state["registered"] is not None:
            gymnasium.registry.setdefault(self.env_id, state["registered"])


def _is_deeper(value: Any, levels: int) -> bool:
    if not isinstance(value, Mapping | list | tuple):
        return False
    entries = value.values() if isinstance(value, Mapping) else value
    return levels < 0 or any(_is_deeper(entry, levels - 1) for entry in entries)
