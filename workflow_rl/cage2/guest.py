"""CAGE-2 as a guest: the arguments of its environments, and what general code needs from a guest.

A simulator is imported only when an environment is made. Workers do not import this module, because
pydantic would make them larger and slower to start."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import BeforeValidator, Field, model_validator

from workflow_rl.agents.settings import ContentOf, OneOf, Settings
from workflow_rl.cage.guest import CageGuest, ChampionBudget
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage2.env.red_environment import Cage2Red
from workflow_rl.cage2.presets import (
    ANY_NETWORK,
    CAGE1,
    CHAMPION,
    N_CANDIDATES,
    PLAYS_WITH,
    QUICK,
    ROBUST,
)
from workflow_rl.cage2.red.roster import LIBRARY, REDS, able_reds, problem_of_reds
from workflow_rl.cage2.scenario.family import ScenarioFamily
from workflow_rl.cage2.scenario.loading import played_of, scenario_text
from workflow_rl.cage2.scenario.scenario import NAMED, Scenario
from workflow_rl.cage2.scenario.simulator_protocol import MAX_STEPS, SIMULATORS
from workflow_rl.cage2.scenario2 import ACTION_NAMES, ENV_ID, RED_ENV_ID, SCENARIO2
from workflow_rl.environments.challenge import Export, Replays, Scoring, Side
from workflow_rl.environments.environment import Environment
from workflow_rl.errors import ConfigError

if TYPE_CHECKING:
    from workflow_rl.cage.recipe import Recipe
    from workflow_rl.environments.env_batch import EnvBatchFactory

OBSERVATIONS = ("table", "belief", "evidence", "history", "true-state")
ACTION_SETS = ("all", "by-host", "by-host-timed")

IN_ANY_SCENARIO: dict[str, tuple[Any, ...]] = {
    "observation": ("table", "history"),
    "actions": ("all", "by-host"),
    "opening": ((),),
}
"""The choices that every scenario allows."""


class Cage2Arguments(Settings):
    """The checked arguments of `Cage2`. Raises ConfigError."""

    red_agent: Annotated[str, BeforeValidator(REDS.text)] = Field(
        Cage2.red_agent,
        description="The red agent: B_lineAgent, RedMeanderAgent, SleepAgent, module:Class of your "
        "own, or the folder or policy file of a trained agent. If you give several with weights, "
        "such as B_lineAgent=2,my_red:MyRed=1, each episode draws one. mixed draws one of the "
        "first three. attackers draws one of the same three, but seldom SleepAgent, which does "
        "nothing. See docs/how-to/red-agents.md.",
    )
    max_steps: Annotated[int, Field(ge=1, le=MAX_STEPS)] = Field(
        Cage2.max_steps,
        description="Steps after which an episode is truncated. The challenge scores 30, 50 and "
        "100.",
    )
    simulator: Annotated[str, OneOf(SIMULATORS)] = Field(
        Cage2.simulator,
        description="compiled is this package's own simulator, which plays the same episodes as "
        "CybORG. cyborg is CybORG: csle-cyborg, sped up with equal results, or in scenario1b "
        "CAGE-1's package, which has to be installed. Red agents that derive from CybORG's "
        "classes always play in cyborg.",
    )
    observation: Annotated[str, OneOf(OBSERVATIONS)] = Field(
        Cage2.observation,
        description="What the policy sees. table: the 52 bits of the last step. belief: these "
        "bits, and what Blue concludes from all steps before. evidence: the belief, and what Blue "
        "saw and did on each host, for attackers that the belief does not know. history: what Blue "
        "knows, saw and did on each host, in any scenario. true-state: the whole simulated "
        "network, to measure what hidden information costs. Agents that see it are not scored.",
    )
    actions: Annotated[str, OneOf(ACTION_SETS)] = Field(
        Cage2.actions,
        description="What the policy chooses from. all: the 145 actions. by-host: the actions that "
        "can be useful, with one action for all decoys of a host. by-host-timed: as by-host, but "
        "without a Restore that would not pay before the challenge's horizons.",
    )
    opening: Annotated[tuple[Annotated[str, OneOf(ACTION_NAMES)], ...], Field(strict=False)] = (
        Field(
            Cage2.opening,
            description="Blue's actions that begin every episode. The policy chooses after them.",
        )
    )

    scenario: Annotated[str, ContentOf(scenario_text, tuple(NAMED))] = Field(
        Cage2.scenario,
        description="The network: scenario2, scenario1b of CAGE Challenge 1, a scenario file in "
        "CybORG's format, or a family file, from which each episode draws a network. The run keeps "
        "the file's content. See docs/how-to/own-scenario.md.",
    )
    measures: bool = Field(
        Cage2.measures,
        description="Give the costs of each step from the true state: how many hosts Red holds, "
        "Impacts, Blue's recoveries and other actions. See docs/reference/measures.md.",
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
        for name, general in IN_ANY_SCENARIO.items():
            choices = general
            if name == "observation" and scenario == Scenario.scenario1b():
                choices = (*general, "belief")
            chosen = getattr(self, name)
            if chosen not in choices:
                advice = "leave it out (--preset any-network has none)"
                if name != "opening":
                    advice = f"choose {' or '.join(choices)}"
                problem = f"{chosen} is made for scenario2 only: in {scenario}, {advice}"
                raise ConfigError(name, problem)
        unable = problem_of_reds(scenario, REDS.read(self.red_agent))
        if unable is not None:
            raise ConfigError("red_agent", unable)


class Cage2RedArguments(Settings):
    """The checked arguments of `Cage2Red`. Raises ConfigError."""

    blue_agent: str = Field(
        Cage2Red.blue_agent,
        description="The blue agent against which Red learns. The blue agent does not learn. Give "
        "a run folder, checkpoint or policy file, or the name of an agent. If you give several "
        "with weights, such as champion=2,runs/blue=1, each episode draws one.",
    )
    max_steps: Annotated[int, Field(ge=1, le=MAX_STEPS)] = Field(
        Cage2Red.max_steps, description="Steps after which an episode is truncated."
    )
    scenario: Annotated[str, ContentOf(scenario_text, tuple(NAMED))] = Field(
        Cage2Red.scenario,
        description="The network: scenario2, scenario1b of CAGE Challenge 1, or a scenario file "
        "in CybORG's format, but no family file. The run keeps the file's content.",
    )

    @model_validator(mode="after")
    def _plays_one_network(self) -> Self:
        network = played_of(self.scenario)
        if isinstance(network, ScenarioFamily):
            raise ConfigError("scenario", f"{network} is a family, and Red learns in one network")
        return self


class Cage2Guest(CageGuest):
    env_id = ENV_ID
    title = "CAGE-2"
    most_used = ("red_agent", "simulator")
    shown = ("observation", "actions", "opening")
    presets: ClassVar = {
        "cage1-quick": CAGE1,
        "cage2-quick": QUICK,
        "cage2-robust": ROBUST,
        "any-network": ANY_NETWORK,
    }
    recommended = ("cage2-quick",)
    # The observation `table` does not show Blue's decoys, nor what Red knows.
    off_policy: ClassVar = {"observation": "belief", "actions": "by-host"}
    measured: ClassVar = {"compiled": {"simulator": "compiled"}, "cyborg": {"simulator": "cyborg"}}
    champion: ClassVar[ChampionBudget | None] = ChampionBudget(
        training=CHAMPION["total_episodes"], selection=8000, score=300
    )
    released: ClassVar = {
        name: Path(__file__).parent / "agent" / "released" / f"{name}.npz"
        for name in ("champion", "any-network", "champion1b", "robust")
    }

    def arguments(self) -> type[Settings]:
        return Cage2Arguments

    def make(self, args: Settings) -> Environment:
        return Cage2(**dict(args))

    def sides(self, args: Mapping[str, Any]) -> Mapping[str, Side]:
        network = played_of(args["scenario"])
        if isinstance(network, ScenarioFamily):
            raise ConfigError("scenario", f"{network} is a family, and Red learns in one network")
        blue = {name: value for name, value in args.items() if name != "red_agent"}
        red = {name: args[name] for name in ("max_steps", "scenario")}
        brought = ("simulator", "observation", "actions", "opening")
        defenders = ("champion",) if network.is_like(Scenario.scenario2()) else ()
        attackers = [name for name in able_reds(network) if name != "SleepAgent"]
        return {
            "Blue": Side(ENV_ID, blue, "red_agent", defenders, greedy=True, brought=brought),
            "Red": Side(RED_ENV_ID, red, "blue_agent", attackers),
        }

    def actor_for_side(
        self, policy: Any, environment: Environment, args: Mapping[str, Any]
    ) -> tuple[Any, Mapping[str, Any]]:
        from workflow_rl.cage2.scoring.players import actor_on_bits, require_fit

        assert isinstance(environment, Cage2)
        network = played_of(args["scenario"])
        require_fit(network, "the agent", policy, environment)
        if args["scenario"] == environment.scenario and not environment.knows_networks:
            return policy, args
        assert isinstance(network, Scenario)
        actor = actor_on_bits(policy, environment, network, "the agent")
        return actor, {**args, "observation": "table", "actions": "all", "opening": ()}

    def known_returns(self, args: Mapping[str, Any]) -> Mapping[str, float]:
        from workflow_rl.cage2.scoring.leaderboard import known_returns

        return known_returns(args) if args["scenario"] == SCENARIO2 else {}

    def choose_best(self, run_path: Path, quiet: bool) -> str | None:
        from workflow_rl.cage2.scoring.selection import choose_best_candidate

        return choose_best_candidate(run_path, quiet)

    def teaching(self, agent: str, environment: Environment) -> EnvBatchFactory | None:
        from workflow_rl.cage2.agent.scripted import SCRIPTED_AGENTS
        from workflow_rl.cage2.env.viewed_envs import taught_envs
        from workflow_rl.cage2.scoring.players import load_blue, load_trained, require_fit

        assert isinstance(environment, Cage2)
        policy, trained_on = (None, None) if agent in SCRIPTED_AGENTS else load_trained(agent)
        require_fit(environment.family or environment.network, agent, policy, trained_on)
        if isinstance(trained_on, Cage2) and trained_on.view == environment.view:
            is_like = environment.network.is_like(trained_on.network)
            is_any_family = environment.family or trained_on.family
            if environment.scenario == trained_on.scenario or (is_like and not is_any_family):
                return None
        if environment.family is not None:
            raise ConfigError(
                "teacher",
                f"{agent} was not trained in this family with these observations and actions",
            )
        compiled = environment.scored()
        compiled.batches(why="a teacher with other observations or actions needs compiled code")
        compiled.check()
        teacher = load_blue(agent, environment.network, greedy=True)
        return functools.partial(taught_envs, environment, teacher)

    def player(self, agent: Path) -> Any:
        from workflow_rl.cage2.agent.scripted import SCRIPTED_AGENTS, make_scripted_agent

        return make_scripted_agent(str(agent)) if str(agent) in SCRIPTED_AGENTS else None

    def measures(self, args: Mapping[str, Any]) -> Sequence[Any]:
        from workflow_rl.cage2.scoring.measures import MEASURES

        return MEASURES

    def scoring(self) -> Scoring:
        from workflow_rl.cage2.scoring.scoring import Cage2Scoring

        return Cage2Scoring()

    def champion_recipe(self) -> Recipe:
        from workflow_rl.cage.recipe import Recipe
        from workflow_rl.cage2.scoring.selection import candidate_score

        score = functools.partial(candidate_score, actions=PLAYS_WITH["actions"])
        return Recipe(CHAMPION, N_CANDIDATES, score, shares=(16, 4, 1), plays_with=PLAYS_WITH)

    def parity(self) -> Any:
        from workflow_rl.cage2.commands.parity import parity_of_cage2

        return parity_of_cage2

    def findings(self) -> Iterable[Callable[[], Iterable[Any]]]:
        from workflow_rl.cage2.cyborg import installation

        return (installation.simulators, installation.weights)

    def replays(self) -> Replays:
        from workflow_rl.cage2.scoring.replays import Cage2Replays

        return Cage2Replays()

    def exports(self) -> Mapping[str, Export]:
        from workflow_rl.cage2.scoring.submission.export import write_submission

        return {"cage2": write_submission}

    def handed_in(self, args: Mapping[str, Any]) -> str | None:
        return None if args["observation"] == "true-state" else "cage2"

    played_by: ClassVar = {"cage2": "cd {output} && python evaluation.py --episodes 10"}

    def report_sections(self, runs: Sequence[Any], folder: Path) -> Sequence[Any]:
        from workflow_rl.cage2.scoring.report import sections

        return sections(runs, folder)


class Cage2RedGuest(CageGuest):
    env_id = RED_ENV_ID
    title = "CAGE-2, Red's side"
    most_used = ("blue_agent",)

    def arguments(self) -> type[Settings]:
        return Cage2RedArguments

    def make(self, args: Settings) -> Environment:
        return Cage2Red(**dict(args))

    def by_hand(self) -> Sequence[str]:
        return tuple(LIBRARY)

    def teaching(self, agent: str, environment: Environment) -> EnvBatchFactory | None:
        from workflow_rl.cage.taught_reds import TaughtReds
        from workflow_rl.cage2.red.user_reds import ProgramOnRows

        if agent not in LIBRARY:
            return None
        assert isinstance(environment, Cage2Red)
        names = environment.network.red_action_names
        attacker = ProgramOnRows(REDS.member(agent).found(), names)
        return functools.partial(TaughtReds, environment, attacker)
