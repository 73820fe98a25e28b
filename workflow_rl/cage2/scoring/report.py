"""The sections of a report about runs on CAGE-2: scores, what Blue does, and replays."""

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
from workflow_rl.reporting.report_charts import chart, keys, means_figure, shares_figure
from workflow_rl.reporting.report_run import Run
from workflow_rl.reporting.report_sections import Section
from workflow_rl.runs.folder import read_config

EPISODES = 100
"""The number of episodes of the best agent against each red agent. The report shows the episodes
with the best, the median and the worst return."""
EPISODES_ON_THE_WAY = 20
"""The number of episodes of every other checkpoint against each red agent."""
MOST_ON_THE_WAY = 24
"""The largest number of kept checkpoints that are played, over all runs."""
MOST_IN_DETAIL = 4
"""With more runs, a run has three replays over all red agents, and not three for each of them."""
STEPS = 100
MAPS = (
    '<p class="muted">The best agent. A field is the share of these steps in which the agent does '
    "this to the host. A stronger colour is a larger share. Steps go from left to right.</p>"
)
SEED = 0
NO_HOST = "the network"
"""The place that a heat map shows for actions without a host."""


def sections(runs: Sequence[Run], further: Path) -> list[Section]:
    """Return the sections about runs on CAGE-2: see `Guest.report_sections`."""
    by_scenario: dict[str, list[Run]] = {SCENARIO2: []}
    for run in runs:
        by_scenario.setdefault(run.config["scenario"], []).append(run)
    on_scenario2 = by_scenario.pop(SCENARIO2)
    scores = [_scores(on_scenario2)] if on_scenario2 else []
    scores += [_in_network(text, trained) for text, trained in by_scenario.items()]
    return scores + _played_sections(runs, further)


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
        scenario, words = played, lines(played)
        shown = "The network"
    else:
        scenario, words = played.start, lines_of_family(played)
        shown = "The start of the family"
    cells = {run.name: _cells(run) for run in runs}
    scored: dict[tuple[int, str], None] = {}
    for of_run in cells.values():
        scored |= dict.fromkeys(of_run)
    rows = []
    for steps, red in scored:
        means = [cells[run.name].get((steps, red), "") for run in runs]
        rows.append([f"{steps} steps, {red}", *means])
    heading = ["Mean return, 95%", *(escaped(run.name) for run in runs)]
    body = table(heading, rows, f"Scores in {played}") if rows else "<p>Not scored yet.</p>"
    body += image(scenario_figure(scenario), f"{shown}; the text below says more")
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
    total = ["Total"]
    names: list[str] = []
    means: list[float] = []
    intervals: list[float] = []
    for run in runs:
        evaluation = run.evaluation
        if evaluation is None or not evaluation.get("official_protocol"):
            total.append("not scored yet")
            continue
        interval = evaluation["total_interval_95"]
        names.append(run.name)
        means.append(evaluation["total"])
        intervals.append(math.nan if interval is None else interval)
        total.append(_with_interval(evaluation["total"], interval))
    published = [score.name.replace("-\n", "-").replace("\n", " ") for score in compared]
    rows.append(total + [number(score.total, 2) for score in compared])
    heading = ["Mean return, 95%", *(escaped(run.name) for run in runs), *map(escaped, published)]
    body = table(heading, rows, "Scores beside the leaderboard")
    if names:
        means += [score.total for score in compared]
        intervals += [math.nan] * len(compared)
        figure = means_figure([*names, *published], means, intervals, "total, 95% interval")
        label = "Totals beside the leaderboard; a table follows"
        body = chart(figure, "Totals", label) + body
    body += f'<p class="muted">{escaped(LEADERBOARD_NOTE)}</p>'
    if len(names) < len(runs):
        body += "<p>To score a run: <code>python -m workflow_rl evaluate RUN</code>.</p>"
    return Section("Scores beside the leaderboard", body)


def _cells(run: Run) -> dict[tuple[int, str], str]:
    cells = {}
    for cell in (run.evaluation or {}).get("cells", ()):
        text = _with_interval(cell["mean"], cell["interval_95"])
        cells[cell["max_steps"], cell["red_agent"]] = text
    return cells


def _with_interval(mean: float, half: float | None) -> str:
    known_half = math.nan if half is None else half
    return f"{number(mean, 2)} ± {number(known_half, 2)}"


