"""What CAGE-4 brings to the package, as a guest."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from workflow_rl.cage.guest import CageGuest, ChampionBudget
from workflow_rl.cage4.agent.trained_teams import RELEASED
from workflow_rl.cage4.cyborg.checkout import VARIABLE
from workflow_rl.cage4.env.presets import CHAMPION, N_CANDIDATES, QUICK, ROBUST
from workflow_rl.cage4.scenario.scenario4 import ENV_ID, MAX_STEPS, RED_AGENTS, RED_ENV_ID, Scenario
from workflow_rl.environments.challenge import Export, Replays, Scoring, Side
from workflow_rl.errors import ConfigError

if TYPE_CHECKING:
    from workflow_rl.agents.settings import Settings
    from workflow_rl.cage.recipe import Recipe
    from workflow_rl.environments.env_batch import EnvBatchFactory
    from workflow_rl.environments.environment import Environment


class Cage4Guest(CageGuest):
    """CAGE Challenge 4."""

    env_id = ENV_ID
    title = "CAGE-4"
    most_used = ("red_agent", "simulator")
    shown = ("observation", "actions", "messages")
    is_team = True
    single = "workflow_rl.cage4:parallel_env"
    places: ClassVar = {"cyborg4": (VARIABLE, "A checkout of the official CybORG 4.")}
    presets: ClassVar = {"cage4-quick": QUICK, "cage4-champion": CHAMPION, "cage4-robust": ROBUST}
    measured: ClassVar = {"compiled": {"simulator": "compiled"}}
    champion: ClassVar = ChampionBudget(CHAMPION["total_episodes"], selection=1000, score=100)
    released: ClassVar = RELEASED
    # A training episode's return has one more step than the challenge's scores.
    has_verdicts: ClassVar = False

    def arguments(self) -> type[Settings]:
        from workflow_rl.cage4.env.arguments import Cage4Arguments

        return Cage4Arguments

    def make(self, args: Settings) -> Environment:
        from workflow_rl.cage4.env.environment import Cage4

        return Cage4(**dict(args))

    def sides(self, args: Mapping[str, Any]) -> Mapping[str, Side]:
        if args["scenarios"]:
            raise ConfigError(
                "scenarios", "cannot be named for a duel: give the values of one scenario"
            )
        blue = {name: value for name, value in args.items() if name != "red_agent"}
        red = {"max_steps": args["max_steps"], **dataclasses.asdict(Scenario.among(args))}
        fixed = ("champion", "rules")
        # Own rewards need the compiled simulator.
        brought = ("simulator", "observation", "actions", "own_rewards", "messages")
        return {
            "Blue": Side(ENV_ID, blue, "red_agent", fixed, greedy=True, brought=brought),
            "Red": Side(RED_ENV_ID, red, "blue_agent", RED_AGENTS[:3]),
        }

    def known_returns(self, args: Mapping[str, Any]) -> Mapping[str, float]:
        from workflow_rl.cage4.scoring.leaderboard import known_returns

        return known_returns(args)

    def choose_best(self, run_path: Path, quiet: bool) -> str | None:
        from workflow_rl.cage4.scoring.selection import choose_best_candidate

        return choose_best_candidate(run_path, quiet)

    def teaching(self, agent: str, environment: Environment) -> EnvBatchFactory | None:
        from workflow_rl.cage4.agent.scripted import TEAMS
        from workflow_rl.cage4.env.environment import Cage4
        from workflow_rl.cage4.env.taught_envs import TaughtTeamEnvs

        assert isinstance(environment, Cage4)
        if agent not in TEAMS:
            return None
        fast = dataclasses.replace(environment, simulator="compiled")
        fast.check()
        return functools.partial(TaughtTeamEnvs, fast, agent)

    def measures(self, args: Mapping[str, Any]) -> Sequence[Any]:
        from workflow_rl.cage4.scoring.measures import BLUE_MEASURES

        return BLUE_MEASURES

    def scoring(self) -> Scoring:
        from workflow_rl.cage4.scoring.scoring import Cage4Scoring

        return Cage4Scoring()

    def champion_recipe(self) -> Recipe:
        from workflow_rl.cage.recipe import Recipe
        from workflow_rl.cage4.scoring.selection import team_score

        return Recipe({"preset": "cage4-champion"}, N_CANDIDATES, team_score, (4, 1))

    def player(self, agent: Path) -> Any:
        from workflow_rl.cage4.agent.player import TeamPlayer
        from workflow_rl.cage4.agent.scripted import TEAMS, make_scripted_team

        return TeamPlayer(make_scripted_team(str(agent))) if str(agent) in TEAMS else None

    def parity(self) -> Any:
        from workflow_rl.cage4.commands.parity import parity_of_cage4

        return parity_of_cage4

    def findings(self) -> Iterable[Callable[[], Iterable[Any]]]:
        from workflow_rl.cage4.cyborg import installation

        return (installation.simulators,)

    def replays(self) -> Replays:
        from workflow_rl.cage4.scoring.replays import Cage4Replays

        return Cage4Replays()

    def exports(self) -> Mapping[str, Export]:
        from workflow_rl.cage4.scoring.submission.export import write_submission

        return {"cage4": write_submission}

    def handed_in(self, args: Mapping[str, Any]) -> str | None:
        return "cage4" if args["max_steps"] == MAX_STEPS else None

    def report_sections(self, runs: Sequence[Any], folder: Path) -> Sequence[Any]:
        from workflow_rl.cage4.scoring.report import sections

        return sections(runs)

    played_by: ClassVar = {
        "cage4": "PYTHONPATH=. python CybORG/Evaluation/evaluation.py {output} results, "
        "in CybORG 4's checkout"
    }


class Cage4RedGuest(CageGuest):
    """CAGE Challenge 4 from Red's side."""

    env_id = RED_ENV_ID
    title = "CAGE-4, Red's side"
    most_used = ("blue_agent",)
    is_team = True

    def arguments(self) -> type[Settings]:
        from workflow_rl.cage4.env.arguments import Cage4RedArguments

        return Cage4RedArguments

    def make(self, args: Settings) -> Environment:
        from workflow_rl.cage4.env.red_environment import Cage4Red

        return Cage4Red(**dict(args))

    def by_hand(self) -> Sequence[str]:
        from workflow_rl.cage4.red.roster import LIBRARY

        return tuple(LIBRARY)

    def teaching(self, agent: str, environment: Environment) -> EnvBatchFactory | None:
        from workflow_rl.cage.taught_reds import TaughtReds
        from workflow_rl.cage4.attackers import PythonReds
        from workflow_rl.cage4.red.roster import LIBRARY, REDS

        if agent not in LIBRARY:
            return None
        return functools.partial(TaughtReds, environment, PythonReds(REDS.member(agent)))
