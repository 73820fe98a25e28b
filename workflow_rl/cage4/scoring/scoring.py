"""How teams are scored on CAGE-4: by the challenge's evaluation. The guest's hook `scoring`."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self

import numpy as np
from prettytable import PrettyTable
from pydantic import BeforeValidator, Field, model_validator

from workflow_rl.agents.policies.numpy_policy import Actor
from workflow_rl.agents.settings import OneOf, Settings
from workflow_rl.cage.attackers import AttackerError
from workflow_rl.cage.scoring import Check, PlayedTwice, ResultSettings, as_tuple, checked
from workflow_rl.cage4.agent.blue_team import SingleTeam
from workflow_rl.cage4.agent.scripted import TEAMS, make_scripted_team
from workflow_rl.cage4.agent.trained_teams import trained_team
from workflow_rl.cage4.cyborg.checkout import COMMIT, VARIABLE, CheckoutError, cyborg_checkout
from workflow_rl.cage4.env.arguments import MOST_STEPS, EpisodeSettings, OneRed
from workflow_rl.cage4.env.environment import Cage4
from workflow_rl.cage4.red.roster import REDS
from workflow_rl.cage4.scenario import scenario4
from workflow_rl.cage4.scenario.costs import COSTS
from workflow_rl.cage4.scoring.leaderboard import KNOWN
from workflow_rl.cage4.scoring.measures import BLUE_MEASURES, Measured, joined_measures
from workflow_rl.cage4.scoring.protocol import Author, TeamScores, play_protocol
from workflow_rl.environments.environment import Environment
from workflow_rl.errors import ConfigError
from workflow_rl.evaluation.intervals import mean_of
from workflow_rl.evaluation.measures import measure_lines
from workflow_rl.text_table import SINGLE_BORDER

LEAST_EVALUATED = 3
Steps = Annotated[int, Field(ge=LEAST_EVALUATED, le=MOST_STEPS)]


class ProtocolSettings(EpisodeSettings, ResultSettings):
    """The user's choices about an evaluation on CAGE-4. The constructor raises ConfigError."""

    agent: Annotated[str, OneOf(TEAMS)] | None = Field(
        default=None, description="Score this scripted team instead of RUN_OR_CHECKPOINT."
    )
    red_agent: Annotated[tuple[OneRed, ...], BeforeValidator(as_tuple)] = Field(
        default=(scenario4.RED_AGENTS[0],),
        description="The red agents: one of the challenge's classes, or the folder or policy file "
        "of a trained red team. The default is the challenge's red agent.",
    )
    max_steps: Annotated[tuple[Steps, ...], BeforeValidator(as_tuple)] = Field(
        default=(scenario4.MAX_STEPS,),
        description="Length of the episodes in steps. The challenge has 500 steps.",
    )
    check: Check = Field(
        default=3,
        description="How many of the first episodes CybORG 4 plays again, if its checkout is "
        "there. The totals must be equal. With 0, no episode is played again.",
    )

    @model_validator(mode="after")
    def _go_together(self) -> Self:
        for name, values in (("red_agent", self.red_agent), ("max_steps", self.max_steps)):
            if len(values) != 1:
                raise ConfigError(name, f"{len(values)} are given: call evaluate once for each")
        return self


