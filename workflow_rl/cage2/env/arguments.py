"""The arguments of CAGE-2 as an environment to train on, with their ranges and descriptions."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from workflow_rl.agents.settings import ConfigError, ContentOf, OneOf, Settings
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage2.env.red_environment import Cage2Red
from workflow_rl.cage2.red.roster import REDS, problem_of_reds
from workflow_rl.cage2.scenario.family import ScenarioFamily
from workflow_rl.cage2.scenario.loading import played_of, scenario_text
from workflow_rl.cage2.scenario.scenario import NAMED, Scenario
from workflow_rl.cage2.scenario.simulator_protocol import MAX_STEPS, SIMULATORS
from workflow_rl.cage2.scenario2 import ACTION_NAMES

OBSERVATIONS = ("table", "belief", "evidence", "history", "true-state")
ACTION_SETS = ("all", "by-host", "by-host-timed")

IN_ANY_SCENARIO: dict[str, tuple[Any, ...]] = {
    "observation": ("table", "history"),
    "actions": ("all", "by-host"),
    "opening": ((),),
}
"""What is made for other scenarios than Scenario 2, too."""


class Cage2Arguments(Settings):
    """The arguments of `Cage2`, checked. Making one raises ConfigError."""

    red_agent: Annotated[str, BeforeValidator(REDS.text)] = Field(
        Cage2.red_agent,
        description="The red agent: B_lineAgent, RedMeanderAgent, SleepAgent, module:Class of your "
        "own, or the folder or policy file of a trained one. Of several with weights, such as "
        "B_lineAgent=2,my_red:MyRed=1, each episode draws one. mixed draws one of the three; "
        "attackers does so too, but seldom draws SleepAgent, which does nothing. See "
        "docs/how-to/red-agents.md.",
    )
    max_steps: Annotated[int, Field(ge=1, le=MAX_STEPS)] = Field(
        Cage2.max_steps,
        description="Steps after which an episode is truncated. The challenge scores 30, 50 and "
        "100.",
    )
    simulator: Annotated[str, OneOf(SIMULATORS)] = Field(
        Cage2.simulator,
        description="compiled is this package's own simulator, which plays the same episodes as "
        "CybORG; cyborg is CybORG itself, which also plays its own classes as red agents: "
        "csle-cyborg, sped up without changing a bit, and in scenario1b CAGE-1's own package, if "
        "it is installed.",
    )
    observation: Annotated[str, OneOf(OBSERVATIONS)] = Field(
        Cage2.observation,
        description="What the policy sees. table: the 52 bits of the last step. belief: also what "
        "Blue concludes from all steps before. evidence: the belief, and what Blue saw and did on "
        "each host, for attackers that the belief does not know. history: what Blue knows, saw and "
        "did on each host, in any scenario. true-state: the whole simulated network, which "
        "measures what hidden information costs; agents that see it cannot be scored.",
    )
    actions: Annotated[str, OneOf(ACTION_SETS)] = Field(
        Cage2.actions,
        description="What the policy chooses from. all: the 145 actions. by-host: those that can "
        "do any good, with one action for all decoys of a host. by-host-timed: as by-host, "
        "without a Restore that does not pay before the challenge's horizons.",
    )
    opening: Annotated[tuple[Annotated[str, OneOf(ACTION_NAMES)], ...], Field(strict=False)] = (
        Field(
            Cage2.opening,
            description="Blue's actions that begin every episode. The policy chooses after them.",
        )
    )

    scenario: Annotated[str, ContentOf(scenario_text, tuple(NAMED))] = Field(
        Cage2.scenario,
        description="The network: scenario2, scenario1b of CAGE Challenge 1, a scenario file of "
        "CybORG's, or a family file, of which each episode draws a network. The content is kept "
        "with the run. See docs/how-to/own-scenario.md.",
    )

    @model_validator(mode="after")
    def _go_together(self) -> Self:
        self._fit_the_scenario()
        if self.observation == "true-state" and self.simulator != "compiled":
            raise ConfigError(
                "observation", f"true-state needs the simulator compiled, not {self.simulator}"
            )
        if len(self.opening) >= self.max_steps:
            raise ConfigError(
                "opening",
                f"{len(self.opening)} actions leave no step for the policy: episodes have "
                f"{self.max_steps} steps",
            )
        return self

    def _fit_the_scenario(self) -> None:
        scenario = played_of(self.scenario)
        if self.scenario == Cage2.scenario:
            if self.observation == "history" and self.actions not in IN_ANY_SCENARIO["actions"]:
                raise ConfigError(
                    "actions",
                    f"{self.actions} does not go with the observation history: choose "
                    + " or ".join(IN_ANY_SCENARIO["actions"]),
                )
            return
        if isinstance(scenario, ScenarioFamily) and self.simulator != "compiled":
            raise ConfigError(
                "simulator",
                f"{self.simulator} plays one scenario: for the family {scenario}, choose compiled",
            )
        has_belief = scenario == Scenario.scenario1b()
        for name, general in IN_ANY_SCENARIO.items():
            general = (*general, *["belief"] * (name == "observation" and has_belief))
            if (chosen := getattr(self, name)) not in general:
                raise ConfigError(
                    name,
                    f"{chosen} is made for scenario2 alone: in {scenario}, "
                    + (
                        f"choose {' or '.join(map(str, general))}"
                        if any(general)
                        else "leave it out (--preset any-network has none)"
                    ),
                )
        if (problem := problem_of_reds(scenario, REDS.read(self.red_agent))) is not None:
            raise ConfigError("red_agent", problem)


class Cage2RedArguments(Settings):
    """The arguments of `Cage2Red`, checked. Making one raises ConfigError."""

    blue_agent: str = Field(
        Cage2Red.blue_agent,
        description="The blue agent that Red is trained against, which does not learn: a run "
        "folder, checkpoint or policy file, or the name of an agent. Or several with weights, such "
        "as champion=2,runs/blue=1, of which the seed of each episode draws one.",
    )
    max_steps: Annotated[int, Field(ge=1, le=MAX_STEPS)] = Field(
        Cage2Red.max_steps, description="Steps after which an episode is truncated."
    )
    scenario: Annotated[str, ContentOf(scenario_text, tuple(NAMED))] = Field(
        Cage2Red.scenario,
        description="The network, which is no family: scenario2, scenario1b of CAGE Challenge 1, "
        "or a scenario file of CybORG's. The content is kept with the run.",
    )

    @model_validator(mode="after")
    def _plays_one_network(self) -> Self:
        if isinstance(scenario := played_of(self.scenario), ScenarioFamily):
            raise ConfigError("scenario", f"{scenario} is a family, and Red learns in one network")
        return self