class Played(NamedTuple):
    """The greedy episodes of one checkpoint. label: "best", or after how many episodes of training
    the checkpoint was saved. trajectories: the episodes against each red agent."""

    label: str
    path: Path
    network: Scenario
    trajectories: Mapping[str, Sequence[Trajectory]]

    def uses(self, red_agent: str) -> Mapping[str, float]:
        """Return, for each action's name, the mean number of its uses in an episode."""
        trajectories = self.trajectories[red_agent]
        actions = np.concatenate([trajectory.action for trajectory in trajectories])
        names = self.network.action_names
        counts = np.bincount(actions, minlength=len(names)) / len(trajectories)
        return {names[i]: float(counts[i]) for i in np.flatnonzero(counts)}

    def uses_of(self, group: str, red_agent: str) -> float:
        """Return the mean number of uses of a group in an episode. group: see `report_group_of`."""
        uses = self.uses(red_agent).items()
        return sum(n for name, n in uses if report_group_of(name.partition(" ")[0]) == group)

    def acts(self, red_agent: str) -> Iterator[Act]:
        """Yield all actions. All kinds that set up decoys count as one kind."""
        names = [name.partition(" ") for name in self.network.action_names]
        for trajectory in self.trajectories[red_agent]:
            for step, action in enumerate(trajectory.action.tolist()):
                kind, _, host = names[action]
                yield Act(step, report_group_of(kind), host or NO_HOST)


def _checkpoints(run: Run, most: int) -> list[Path]:
    """Return at most `most` kept checkpoints in order, then the last checkpoint, then the best.

    Return no checkpoint if the agent observes the true state, because evaluations do not show it.
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
    """Return the challenge's red agents. If compiled code can play all of the user's red agents in
    the training, return these, too."""
    environment = read_config(run.path).environment
    assert isinstance(environment, Cage2)
    on_scenario2 = dataclasses.replace(environment, scenario=SCENARIO2)
    foreign = on_scenario2.foreign if on_scenario2.all_compiled else ()
    return [*RED_AGENTS, *foreign]


def _played(paths: Sequence[Path], reds: Sequence[str], progress: Progress) -> list[Played]:
    """Play checkpoints. If two have the same label, return only the checkpoint later in `paths`."""
    played: dict[str, Played] = {}
    for path in paths:
        checkpoint = _play_checkpoint(path, reds, path.name == "best.safetensors")
        played[checkpoint.label] = checkpoint
        progress.update()
    return list(played.values())


def _play_checkpoint(path: Path, reds: Sequence[str], is_best: bool) -> Played:
    from workflow_rl.runs.read_checkpoint import load_checkpoint

    label = "best" if is_best else f"{load_checkpoint(path).training.episodes:,}"
    try:
        blue = load_blue(path)
        able = [red for red in reds if refusals(blue.network).get(red) is None]
        n_episodes = EPISODES if is_best else EPISODES_ON_THE_WAY
        return Played(label, path, blue.network, _episodes(blue, n_episodes, able))
    except (RuntimeError, ConfigError) as error:  # In some states, CybORG fails, too.
        raise UserError(f"{path} cannot be played: {error.__cause__ or error}") from error


def _episodes(blue: Blue, n_episodes: int, reds: Sequence[str]) -> dict[str, list[Trajectory]]:
    """Play the first episodes of the evaluation's longest cells, in the compiled simulator."""
    specs = []
    for red in reds:
        specs += [cell_spec(SEED, STEPS, red, episode) for episode in range(n_episodes)]
    environment = Cage2(",".join(reds), STEPS, scenario=blue.network.text)
    by_red: dict[str, list[Trajectory]] = {red: [] for red in reds}
    for trajectory in play(blue.make_envs(environment), blue, specs, len(specs)):
        by_red[trajectory.variant].append(trajectory)
    return by_red


