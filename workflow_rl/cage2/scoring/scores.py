"""Scores by CAGE-2's protocol, as a table, as JSON and as the challenge's result file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from prettytable import PrettyTable

from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.cage.scoring import ReturnStatistics
from workflow_rl.cage2.costs import CLEAN_HOSTS, COSTS
from workflow_rl.cage2.scenario.family import ScenarioFamily
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scenario2 import HORIZONS, RED_AGENTS, SCENARIO2
from workflow_rl.cage2.scoring.leaderboard import (
    LEADERBOARD_NOTE,
    LEADERBOARD_NOTE_1B,
    SCRIPTED_SCORES,
    TOP_SCORES,
    PublishedScore,
    champion_score,
    compared_scores,
)
from workflow_rl.cage2.scoring.measures import MEASURES, Measured, measured, shares_by_host
from workflow_rl.evaluation.intervals import Mean, mean_of
from workflow_rl.evaluation.measures import BY_STEP, course_of, measure_lines, plain_readings
from workflow_rl.evaluation.measures import MEASURES as IN_FILE
from workflow_rl.text_table import SINGLE_BORDER

if TYPE_CHECKING:
    from workflow_rl.cage2.cyborg.simulators import SimulatorVersion


@dataclass(frozen=True)
class CellScore(ReturnStatistics):
    """A cell: episodes against one red agent and of one length, in the order of their numbers."""

    max_steps: int
    red_agent: str
    trajectories: Sequence[Trajectory]

    @property
    def returns(self) -> list[float]:
        return [trajectory.episode_return for trajectory in self.trajectories]


class ProtocolScores(NamedTuple):
    """The cells of an evaluation, in the official order.

    seconds: the wall time of playing. scenario: None means Scenario 2. checked: a line that says
    which episodes CybORG played again, or None. trained_against: the red agents of the agent's
    training, empty if they are unknown. measured: for each cell's `task_name`, what the measures
    read. hosts: see `shares_by_host`."""

    agent: str
    simulator: SimulatorVersion
    seed: int
    seconds: float
    cells: Sequence[CellScore]
    scenario: Scenario | ScenarioFamily | None = None
    checked: str | None = None
    trained_against: tuple[str, ...] = ()
    measured: Mapping[str, Measured] = MappingProxyType({})
    hosts: Mapping[str, Mapping[str, float]] = MappingProxyType({})

    def with_measures(self) -> ProtocolScores:
        """Return the scores with `measured` and `hosts`. All episodes need `evaluated_costs`."""
        played = self.scenario or Scenario.scenario2()
        tasks = {
            task_name(cell.red_agent, cell.max_steps, str(played)): cell.trajectories
            for cell in self.cells
        }
        every_episode = [episode for episodes in tasks.values() for episode in episodes]
        return self._replace(
            measured={task: measured(played, episodes) for task, episodes in tasks.items()},
            hosts=shares_by_host(played, every_episode),
        )

    @property
    def costs(self) -> dict[str, list[float]]:
        """For each cost's name: the cost's sum in each episode of all cells."""
        episodes = [played.episode_costs for cell in self.cells for played in cell.trajectories]
        sums = np.array(episodes)[:, : len(COSTS)].T.tolist()
        return dict(zip(COSTS, sums, strict=bool(sums)))

    @property
    def check_lines(self) -> list[str]:
        """The line that says which episodes CybORG played again, or no line."""
        return [] if self.checked is None else [self.checked]

    @property
    def is_of_challenge(self) -> bool:
        """Whether the network is CAGE-2's own, so that published scores can be compared."""
        return self.scenario in (None, Scenario.scenario2())

    @property
    def published(self) -> tuple[PublishedScore, ...]:
        """The published scores for comparison that have at least one of these cells."""
        with_cells = []
        for score in compared_scores((self.scenario or Scenario.scenario2()).text):
            means = [score.cell(cell.max_steps, cell.red_agent) for cell in self.cells]
            if any(mean is not None for mean in means):
                with_cells.append(score)
        return tuple(with_cells)

    @property
    def episodes(self) -> int:
        return len(self.cells[0].trajectories)

    @property
    def is_official(self) -> bool:
        """Whether the cells are exactly the nine cells of CAGE-2's protocol."""
        return self.is_of_challenge and self.has_all_cells

    @property
    def has_all_cells(self) -> bool:
        """Whether the cells are exactly the nine cells that both challenges' protocols have."""
        cells = [(cell.max_steps, cell.red_agent) for cell in self.cells]
        return cells == [(steps, red_agent) for steps in HORIZONS for red_agent in RED_AGENTS]

    @property
    def total_mean(self) -> Mean:
        """The sum of the cells' means, with its interval. The cells are independent."""
        return mean_of([cell.returns for cell in self.cells])

    @property
    def total(self) -> float:
        """The sum of the cells' means. If `is_official`, this is the challenge's score."""
        return sum(cell.mean for cell in self.cells)

    def lines(self, agent: str) -> list[str]:
        """Return lines for the terminal: the scores beside the leaderboard, what was played, and a
        table of the measures over all episodes."""
        if not self.measured:
            return self._score_lines(agent)
        readings = {
            measure.name: [of_task[measure.name] for of_task in self.measured.values()]
            for measure in MEASURES
        }
        return [*self._score_lines(agent), *measure_lines(MEASURES, readings)]

    def _score_lines(self, agent: str) -> list[str]:
        where = "" if self.is_of_challenge else f" in {self.scenario}"
        lines = [
            str(score_table(self)),
            f"{agent} on {self.simulator}{where}: {self.episodes} episodes a cell, seed "
            f"{self.seed}, {self.seconds:.1f} s.",
            *self.check_lines,
        ]
        if self.published:
            lines.append(LEADERBOARD_NOTE if self.is_of_challenge else LEADERBOARD_NOTE_1B)
        return lines

    def closing_lines(self, agent: str) -> list[str]:
        """Return the lines about the score at a training's end. After a training against one red
        agent, the lines are about its three cells, or else about all cells."""
        if not self.is_of_challenge:
            return self._score_lines(agent)
        if len(self.trained_against) != 1 or self.trained_against[0] not in RED_AGENTS:
            return self._lines_on_all()
        (red_agent,) = self.trained_against
        cells = self._replace(cells=[cell for cell in self.cells if cell.red_agent == red_agent])
        means = ", ".join(f"{cell.mean:.1f} after {cell.max_steps}" for cell in cells.cells)
        return [
            f"score against {red_agent}, the red agent of the training: mean return {means} steps; "
            f"sum {cells.total_mean.told(1)} (the champion's sum: "
            f"{champion_score().sum_against(red_agent):.1f}).",
            f"Each mean is of {cells.episodes} episodes on {cells.simulator.name} "
            f"{cells.simulator.version}. A return is at best 0. The champion is this package's "
            "strongest agent.",
            *cells.check_lines,
            "The command evaluate shows the scores against all three red agents; --red-agent mixed "
            "trains against all of them.",
        ]

    def _lines_on_all(self) -> list[str]:
        winner = TOP_SCORES[0].total
        record = max(score.total for score in TOP_SCORES)
        return [
            f"score: {self.total_mean.told(1)}, the sum of the mean "
            f"returns against three red agents over 30, 50 and 100 steps; at best 0.",
            f"For comparison: the challenge winner's released agent scores {winner:.1f}; the "
            f"leaderboard's best is {record:.1f}, on an older and easier simulator; the champion "
            f"of this package scores {champion_score().total:.1f}.",
            f"Each of the nine means is of {self.episodes} episodes, which did not choose the "
            f"agent, on {self.simulator.name} {self.simulator.version}.",
            *self.check_lines,
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for evaluation.json. With one episode a cell, std and interval_95 are
        None."""
        plain = {
            "agent": self.agent,
            "simulator": self.simulator._asdict(),
            "scenario": str(self.scenario or SCENARIO2),
            "seed": self.seed,
            "seconds": self.seconds,
            "official_protocol": self.is_official,
            "total": self.total,
            "total_interval_95": self.total_mean.plain()["interval_95"],
            "checked": self.checked,
            "cells": [
                {
                    "max_steps": cell.max_steps,
                    "red_agent": cell.red_agent,
                    "episodes": len(cell.trajectories),
                    **cell.statistics(),
                    "returns": cell.returns,
                }
                for cell in self.cells
            ],
        }
        if not self.measured:
            return plain
        read = plain_readings(self.measured)
        return plain | {IN_FILE: read, BY_STEP: self._courses(), "hosts": self.hosts}

    def _courses(self) -> dict[str, dict[str, dict[str, list[float]]]]:
        """Return, for each task with the longest episodes, the number of clean hosts by step."""
        longest = max(cell.max_steps for cell in self.cells)
        courses = {}
        for task, cell in zip(self.measured, self.cells, strict=True):
            costs = [played.costs for played in cell.trajectories if played.costs is not None]
            clean = [episode[:, CLEAN_HOSTS] for episode in costs]
            if cell.max_steps == longest:
                courses[task] = {COSTS[CLEAN_HOSTS]: course_of(clean)}
        return courses


def task_name(red_agent: str, max_steps: int, scenario: str) -> str:
    """Return the name of a cell among the tasks of an evaluation: see `Scoring.returns`.

    scenario: the text in evaluation.json."""
    is_official = scenario in (SCENARIO2, str(Scenario.scenario2()))
    changed = "" if is_official else f", {scenario}"
    return f"{red_agent}, {max_steps} steps{changed}"


def score_table(scores: ProtocolScores) -> PrettyTable:
    """Return a table with a row for each cell and a row for the total, beside published scores."""
    published = list(scores.published)
    if scores.is_of_challenge and scores.agent in SCRIPTED_SCORES:
        published.append(SCRIPTED_SCORES[scores.agent])
    table = PrettyTable(align="r")
    table.set_style(SINGLE_BORDER)
    table.header = False  # The first row has the headings, because a heading may have two lines.
    headings = ["steps", "red agent", "mean", "95%", "std", *(score.name for score in published)]
    table.add_row(headings, divider=True)
    table.align["Field 2"] = "l"
    last = len(scores.cells) - 1
    for number, cell in enumerate(scores.cells):
        ours = [_figure(cell.mean), _interval(cell.interval_95), _figure(cell.std)]
        others = [_figure(score.cell(cell.max_steps, cell.red_agent)) for score in published]
        ends_group = number == last or scores.cells[number + 1].max_steps != cell.max_steps
        table.add_row([cell.max_steps, cell.red_agent, *ours, *others], divider=ends_group)
    is_total = bool(published) and scores.has_all_cells
    label = "total" if is_total else "sum of these"
    half = _interval(scores.total_mean.interval_95)
    totals = [_figure(score.total if is_total else None) for score in published]
    table.add_row(["", label, f"{scores.total:.2f}", half, "", *totals])
    return table


def _figure(value: float | None) -> str:
    return "" if value is None or math.isnan(value) else f"{value:.2f}"


def _interval(half: float) -> str:
    return f"± {half:.2f}" if math.isfinite(half) else ""


def step_actions(trajectory: Trajectory, names: Sequence[str]) -> list[tuple[str, str]]:
    """Return the actions of Blue and Red in each of the `T` steps, as CybORG prints them.

    trajectory: its observations are records. names: the names of Blue's actions."""
    # A record describes the step before it.
    shown: Any = np.append(trajectory.obs[1:], trajectory.last_obs)
    blue = [names[action] for action in trajectory.action]
    return list(zip(blue, shown["red_action"].astype(str).tolist(), strict=True))


def official_text(scores: ProtocolScores, author: str, team: str, technique: str) -> str:
    """Return the text of a result file of the challenge: a header, then, for each cell, a line
    about the cell and a line for each of its episodes."""
    simulator = scores.simulator
    scenario = scores.scenario or Scenario.scenario2()
    assert isinstance(scenario, Scenario), "an episode's actions are named in one scenario"
    named = "Scenario2" if scenario.is_scenario2 else str(scenario)
    names = scenario.action_names
    lines = [
        f"CybORG {simulator.name} {simulator.version}, {named}, Commit Hash: {simulator.commit}",
        f"author: {author}, team: {team}, technique: {technique}",
        "wrappers: Cage2Env, with the observation and the actions of ChallengeWrapper",
    ]
    for cell in scores.cells:
        lines.append(
            f"steps: {cell.max_steps}, adversary: {cell.red_agent}, "
            f"mean: {cell.mean}, standard deviation {cell.std}"
        )
        lines += [
            f"actions: {step_actions(trajectory, names)}, total reward: {trajectory.episode_return}"
            for trajectory in cell.trajectories
        ]
    return "\n".join(lines) + "\n"
