"""The sections of a report about runs on CAGE-2: scores, what Blue does, and replays."""

from __future__ import annotations

import dataclasses
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import numpy as np

from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.cage.playing import play
from workflow_rl.cage.replay_frame import replay_command
from workflow_rl.cage.when_and_where import Act, when_and_where
from workflow_rl.cage2.agent.blue import Blue
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage2.red.roster import REDS, refusals
from workflow_rl.cage2.scenario.actions import GROUPS, report_group_of
from workflow_rl.cage2.scenario.loading import played_in
from workflow_rl.cage2.scenario.report import lines, lines_of_family, scenario_figure
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scenario2 import HORIZONS, RED_AGENTS, SCENARIO2
from workflow_rl.cage2.scoring.leaderboard import LEADERBOARD_NOTE, compared_scores
from workflow_rl.cage2.scoring.players import load_blue
from workflow_rl.cage2.scoring.protocol import cell_spec
from workflow_rl.cage2.scoring.recording import record_episode
from workflow_rl.cage2.scoring.replay_page import compare_with_cyborg, replay_page
from workflow_rl.errors import ConfigError, UserError
from workflow_rl.output_files import make_folder, write_text
from workflow_rl.progress_bar import Progress
from workflow_rl.reporting.pages import escaped, folded, image, listing, number, table
from workflow_rl.reporting.report import Run, Section
from workflow_rl.reporting.report_charts import chart, keys, means_figure, shares_figure
from workflow_rl.runs.folder import read_config

EPISODES = 100
"""Episodes of the best agent against each red agent. The report shows the best, the median and the
worst of them."""
EPISODES_ON_THE_WAY = 20
"""Episodes of every other checkpoint against each red agent."""
MOST_ON_THE_WAY = 24
"""Largest number of kept checkpoints that are played, of all runs together."""
MOST_IN_DETAIL = 4
"""Largest number of runs that have replays against each red agent."""
STEPS = 100
MAPS = (
    '<p class="muted">The best agent. A field is the share of these steps in which the agent does '
    "this to the host. A stronger colour is a larger share. Steps go from left to right.</p>"
)
SEED = 0
NO_HOST = "the network"
"""Shown as the place of actions that have no host."""


def sections(runs: Sequence[Run], further: Path) -> list[Section]:
    """Return the sections about runs on CAGE-2: see `Guest.report_sections`."""
    texts = dict.fromkeys(run.config["scenario"] for run in runs)
    elsewhere = [
        _in_network(text, [run for run in runs if run.config["scenario"] == text])
        for text in texts
        if text != SCENARIO2
    ]
    here = [run for run in runs if run.config["scenario"] == SCENARIO2]
    return [*([_scores(here)] if here else []), *elsewhere, *_played_sections(runs, further)]