def _actions(runs: Sequence[Run], played: Mapping[str, list[Played]]) -> Section:
    body = (
        '<p class="muted">Training does not record which actions were used. Here the checkpoints '
        "that the run kept (--keep-every), its last and its best checkpoint play greedily in the "
        f"compiled simulator. Each plays {EPISODES_ON_THE_WAY} of the evaluation's {STEPS}-step "
        f"episodes against each red agent. The best plays {EPISODES}.</p>" + keys(GROUPS)
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
        places = (*best.network.hosts, NO_HOST)
        maps = "".join(
            when_and_where(f"Against {red}", best.acts(red), places, len(trajectories), STEPS)
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
    names: dict[str, None] = {}
    for by_name in uses:
        names |= dict.fromkeys(by_name)
    rows = []
    for name in sorted(names, key=lambda name: -uses[-1].get(name, 0.0)):
        rows.append([escaped(name), *(number(by_name.get(name, 0.0), 2) for by_name in uses)])
    label = f"Uses in an episode against {red_agent}"
    return f"<h4>{label}</h4>" + table(
        ("Action", *(checkpoint.label for checkpoint in played)), rows, label, "tall"
    )


def _replays(
    runs: Sequence[Run], played: Mapping[str, list[Played]], further: Path, progress: Progress
) -> Section:
    rows = []
    commands: list[str] = []
    beginnings = _file_names([run.name for run in runs])
    for run in runs:
        progress.update()
        if not played[run.name]:
            continue
        best = played[run.name][-1]
        blue = load_blue(best.path)
        blue.name = run.name
        attackers = _attackers(run, best)
        # With many runs, there are no pages for each red agent, because a page takes 0.2 s.
        together = [attackers] if len(runs) > MOST_IN_DETAIL else [[red] for red in attackers]
        for red_agents in together:
            row = [f"{escaped(run.name)}, {' or '.join(red_agents)}"]
            for which, (red_agent, episode) in _notable(best, red_agents).items():
                attacker = re.sub(r"[^\w.-]+", "-", red_agent)[-80:]
                path = further / f"{beginnings[run.name]}-{attacker}-{which}.html"
                episode_return = _write_replay(blue, red_agent, episode, path)
                link = quote(os.fsencode(f"{further.name}/{path.name}"))
                whose = f"{red_agent}, " if len(red_agents) > 1 else ""
                text = f"{number(episode_return)} ({whose}episode {episode})"
                row.append(f'<a href="{link}">{text}</a>')
            rows.append(row)
            commands.append(replay_command(run.path_from_here, red_agent, episode))
    if not rows:
        return Section("Replays", "<p>No checkpoint that could be played.</p>")
    about = (
        f'<p class="muted">These pages show the best agent in three of its first {EPISODES} '
        f"episodes of the evaluation's {STEPS}-step cells (seed {SEED}).</p>"
    )
    body = about + table(("Run, red agent", "Best", "Median", "Worst"), rows, "Replays")
    body += "<p>These commands show the worst episodes again, if they are run where this page was "
    body += "made. <code>--against AGENT</code> shows another agent in the same episode:</p>"
    body += listing(commands, "Commands of replays")
    return Section("Replays", body)


def _write_replay(blue: Blue, red_agent: str, episode: int, path: Path) -> float:
    """Write the page of an episode, and return the episode's return."""
    recording = record_episode(blue, red_agent, STEPS, SEED, episode)
    make_folder(path.parent)
    compared = compare_with_cyborg(recording, networks=False, scenario=blue.network)
    write_text(path, replay_page([recording], [compared], blue.network))
    return recording.episode_return


def _file_names(names: Sequence[str]) -> dict[str, str]:
    """Return the beginning of the file names of each run. All beginnings differ, even if the file
    system ignores case. They are cut, because a file name may have at most 255 bytes."""
    beginnings: dict[str, str] = {}
    for n, name in enumerate(names):
        readable = name.replace("/", "-").encode(errors="backslashreplace")
        beginning = readable[-200:].decode(errors="ignore")
        is_taken = beginning.lower() in map(str.lower, beginnings.values())
        beginnings[name] = f"{beginning}-run{n}" if is_taken else beginning
    return beginnings


def _attackers(run: Run, played: Played) -> list[str]:
    """Return the played attackers that also attacked in training, or else all played attackers."""
    trained = {*REDS.read(run.config["red_agent"]).variants} - {"SleepAgent"}
    attackers = [red for red in played.trajectories if red != "SleepAgent"]
    return [red for red in attackers if red in trained] or attackers


def _notable(played: Played, red_agents: Sequence[str]) -> dict[str, tuple[str, int]]:
    """Return the red agent and the number of the best, the median and the worst episode."""
    returns = {}
    for red_agent in red_agents:
        for episode, trajectory in enumerate(played.trajectories[red_agent]):
            returns[red_agent, episode] = trajectory.episode_return
    order = sorted(returns, key=lambda key: -returns[key])
    return {"best": order[0], "median": order[len(order) // 2], "worst": order[-1]}
