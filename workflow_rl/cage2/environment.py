"""CAGE-2 as what a run needs of an environment: the guest that trainers know by its id."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from agents.distributions import Categorical
from workflow_rl.cage2.scenario2 import ACTION_NAMES, RED_AGENTS
from workflow_rl.collection.env_batch import EnvBatch, SerialEnvs
from workflow_rl.collection.environment import (
    DEFAULT_ENV,
    InvalidEnvironmentError,
    Spaces,
)

MIXED = "mixed"
RED_AGENT_CHOICES = (*RED_AGENTS, MIXED)
SIMULATORS = ("cyborg", "cyborg-stock", "cyborg-upstream", "compiled")


@dataclass(frozen=True)
class Cage2:
    """CAGE Challenge 2 against a red agent. Raises InvalidEnvironmentError, naming the argument.

    red_agent: of RED_AGENT_CHOICES; "mixed" draws one of the three for every episode. max_steps:
    after which an episode is truncated. simulator: of SIMULATORS, see `cyborg_env.CyborgEnv`.
    """

    red_agent: str = "B_lineAgent"
    max_steps: int = 100
    simulator: str = "cyborg"

    env_id: ClassVar[str] = DEFAULT_ENV
    settings: ClassVar[Mapping[str, Any]] = {"total_episodes": 3000}

    def __post_init__(self) -> None:
        for name, choices in (("red_agent", RED_AGENT_CHOICES), ("simulator", SIMULATORS)):
            if getattr(self, name) not in choices:
                raise InvalidEnvironmentError(
                    name, f"{getattr(self, name)!r} is not one of {', '.join(choices)}"
                )
        if type(self.max_steps) is not int:
            raise InvalidEnvironmentError("max_steps", f"{self.max_steps!r} is no whole number")
        if self.max_steps < 1:
            raise InvalidEnvironmentError(
                "max_steps", f"{self.max_steps} is too small: it must be 1 or greater"
            )

    @property
    def args(self) -> Mapping[str, Any]:
        """All three."""
        return dataclasses.asdict(self)

    @property
    def label(self) -> str:
        """The red agent."""
        return self.red_agent

    @property
    def variants(self) -> tuple[str, ...]:
        """The red agents that every episode draws one from."""
        return RED_AGENTS if self.red_agent == MIXED else (self.red_agent,)

    @property
    def episode_steps(self) -> int:
        """Episodes never terminate: they are truncated."""
        return self.max_steps

    @property
    def steps_together(self) -> bool:
        """One call steps all envs of the compiled simulator."""
        return self.simulator == "compiled"

    @property
    def plays_together(self) -> bool:
        """A CybORG is large, and acting costs little beside its steps."""
        return self.steps_together

    @property
    def preload(self) -> str:
        """The module that makes workers share what is costly about the simulator."""
        if self.simulator == "compiled":
            return "workflow_rl.cage2.compiled.preload"
        return "workflow_rl.cage2.cyborg_preload"

    def spaces(self) -> Spaces:
        """52 bits and 145 actions."""
        from workflow_rl.cage2.cyborg_env import OBS_SIZE

        return Spaces(OBS_SIZE, Categorical(len(ACTION_NAMES)))

    def check(self) -> str | None:
        """Raises InvalidEnvironmentError if the simulator is not installed, or not as needed.

        Compiles the compiled one, so that the workers find it on disk. All are deterministic.
        """
        if self.simulator in ("cyborg-upstream", "compiled"):
            from workflow_rl.cage2.cyborg_env import CyborgEnv

            try:
                env = CyborgEnv(max_steps=1, simulator=self.simulator)
                env.reset(seed=0)
                env.step(0)
            except (ImportError, RuntimeError) as error:
                raise InvalidEnvironmentError("simulator", str(error)) from None
        return None

    def make_envs(self, n_envs: int) -> EnvBatch:
        """So many envs, of that simulator alone. The compiled ones step in one call."""
        if self.simulator == "compiled":
            from workflow_rl.cage2.compiled.env_batch import CompiledEnvs

            return CompiledEnvs(self.max_steps, n_envs)
        from workflow_rl.cage2.cyborg_env import CyborgEnv

        make_env = functools.partial(CyborgEnv, max_steps=self.max_steps, simulator=self.simulator)
        return SerialEnvs(make_env, n_envs, variant_option="red_agent")


def make_cage2(args: Mapping[str, Any]) -> Cage2:
    """CAGE-2 with these arguments. Raises InvalidEnvironmentError."""
    names = [field.name for field in dataclasses.fields(Cage2)]
    for name in args:
        if name not in names:
            raise InvalidEnvironmentError(
                "env_arg", f"{name!r} is no argument of {DEFAULT_ENV}: it has {', '.join(names)}"
            )
    return Cage2(**args)
