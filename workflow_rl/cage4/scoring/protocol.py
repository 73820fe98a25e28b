"""The challenge's evaluation: 100 episodes of one stream, and the mean of their total rewards.

The original is `CybORG/Evaluation/evaluation.py`: CybORG is constructed once with the seed, and
each episode begins with a reset without one. The step that ends an episode is not counted, so that
of 500 steps 498 rewards are. Files are as the original writes them.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage.scoring import ReturnStatistics
from workflow_rl.cage4.agent.blue_team import SingleTeam
from workflow_rl.cage4.cyborg.checkout import COMMIT
from workflow_rl.cage4.cyborg.simulators import make_simulator
from workflow_rl.cage4.red.roster import RedTeam
from workflow_rl.cage4.scenario.scenario4 import (
    ACTIONS,
    AGENTS,
    CHALLENGE,
    MAX_STEPS,
    RED_AGENTS,
    Scenario,
)
from workflow_rl.cage4.scenario.simulator_protocol import Simulator, StepResult
from workflow_rl.errors import UserError
from workflow_rl.output_files import replacing, require_no_links, write_text
from workflow_rl.progress_bar import Progress

EPISODES = 100
VERSION = "CybORG v4.0, Scenario4"


class Author(NamedTuple):
    """Who is evaluated, as a submission says it."""

    name: str
    team: str
    technique: str


class EvaluatedEpisode(NamedTuple):
    """One episode without its last step, `T` = 498 steps of 500.

    rewards: `[T]`. actions: by step, the five actions that took effect, in CybORG's words; Sleep
    while an agent is busy. observations: by step, the five vectors after it.
    """

    rewards: list[int]
    actions: list[dict[str, str]]
    observations: list[tuple[NDArray[np.int64], ...]]

    @property
    def total(self) -> int:
        return sum(self.rewards)


@dataclass(frozen=True)
class TeamScores(ReturnStatistics):
    """The result of an evaluation. totals: the sum of the counted rewards of each episode."""

    simulator: str
    red_agent: str
    seed: int
    steps: int
    totals: list[int]
    scenario: Scenario = CHALLENGE

    @property
    def returns(self) -> list[int]:
        return self.totals

    @property
    def is_official(self) -> bool:
        """Whether these are the challenge's episodes, so that others' scores stand beside."""
        played = self.red_agent, self.steps, self.scenario
        return played == (RED_AGENTS[0], MAX_STEPS, CHALLENGE)

    def __str__(self) -> str:
        return f"Average reward is: {self.mean} with a standard deviation of {self.std}"


def evaluated_episodes(
    team: SingleTeam, simulator: Simulator, episodes: int, seed: int
) -> Iterator[EvaluatedEpisode]:
    """Play the episodes of an evaluation in turn."""
    simulator.start_stream(seed)
    for number in range(episodes):
        observations = simulator.reset()
        team.reset(simulator.masks, number)
        played = EvaluatedEpisode([], [], [])
        effects = _Effects(simulator)
        while True:
            actions, messages = team.act_in(simulator, observations)
            effects.begin(actions)
            result: StepResult = simulator.step(actions, messages)
            observations = result.observations
            if result.done:
                break
            played.rewards.append(result.reward)
            played.actions.append(effects.of_step())
            played.observations.append(observations)
        yield played


class _Effects:
    """Which actions take effect in a step."""

    def __init__(self, simulator: Simulator) -> None:
        self._simulator = simulator
        self._taken = ["Sleep"] * len(AGENTS)

    def begin(self, actions: list[int]) -> None:
        """Note the actions of the agents that are free."""
        simulator = self._simulator
        for agent, busy_steps in enumerate(simulator.busy_steps):
            if not busy_steps:
                action = ACTIONS[agent][actions[agent]]
                possible = simulator.masks[agent][actions[agent]]
                # CybORG names no zones.
                words = f"{action.kind} {action.host}".rstrip()
                self._taken[agent] = words if possible else "Sleep"

    def of_step(self) -> dict[str, str]:
        """Return by agent what took effect in the last step."""
        busy = self._simulator.busy_steps
        return {agent: "Sleep" if busy[i] else self._taken[i] for i, agent in enumerate(AGENTS)}


def play_protocol(
    team: SingleTeam,
    author: Author,
    simulator: str = "compiled",
    episodes: int = EPISODES,
    seed: int = 0,
    folder: Path | None = None,
    red_agent: str = RED_AGENTS[0],
    steps: int = MAX_STEPS,
    quiet: bool = True,
    scenario: Scenario = CHALLENGE,
    reds: RedTeam | None = None,
) -> TeamScores:
    """Evaluate a team as the challenge does.

    Args:
        team: plays all five agents. Its messages are sent, as a submission's wrapper may do.
        author: named in the files.
        simulator: one of `SIMULATORS`.
        episodes, seed: of the stream.
        folder: where the files are written; it is made if it is missing. None writes none.
        red_agent, steps, scenario: the challenge's, unless something else is to be measured.
        quiet: show no progress bar.
        reds: the team that `red_agent` names.
    """
    start = datetime.now()
    totals = []
    with ExitStack() as stack:
        logs = stack.enter_context(_Logs(folder)) if folder else None
        made = make_simulator(simulator, reds or red_agent, steps, scenario)
        played = evaluated_episodes(team, made, episodes, seed)
        progress = stack.enter_context(Progress(quiet, episodes, "ep"))
        for episode in played:
            progress.update()
            totals.append(episode.total)
            if logs:
                logs.add(episode)
        scores = TeamScores(simulator, red_agent, seed, steps, totals, scenario)
        if logs:
            logs.finish(scores, author, start, datetime.now())
    return scores


_FILES = ("full.txt", "actions.txt", "summary.txt", "summary.json", "scores.txt")


class _Logs:
    """The evaluation's files. The bodies of the long ones are written during the evaluation."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._bodies: dict[str, IO[str]] = {}

    def __enter__(self) -> _Logs:
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            require_no_links(*(self._folder / name for name in _FILES))
        except ValueError as error:
            raise UserError(str(error)) from None
        for name in ("full", "actions"):
            self._bodies[name] = TemporaryFile("w+", dir=self._folder)
        return self

    def __exit__(self, *error: object) -> None:
        for body in self._bodies.values():
            body.close()

    def add(self, episode: EvaluatedEpisode) -> None:
        actions = [
            {agent: [_Words(words)] for agent, words in step.items()} for step in episode.actions
        ]
        observations = [dict(zip(AGENTS, vectors, strict=True)) for vectors in episode.observations]
        self._bodies["full"].write(
            f"actions: {actions},\n observations: {observations},\n total reward: {episode.total}\n"
        )
        self._bodies["actions"].write(f"actions: {(actions,)}")

    def finish(self, scores: TeamScores, author: Author, start: datetime, end: datetime) -> None:
        name, team, technique = author
        header = f"{VERSION}\nAuthor: {name}, Team: {team}, Technique: {technique}\n{scores}\n"
        agents = dict.fromkeys(AGENTS, name)
        self._write("summary.txt", f"{header}Using agents {agents}")
        for long, body in self._bodies.items():
            with replacing(self._folder / f"{long}.txt") as file:
                file.write(header)
                body.seek(0)
                shutil.copyfileobj(body, file)
        summary: dict[str, Any] = {
            "submission": {"author": name, "team": team, "technique": technique},
            "parameters": {
                "seed": scores.seed,
                "episode_length": scores.steps,
                "max_episodes": len(scores.totals),
            },
            "time": {"start": str(start), "end": str(end), "elapsed": str(end - start)},
            "reward": {"mean": scores.mean, "stdev": scores.std},
            "agents": agents,
            # The original has no entries below.
            "simulator": {"name": scores.simulator, "commit": COMMIT},
            "red_agent": scores.red_agent,
            "scenario": asdict(scores.scenario),
            "totals": scores.totals,
        }
        self._write("summary.json", json.dumps(summary))
        self._write("scores.txt", f"reward_mean: {scores.mean}\nreward_stdev: {scores.std}\n")

    def _write(self, name: str, text: str) -> None:
        write_text(self._folder / name, text)


class _Words(str):
    """A string that is shown without quotes, as CybORG shows an action."""

    def __repr__(self) -> str:
        return str(self)