def _played_sections(runs: Sequence[Run], further: Path) -> list[Section]:
    most = max(2, min(8, MOST_ON_THE_WAY // len(runs)))
    checkpoints = {run.name: _checkpoints(run, most) for run in runs}
    parts = sum(map(len, checkpoints.values())) + len(runs)
    with Progress(False, parts, "part", desc="playing", leave=False) as progress:
        played = {run.name: _played(checkpoints[run.name], _reds(run), progress) for run in runs}
        replays = _replays(runs, played, further, progress)
    return [_actions(runs, played), replays]


def _in_network(text: str, runs: Sequence[Run]) -> Section:
    played = played_in(text)
    if isinstance(played, Scenario):
        scenario, words, shows = played, lines(played), "The network"
    else:
        scenario, words, shows = played.start, lines_of_family(played), "The start of the family"
    cells = {run.name: _cells(run) for run in runs}
    keys_of = dict.fromkeys(key for of_run in cells.values() for key in of_run)
    rows = [
        [f"{steps} steps, {red}", *(cells[run.name].get((steps, red), "") for run in runs)]
        for steps, red in keys_of
    ]
    heading = ["Mean return, 95%", *(escaped(run.name) for run in runs)]
    body = table(heading, rows, f"Scores in {played}") if rows else "<p>Not scored yet.</p>"
    body += image(scenario_figure(scenario), f"{shows}; the text below says more")
    text_of = escaped("\n".join(words))
    return Section(f"In {escaped(played)}", body + folded("In words", f"<pre>{text_of}</pre>"))


def _scores(runs: Sequence[Run]) -> Section:
    cells = {run.name: _cells(run) for run in runs}
    compared = compared_scores()
    rows = []
    for steps in HORIZONS:
        for red_agent in RED_AGENTS:
            row = [f"{steps} steps, {red_agent}"]
            row += [cells[run.name].get((steps, red_agent), "–") for run in runs]  # noqa: RUF001
            row += [number(score.cell(steps, red_agent), 2) for score in compared]
            rows.append(row)
    total, names, means, intervals = ["Total"], list[str](), list[float](), list[float]()
    for run in runs:
        evaluation = run.evaluation
        if evaluation is None or not evaluation.get("official_protocol"):
            total.append("not scored yet")
            continue
        interval = evaluation["total_interval_95"]
        names.append(run.name)
        means.append(evaluation["total"])
        intervals.append(math.nan if interval is None else interval)
        total.append(f"{number(means[-1], 2)} ± {number(intervals[-1], 2)}")
    published = [score.name.replace("-\n", "-").replace("\n", " ") for score in compared]
    rows.append(total + [number(score.total, 2) for score in compared])
    heading = ["Mean return, 95%", *(escaped(run.name) for run in runs), *map(escaped, published)]
    body = table(heading, rows, "Scores beside the leaderboard")
    if names:
        figure = means_figure(
            [*names, *published],
            [*means, *(score.total for score in compared)],
            [*intervals, *[math.nan] * len(compared)],
            "total, 95% interval",
        )
        label = "Totals beside the leaderboard; a table follows"
        body = chart(figure, "Totals", label) + body
    body += f'<p class="muted">{escaped(LEADERBOARD_NOTE)}</p>'
    if len(names) < len(runs):
        body += "<p>To score a run: <code>python -m workflow_rl evaluate RUN</code>.</p>"
    return Section("Scores beside the leaderboard", body)


def _cells(run: Run) -> dict[tuple[int, str], str]:
    return {
        (cell["max_steps"], cell["red_agent"]): f"{number(cell['mean'], 2)} ± "
        f"{number(math.nan if cell['interval_95'] is None else cell['interval_95'], 2)}"
        for cell in (run.evaluation or {}).get("cells", ())
    }


class Played(NamedTuple):
    """The greedy episodes of one checkpoint, by red agent. label: when the run saved it. network:
    what was played."""

    label: str
    path: Path
    network: Scenario
    trajectories: Mapping[str, Sequence[Trajectory]]

    def uses(self, red_agent: str) -> Mapping[str, float]:
        """Return the mean number of uses in an episode, by the action's name."""
        trajectories = self.trajectories[red_agent]
        actions = np.concatenate([trajectory.action for trajectory in trajectories])
        names = self.network.action_names
        counts = np.bincount(actions, minlength=len(names)) / len(trajectories)
        return {names[i]: float(counts[i]) for i in np.flatnonzero(counts)}

    def uses_of(self, group: str, red_agent: str) -> float:
        """Return the mean number of uses of a group's actions in an episode."""
        uses = self.uses(red_agent).items()
        return sum(n for name, n in uses if report_group_of(name.partition(" ")[0]) == group)

    def acts(self, red_agent: str) -> Iterator[Act]:
        """Yield all actions, with a decoy's name left out."""
        names = [name.partition(" ") for name in self.network.action_names]
        for trajectory in self.trajectories[red_agent]:
            for step, action in enumerate(trajectory.action.tolist()):
                kind, _, host = names[action]
                yield Act(step, report_group_of(kind), host or NO_HOST)


def _checkpoints(run: Run, most: int) -> list[Path]:
    """Return at most `most` kept checkpoints in order; then the last checkpoint, then the best.

    An agent that was trained on the true state has none, because no evaluation shows that state.
    """
    if run.config.get("observation") == "true-state":
        return []
    kept = sorted(run.path.glob("kept/*.safetensors"))
    chosen = [kept[i] for i in np.linspace(0, len(kept) - 1, most).astype(int)] if kept else []
    paths = (
        *dict.fromkeys(chosen),
        run.path / "checkpoint.safetensors",
        run.path / "best.safetensors",
    )
    return [path for path in paths if path.exists()]


def _reds(run: Run) -> list[str]:
    """Return the red agents that the run's agents play against: the challenge's, and those of the
    training that compiled code plays, if the run is the user's own."""
    environment = read_config(run.path).environment
    assert isinstance(environment, Cage2)
    on_scenario2 = dataclasses.replace(environment, scenario=SCENARIO2)
    return [*RED_AGENTS, *(on_scenario2.foreign if on_scenario2.all_compiled else ())]


def _played(paths: Sequence[Path], reds: Sequence[str], progress: Progress) -> list[Played]:
    """Play checkpoints. Of two with one label, the later in `paths` counts."""
    played: dict[str, Played] = {}
    for path in paths:
        checkpoint = _play_checkpoint(path, reds, path.name == "best.safetensors")
        played[checkpoint.label] = checkpoint
        progress.update()
    return list(played.values())


def _play_checkpoint(path: Path, reds: Sequence[str], is_best: bool) -> Played:
    from workflow_rl.runs.checkpoint import load_checkpoint

    label = "best" if is_best else f"{load_checkpoint(path).training.episodes:,}"
    try:
        blue = load_blue(path)
        able = [red for red in reds if refusals(blue.network).get(red) is None]
        n = EPISODES if is_best else EPISODES_ON_THE_WAY
        return Played(label, path, blue.network, _episodes(blue, n, able))
    except (RuntimeError, ConfigError) as error:  # Such as a state in which CybORG itself fails.
        raise UserError(f"{path} cannot be played: {error.__cause__ or error}") from error


def _episodes(blue: Blue, n: int, reds: Sequence[str]) -> dict[str, list[Trajectory]]:
    """Play the first n episodes of the evaluation's longest cells, in the compiled simulator."""
    specs = [cell_spec(SEED, STEPS, red, k) for red in reds for k in range(n)]
    environment = Cage2(",".join(reds), STEPS, scenario=blue.network.text)
    played = [*play(blue.make_envs(environment), blue, specs, len(specs))]
    return {red: [trajectory for trajectory in played if trajectory.variant == red] for red in reds}


def _actions(runs: Sequence[Run], played: Mapping[str, list[Played]]) -> Section:
    body = (
        '<p class="muted">Training does not record which actions were used: here the checkpoints '
        f"that the run kept (--keep-every), its last and its best play {EPISODES_ON_THE_WAY} "
        f"({EPISODES} the best) of the evaluation's {STEPS}-step episodes against each red agent, "
        "greedily, in the compiled simulator.</p>" + keys(GROUPS)
    )
    for run in runs:
        of_run = played[run.name]
        if not of_run:
            body += f"<h3>{escaped(run.name)}</h3><p>No checkpoint that could be played.</p>"
            continue
        labels = [checkpoint.label for checkpoint in of_run]
        charts = "".join(
            chart(
                shares_figure(labels, _shares(of_run, red), across=True),
                f"Against {red}",
                f"Share of each kind of action against {red}, by episodes trained; a table follows",
            )
            for red in of_run[0].trajectories
        )
        best = of_run[-1]
        maps = "".join(
            when_and_where(
                f"Against {red}",
                *(best.acts(red), (*best.network.hosts, NO_HOST)),
                *(len(trajectories), STEPS),
            )
            for red, trajectories in best.trajectories.items()
        )
        tables = "".join(_uses_table(of_run, red) for red in of_run[0].trajectories)
        heading = f"<h3>{escaped(run.name)}, after so many episodes of training</h3>"
        body += f'{heading}<div class="charts">{charts}</div>'
        body += folded(f"Every action of {run.name}", tables)
        body += f"<h3>{escaped(run.name)}, on which host and when</h3>{MAPS}{maps}"
    return Section("What Blue does", body)


def _shares(played: Sequence[Played], red_agent: str) -> dict[str, list[float]]:
    return {
        group: [checkpoint.uses_of(group, red_agent) / STEPS for checkpoint in played]
        for group in GROUPS
    }


def _uses_table(played: Sequence[Played], red_agent: str) -> str:
    uses = [checkpoint.uses(red_agent) for checkpoint in played]
    names = dict.fromkeys(name for by_name in uses for name in by_name)
    most = sorted(names, key=lambda name: -uses[-1].get(name, 0.0))
    rows = [
        [escaped(name), *(number(by_name.get(name, 0.0), 2) for by_name in uses)] for name in most
    ]
    label = f"Uses in an episode against {red_agent}"
    return f"<h4>{label}</h4>" + table(
        ("Action", *(checkpoint.label for checkpoint in played)), rows, label, "tall"
    )


def _replays(
    runs: Sequence[Run], played: Mapping[str, list[Played]], further: Path, progress: Progress
) -> Section:
    rows, commands = [], list[str]()
    beginnings = _file_names([run.name for run in runs])
    for run in runs:
        progress.update()
        if not played[run.name]:
            continue
        best = played[run.name][-1]
        blue = load_blue(best.path)
        blue.name, network = run.name, blue.network
        attackers = _attackers(run, best)
        # With many runs there is not a page for each red agent: a page takes a fifth of a second.
        together = [attackers] if len(runs) > MOST_IN_DETAIL else [[red] for red in attackers]
        for red_agents in together:
            row = [f"{escaped(run.name)}, {' or '.join(red_agents)}"]
            for which, (red_agent, episode) in _notable(best, red_agents).items():
                attacker = re.sub(r"[^\w.-]+", "-", red_agent)[-80:]
                name = f"{beginnings[run.name]}-{attacker}-{which}.html"
                recording = record_episode(blue, red_agent, STEPS, SEED, episode)
                make_folder(further)
                compared = compare_with_cyborg(recording, networks=False, scenario=network)
                write_text(further / name, replay_page([recording], [compared], network))
                link = quote(os.fsencode(f"{further.name}/{name}"))
                whose = f"{red_agent}, " if len(red_agents) > 1 else ""
                text = f"{number(recording.episode_return)} ({whose}episode {episode})"
                row.append(f'<a href="{link}">{text}</a>')
            rows.append(row)
            commands.append(replay_command(run.path_from_here, red_agent, episode))
    if not rows:
        return Section("Replays", "<p>No checkpoint that could be played.</p>")
    about = (
        f"<p class=\"muted\">Of the best agent's first {EPISODES} episodes in the evaluation's "
        f"{STEPS}-step cells (seed {SEED}): pages to watch.</p>"
    )
    body = about + table(("Run, red agent", "Best", "Median", "Worst"), rows, "Replays")
    body += "<p>The worst ones again, from where this page was made or the folders lie; "
    body += "<code>--against AGENT</code> shows another agent in the same episode:</p>"
    body += listing(commands, "Commands of replays")
    return Section("Replays", body)


def _file_names(names: Sequence[str]) -> dict[str, str]:
    """Return by run the beginning of its files' names, which may have 255 bytes. No two are equal,
    also where the file system takes capitals for small letters."""
    beginnings: dict[str, str] = {}
    for n, name in enumerate(names):
        readable = name.replace("/", "-").encode(errors="backslashreplace")
        beginning = readable[-200:].decode(errors="ignore")
        is_taken = beginning.lower() in map(str.lower, beginnings.values())
        beginnings[name] = f"{beginning}-run{n}" if is_taken else beginning
    return beginnings


def _attackers(run: Run, played: Played) -> list[str]:
    """Return the played attackers that the run trained against; if there are none, all played."""
    trained = {*REDS.read(run.config["red_agent"]).variants} - {"SleepAgent"}
    attackers = [red for red in played.trajectories if red != "SleepAgent"]
    return [red for red in attackers if red in trained] or attackers


def _notable(played: Played, red_agents: Sequence[str]) -> dict[str, tuple[str, int]]:
    """Return the red agent and the number of the best, the median and the worst episode."""
    returns = {
        (red_agent, episode): trajectory.episode_return
        for red_agent in red_agents
        for episode, trajectory in enumerate(played.trajectories[red_agent])
    }
    order = sorted(returns, key=lambda key: -returns[key])
    return {"best": order[0], "median": order[len(order) // 2], "worst": order[-1]}
