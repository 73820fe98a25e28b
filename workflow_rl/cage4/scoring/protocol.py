"""The challenge's evaluation: 100 episodes of one stream, and the mean of their total rewards.

The original is `CybORG/Evaluation/evaluation.py`. It makes CybORG once with the seed, and begins
each episode with a reset without a seed. It does not count the step that ends an episode, so 498
rewards of an episode of 500 steps count. This module writes the files that the original writes.
"""

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage.scoring import ReturnStatistics
from workflow_rl.cage4.agent.blue_team import SingleTeam
from workflow_rl.cage4.cyborg.checkout import COMMIT
from workflow_rl.cage4.cyborg.simulators import make_simulator
from workflow_rl.cage4.red.roster import RedTeam
from workflow_rl.cage4.scenario import scenario4
from workflow_rl.cage4.scenario.simulator_protocol import Simulator, StepResult
from workflow_rl.cage4.scoring.measures import Measured, joined_measures, read_episode
from workflow_rl.errors import UserError
from workflow_rl.output_files import replacing, require_no_links, write_text
from workflow_rl.progress_bar import Progress

EPISODES = 100
VERSION = "CybORG v4.0, Scenario4"


class Author(NamedTuple):
    """The author of the evaluated team, as a submission names it."""

    name: str
    team: str
    technique: str


class EvaluatedEpisode(NamedTuple):
    """One episode without its last step: `T` = 498 for 500 steps.

    rewards: `[T]`. actions: `[T]`, by agent, the actions that took effect, in CybORG's words. A
    busy agent's action is Sleep. observations: `[T]`, the five vectors after each step.
    costs: `[T]`, the `costs.EVALUATED` of each step; empty arrays if costs are not counted.
    """

    rewards: list[int]
    actions: list[dict[str, str]]
    observations: list[tuple[NDArray[np.int64], ...]]
    costs: list[NDArray[np.float64]]

    @property
    def total(self) -> int:
        return sum(self.rewards)


@dataclass(frozen=True)
class TeamScores(ReturnStatistics):
    """The result of an evaluation. totals: for each episode, the sum of the counted rewards.
    measured: the readings of the episodes; None for scores from a file."""

    simulator: str
    red_agent: str
    seed: int
    steps: int
    totals: list[int]
    scenario: scenario4.Scenario = scenario4.CHALLENGE
    measured: Measured | None = field(default=None, repr=False)

    @property
    def returns(self) -> list[int]:
        return self.totals

    @property
    def is_official(self) -> bool:
        """Whether the episodes were the challenge's, so that published scores can be compared."""
        played = self.red_agent, self.steps, self.scenario
        return played == (scenario4.RED_AGENTS[0], scenario4.MAX_STEPS, scenario4.CHALLENGE)

    def plain(self) -> dict[str, Any]:
        """Return the fields as plain values, without `measured`."""
        values = asdict(replace(self, measured=None))
        del values["measured"]
        return values

    def __str__(self) -> str:
        return f"Average reward is: {self.mean} with a standard deviation of {self.std}"


def evaluated_episodes(
    team: SingleTeam, simulator: Simulator, episodes: int, seed: int
) -> Iterator[EvaluatedEpisode]:
    simulator.start_stream(seed)
    for number in range(episodes):
        observations = simulator.reset()
        team.reset(simulator.masks, number)
        played = EvaluatedEpisode([], [], [], [])
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
            played.costs.append(simulator.costs.copy())
        yield played


class _Effects:
    """Finds which actions take effect in a step."""

    def __init__(self, simulator: Simulator) -> None:
        self._simulator = simulator
        self._taken = ["Sleep"] * len(scenario4.AGENTS)

    def begin(self, actions: list[int]) -> None:
        """Note the actions of the agents that are free."""
        simulator = self._simulator
        for agent, busy_steps in enumerate(simulator.busy_steps):
            if not busy_steps:
                action = scenario4.ACTIONS[agent][actions[agent]]
                possible = simulator.masks[agent][actions[agent]]
                # CybORG's words for an action do not contain the zones.
                words = f"{action.kind} {action.host}".rstrip()
                self._taken[agent] = words if possible else "Sleep"

    def of_step(self) -> dict[str, str]:
        """Return the words of the actions that took effect in the last step, by agent."""
        busy = self._simulator.busy_steps
        return {
            agent: "Sleep" if busy[i] else self._taken[i]
            for i, agent in enumerate(scenario4.AGENTS)
        }