class Cage4Scores(NamedTuple):
    """A team's scores, with equally many episodes in each scenario.

    Args:
        team: the team's name in tables.
        by_scenario: the scores by the scenario's name. The name is "" if the user gave the
            scenario's values.
        learned: the scenarios of the team's training, by name. None if the team did not learn.
        checked: a line about the episodes that CybORG 4 played again, or the reason why there are
            none. None if the user did not ask for such episodes.
    """

    team: str
    by_scenario: Mapping[str, TeamScores]
    learned: Mapping[str, scenario4.Scenario] | None = None
    checked: str | None = None

    @property
    def _is_official(self) -> bool:
        scores = [*self.by_scenario.values()]
        return len(scores) == 1 and scores[0].is_official

    def lines(self, agent: str) -> list[str]:
        """Return a table of these scores and the known scores, and lines about what was played."""
        table = PrettyTable(["", "mean", "95%", "std", "episodes", "simulator"], align="r")
        table.set_style(SINGLE_BORDER)
        table.align[""] = table.align["simulator"] = "l"
        for name, scores in self.by_scenario.items():
            title = f"{self.team}, {name}" if name else self.team
            half = deviation = ""
            if len(scores.totals) > 1:
                half = f"± {scores.interval_95:,.1f}"
                deviation = f"{scores.std:,.1f}"
            row = [title, f"{scores.mean:,.1f}", half, deviation]
            row += [str(len(scores.totals)), scores.simulator]
            table.add_row(row, divider=self._is_official)
        if self._is_official:
            for known in KNOWN:
                deviation = "" if known.stdev is None else f"{known.stdev:,.0f}"
                mean, episodes = f"{known.mean:,.1f}", known.episodes or ""
                table.add_row([known.name, mean, "", deviation, episodes, known.simulator])
        # All scenarios have the same simulator, seed and steps.
        scores = [*self.by_scenario.values()][-1]
        return [
            str(table),
            *self._measure_lines(),
            f"{agent} on {scores.simulator}: {len(scores.totals)} episodes of one stream with seed "
            f"{scores.seed}, {scores.steps} steps against {scores.red_agent}; the last step does "
            "not count.",
            *self._changes(),
        ]

    def closing_lines(self, agent: str) -> list[str]:
        """Return the text that ends a training run."""
        values = self.to_dict()
        half = "" if values["interval_95"] is None else f" ± {values['interval_95']:,.1f}"
        n_scenarios = len(self.by_scenario)
        scenarios = f" in {n_scenarios} scenarios" if n_scenarios > 1 else ""
        lines = [
            f"score: {values['mean']:,.1f}{half}, the mean total reward of {len(values['totals'])} "
            f"episodes by the challenge's evaluation{scenarios} on {values['simulator']}; "
            "at best 0.",
        ]
        if self._is_official:
            compared = [f"{known.name} {known.mean:,.0f}" for known in KNOWN if known.is_compared]
            lines.append(f"For comparison: {'; '.join(compared)}.")
        return lines + self._changes()

    @property
    def _measured(self) -> list[Measured]:
        """The readings in each scenario; empty for scores from a file."""
        return [scores.measured for scores in self.by_scenario.values() if scores.measured]

    @property
    def costs(self) -> dict[str, list[float]]:
        """The sum of each cost in each episode, by the cost's name."""
        if not self._measured:
            return {}
        sums = np.array(joined_measures(self._measured).sums).T.tolist()
        return dict(zip(COSTS, sums, strict=True))

    def _measure_lines(self) -> list[str]:
        if not self._measured:
            return []
        names = [measure.name for measure in BLUE_MEASURES]
        read = {name: [measured.of_all[name] for measured in self._measured] for name in names}
        return measure_lines(BLUE_MEASURES, read)

    def _changes(self) -> list[str]:
        name, scores = next(iter(self.by_scenario.items()))
        # A scenario with a name needs no list of its changes.
        changes = "" if name else scores.scenario.changes
        lines = [] if self.checked is None else [self.checked]
        if changes:
            lines.append(f"Changed from the challenge: {changes}.")
        played = [scores.scenario for scores in self.by_scenario.values()]
        return [*lines, *learned_elsewhere(self.learned, played)]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for evaluation.json: the mean over all scenarios, then the values of
        each scenario."""
        parts = {
            name: {**scores.plain(), "returns": scores.returns, **scores.statistics()}
            for name, scores in self.by_scenario.items()
        }
        values: dict[str, Any] = {"agent": self.team, "checked": self.checked}
        # All scenarios share the first scenario's values, except values that are replaced below.
        values |= next(iter(parts.values()))
        if len(parts) > 1:
            samples = [scores.totals for scores in self.by_scenario.values()]
            totals = [total for sample in samples for total in sample]
            values |= mean_of(samples, [1 / len(samples)] * len(samples)).plain()
            values |= {"totals": totals, "returns": totals, "std": None, "scenario": None}
            values["scenarios"] = parts
        if self._measured:
            # All scenarios are one task. The readings have the order of the total rewards.
            (task,) = Cage4Scoring().returns(values)
            values |= joined_measures(self._measured).plain(task)
        return values


def learned_elsewhere(
    learned: Mapping[str, scenario4.Scenario] | None, played: Sequence[scenario4.Scenario]
) -> list[str]:
    """Return a line if the team plays other scenarios than in its training.

    learned: None if the team did not learn.
    """
    if learned is None or list(learned.values()) == played:
        return []
    names = [name or scenario.changes or "unchanged" for name, scenario in learned.items()]
    where = "another scenario" if len(names) == 1 else "several scenarios"
    return [f"The team learned in {where}: {', '.join(names)}."]


def _checkable(settings: ProtocolSettings) -> tuple[int, str | None]:
    """Return how many episodes CybORG 4 plays again, and why this number is 0, or None. The reason
    is None, too, if the user did not ask for such episodes."""
    is_asked_for = "check" in settings.model_fields_set or os.environ.get(VARIABLE)
    if settings.simulator != "compiled" or not settings.check or not is_asked_for:
        return 0, None
    try:
        cyborg_checkout()
    except CheckoutError as error:
        return 0, f"No episode was played again: {error}."
    return settings.check, None


class Cage4Scoring:
    """Scoring by the challenge's evaluation: see `environments.challenge.Scoring`.

    One process plays all episodes, because the episodes share a stream of random numbers.
    """

    unit = "episodes"
    settings = ProtocolSettings

    def settings_for(self, args: Mapping[str, Any]) -> ProtocolSettings:
        """Return the settings that score a team against the red agent of the team's training."""
        single = REDS.single(args["red_agent"])
        # A stream of episodes has red agents of one class of CybORG. Any other opponent of the
        # training, such as a trained team, is replaced by the challenge's red agent.
        if single not in scenario4.RED_AGENTS:
            single = scenario4.RED_AGENTS[0]
        return ProtocolSettings(
            red_agent=(single,),
            max_steps=(args["max_steps"],),
            **asdict(scenario4.Scenario.among(args)),
            scenarios=args["scenarios"],
        )

    def is_whole(self, settings: Settings) -> bool:
        """Return whether this is the challenge's evaluation."""
        assert isinstance(settings, ProtocolSettings)
        return (
            settings.red_agent == (scenario4.RED_AGENTS[0],)
            and settings.max_steps == (scenario4.MAX_STEPS,)
            and scenario4.scenarios_of(dict(settings)) == {"": scenario4.CHALLENGE}
        )

    def returns(self, scores: Mapping[str, Any]) -> dict[str, list[float]]:
        """Return the episodes' total rewards, by words for what was played."""
        parts = scores["scenarios"].values() if "scenarios" in scores else [scores]
        changes = [scenario4.Scenario(**part["scenario"]).changes for part in parts]
        played = [scores["red_agent"], f"{scores['steps']} steps"]
        played += [change for change in changes if change]
        return {", ".join(played): [float(total) for total in scores["totals"]]}

    def score(
        self,
        actor: Actor | None,
        environment: Environment | None,
        settings: Settings,
        *,
        name: str,
        episodes: int,
        seed: int,
        quiet: bool,
        **_: Any,
    ) -> Cage4Scores:
        """Play the episodes, and write the result files that the settings ask for, if any.

        Raises ConfigError if the simulator is missing.
        """
        assert isinstance(settings, ProtocolSettings)
        (red_agent,) = settings.red_agent
        (steps,) = settings.max_steps
        played = Cage4(
            simulator=settings.simulator, red_agent=red_agent, max_steps=steps, measures=True
        )
        played.check()
        if environment is None:
            assert settings.agent is not None
            team = make_scripted_team(settings.agent)
        else:
            make_team = trained_team(actor, environment)
            team = SingleTeam(make_team(1))
        technique = name if environment is None else "PPO"
        author = Author(settings.author, settings.team, technique)
        shared: dict[str, Any] = {
            "seed": seed,
            "red_agent": red_agent,
            "steps": steps,
            "quiet": quiet,
            "reds": played.opponents.get(red_agent),
        }
        scores: dict[str, TeamScores] = {}
        twice: list[PlayedTwice] = []
        n_twice, why_none = _checkable(settings)
        n_twice = min(n_twice, episodes)
        for key, scenario in scenario4.scenarios_of(dict(settings)).items():
            folder = settings.output_dir and settings.output_dir / key
            shared["scenario"] = scenario
            try:
                scores[key] = play_protocol(
                    team, author, settings.simulator, episodes, folder=folder, **shared
                )
            except AttackerError as error:
                raise ConfigError("red_agent", str(error)) from error
            if n_twice:
                on_cyborg = play_protocol(team, author, "cyborg", n_twice, **shared)
                twice += [
                    PlayedTwice(f"{number} {key}".strip(), scores[key].totals[number], total)
                    for number, total in enumerate(on_cyborg.totals)
                ]
        line = checked(twice, f"CybORG 4 (commit {COMMIT[:7]})") if twice else why_none
        learned = None if environment is None else scenario4.scenarios_of(environment.args)
        # The table shows a checkpoint by the name of the run's folder.
        team_name = settings.agent or Path(name).parent.name or name
        return Cage4Scores(team_name, scores, learned, line)
