"""CAGE-2 as a guest: what it brings. No simulator is imported before an environment is made."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from workflow_rl.cage2.presets import (
    ANY_NETWORK,
    CAGE1,
    CHAMPION,
    N_CANDIDATES,
    PLAYS_WITH,
    QUICK,
    ROBUST,
)
from workflow_rl.cage2.red.roster import able_reds
from workflow_rl.cage2.scenario.family import ScenarioFamily
from workflow_rl.cage2.scenario.loading import played_of
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scenario2 import ENV_ID, RED_ENV_ID, SCENARIO2
from workflow_rl.environments.challenge import (
    ChampionBudget,
    ChampionRecipe,
    Export,
    Guest,
    Replays,
    Scoring,
    Side,
)

if TYPE_CHECKING:
    from workflow_rl.agents.settings import Settings
    from workflow_rl.environments.env_batch import EnvBatchFactory
    from workflow_rl.environments.environment import Environment


class Cage2Guest(Guest):
    """CAGE Challenge 2."""

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
    # The table of 52 bits shows neither Blue's decoys nor what Red has found out.
    off_policy: ClassVar = {"observation": "belief", "actions": "by-host"}
    measured: ClassVar = {
        "compiled": {"simulator": "compiled"},
        "cyborg": {"simulator": "cyborg"},
    }
    target_return = -60.0
    champion: ClassVar[ChampionBudget | None] = ChampionBudget(
        CHAMPION["total_episodes"], 8000, 300
    )
    released: ClassVar = {
        name: Path(__file__).parent / "agent" / "released" / f"{name}.npz"
        for name in ("champion", "any-network", "champion1b", "robust")
    }

    def arguments(self) -> type[Settings]:
        from workflow_rl.cage2.env.arguments import Cage2Arguments

        return Cage2Arguments

    def make(self, args: Settings) -> Environment:
        from workflow_rl.cage2.env.environment import Cage2

        return Cage2(**dict(args))

    def sides(self, args: Mapping[str, Any]) -> Mapping[str, Side]:
        from workflow_rl.environments.environment import InvalidEnvironmentError

        network = played_of(args["scenario"])
        if isinstance(network, ScenarioFamily):
            raise InvalidEnvironmentError(
                "scenario", f"{network} is a family, and Red learns in one network"
            )
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
        from workflow_rl.cage2.env.environment import Cage2
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
        from workflow_rl.cage2.env.environment import Cage2
        from workflow_rl.cage2.env.viewed_envs import taught_envs
        from workflow_rl.cage2.scoring.players import load_blue, load_trained, require_fit
        from workflow_rl.environments.environment import InvalidEnvironmentError

        assert isinstance(environment, Cage2)
        policy, trained_on = (None, None) if agent in SCRIPTED_AGENTS else load_trained(agent)
        require_fit(environment.family or environment.network, agent, policy, trained_on)
        if isinstance(trained_on, Cage2) and trained_on.view == environment.view:
            is_like = environment.network.is_like(trained_on.network)
            are_families = environment.family or trained_on.family
            if environment.scenario == trained_on.scenario or (is_like and not are_families):
                return None
        if environment.family is not None:
            raise InvalidEnvironmentError(
                "teacher", f"{agent} sees or chooses other things: in a family, it teaches its own"
            )
        fast = environment.scored()
        fast.batches(why="only compiled code asks a teacher that sees or chooses other things")
        fast.check()
        teacher = load_blue(agent, environment.network, greedy=True)
        return functools.partial(taught_envs, environment, teacher)

    def player(self, agent: Path) -> Any:
        from workflow_rl.cage2.agent.scripted import SCRIPTED_AGENTS, make_scripted_agent

        return make_scripted_agent(str(agent)) if str(agent) in SCRIPTED_AGENTS else None

    def scoring(self) -> Scoring:
        from workflow_rl.cage2.scoring.scoring import Cage2Scoring

        return Cage2Scoring()

    def champion_recipe(self) -> ChampionRecipe:
        from workflow_rl.cage.recipe import Recipe
        from workflow_rl.cage2.scoring.selection import candidate_score

        score = functools.partial(candidate_score, actions=PLAYS_WITH["actions"])
        return Recipe(CHAMPION, N_CANDIDATES, score, (16, 4, 1), PLAYS_WITH)

    def parity(self) -> Any:
        from workflow_rl.cage2.commands.parity import parity

        return parity

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


class Cage2RedGuest(Guest):
    """CAGE Challenge 2 from Red's side."""

    env_id = RED_ENV_ID
    title = "CAGE-2, Red's side"
    most_used = ("blue_agent",)

    def arguments(self) -> type[Settings]:
        from workflow_rl.cage2.env.arguments import Cage2RedArguments

        return Cage2RedArguments

    def make(self, args: Settings) -> Environment:
        from workflow_rl.cage2.env.red_environment import Cage2Red

        return Cage2Red(**dict(args))