def play_protocol(
    team: SingleTeam,
    author: Author,
    simulator: str = "compiled",
    episodes: int = EPISODES,
    seed: int = 0,
    folder: Path | None = None,
    red_agent: str = scenario4.RED_AGENTS[0],
    steps: int = scenario4.MAX_STEPS,
    quiet: bool = True,
    scenario: scenario4.Scenario = scenario4.CHALLENGE,
    reds: RedTeam | None = None,
) -> TeamScores:
    """Evaluate a team as the challenge does.

    Args:
        team: plays all five agents. The team's messages are sent, as a submission may do.
        author: named in the files.
        simulator: one of `SIMULATORS`.
        episodes, seed: the number of episodes, and the seed of their stream.
        folder: where the files are written. A missing folder is made. None writes no files.
        red_agent, steps, scenario: what is played. The defaults are the challenge's values.
        quiet: show no progress bar.
        reds: the red team that `red_agent` names, if this is not a class of CybORG.
    """
    start = datetime.now()
    totals: list[int] = []
    read: list[Measured] = []
    with ExitStack() as stack:
        logs = stack.enter_context(_Logs(folder)) if folder else None
        made = make_simulator(simulator, reds or red_agent, steps, scenario, measures=True)
        played = evaluated_episodes(team, made, episodes, seed)
        progress = stack.enter_context(Progress(quiet, episodes, "ep"))
        for episode in played:
            progress.update()
            totals.append(episode.total)
            read.append(read_episode(np.array(episode.costs), made.masks))
            if logs:
                logs.add(episode)
        scores = TeamScores(
            simulator, red_agent, seed, steps, totals, scenario, joined_measures(read)
        )
        if logs:
            logs.finish(scores, author, start, datetime.now())
    return scores


_FILES = ("full.txt", "actions.txt", "summary.txt", "summary.json", "scores.txt")


class _Logs:
    """The evaluation's files. Episodes are appended to the bodies of the two long files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._bodies: dict[str, IO[str]] = {}

    def __enter__(self) -> Self:
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
        observations = [
            dict(zip(scenario4.AGENTS, vectors, strict=True)) for vectors in episode.observations
        ]
        self._bodies["full"].write(
            f"actions: {actions},\n observations: {observations},\n total reward: {episode.total}\n"
        )
        self._bodies["actions"].write(f"actions: {(actions,)}")

    def finish(self, scores: TeamScores, author: Author, start: datetime, end: datetime) -> None:
        name, team, technique = author
        header = f"{VERSION}\nAuthor: {name}, Team: {team}, Technique: {technique}\n{scores}\n"
        agents = dict.fromkeys(scenario4.AGENTS, name)
        write_text(self._folder / "summary.txt", f"{header}Using agents {agents}")
        for file_name, body in self._bodies.items():
            with replacing(self._folder / f"{file_name}.txt") as file:
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
            # The original does not write the next entries.
            "simulator": {"name": scores.simulator, "commit": COMMIT},
            "red_agent": scores.red_agent,
            "scenario": asdict(scores.scenario),
            "totals": scores.totals,
        }
        write_text(self._folder / "summary.json", json.dumps(summary))
        mean_and_std = f"reward_mean: {scores.mean}\nreward_stdev: {scores.std}\n"
        write_text(self._folder / "scores.txt", mean_and_std)


class _Words(str):
    """A string that is shown without quotes, as CybORG shows an action."""

    def __repr__(self) -> str:
        return str(self)
