"""The sections of a report about runs on CAGE-4: scores, and what the team does."""

import functools
from collections.abc import Sequence

from workflow_rl.cage.replay_frame import replay_command
from workflow_rl.cage.when_and_where import Act, when_and_where
from workflow_rl.cage4.agent.blue_team import SingleTeam
from workflow_rl.cage4.cyborg.simulators import make_simulator
from workflow_rl.cage4.scenario.scenario4 import AGENTS, MAX_STEPS, RED_AGENTS, ZONES
from workflow_rl.cage4.scoring.protocol import EvaluatedEpisode, evaluated_episodes
from workflow_rl.cage4.scoring.recording import ZONE_TITLES
from workflow_rl.cage4.scoring.replays import Cage4Replays
from workflow_rl.errors import ConfigError, UserError
from workflow_rl.progress_bar import Progress
from workflow_rl.reporting.pages import escaped, listing, number
from workflow_rl.reporting.report_run import Run
from workflow_rl.reporting.report_sections import Section, scores

EPISODES = 20
"""How many episodes of the evaluation are played against each red agent."""
MOST_IN_DETAIL = 4
"""The largest number of runs that are played. An episode takes a third of a second."""
STEPS, SEED = MAX_STEPS, 0
ATTACKERS = RED_AGENTS[:3]
PLACES = (*(f"{zone}, {kind}s" for zone in ZONE_TITLES for kind in ("server", "user")), *AGENTS)
"""The rows of a map. An action that has no target host is in the row of its agent."""


def sections(runs: Sequence[Run]) -> list[Section]:
    """Return the sections about runs on CAGE-4: see `Guest.report_sections`."""
    able = [run for run in runs if _has_checkpoint(run)][:MOST_IN_DETAIL]
    body = (
        f'<p class="muted">At most {MOST_IN_DETAIL} runs play {EPISODES} episodes of the '
        f"challenge's evaluation (seed {SEED}) against each red agent that attacks. A field's "
        "darkness is the share of steps in which the action takes effect on a host of the row. "
        "Steps go from left to right. Sleep and the duration of actions are not shown.</p>"
    )
    with Progress(False, len(able) * len(ATTACKERS), "part", desc="playing", leave=False) as bar:
        for run in able:
            try:
                team = SingleTeam(Cage4Replays().load(run.path, None, None).make(1))
            except ConfigError as error:
                raise UserError(f"{run.path} cannot be played: {error.message}") from None
            maps = ""
            commands: list[str] = []
            for red_agent in ATTACKERS:
                simulator = make_simulator("compiled", red_agent, STEPS)
                played = list(evaluated_episodes(team, simulator, EPISODES, SEED))
                totals = [episode.total for episode in played]
                title = f"Against {red_agent}: mean return {number(sum(totals) / EPISODES)}"
                acts = [act for episode in played for act in _acts(episode)]
                maps += when_and_where(title, acts, PLACES, EPISODES, len(played[0].actions))
                worst = totals.index(min(totals))
                commands.append(replay_command(run.path_from_here, red_agent, worst))
                bar.update()
            body += f"<h3>{escaped(run.name)}</h3>{maps}<p>Commands that replay the worst of these "
            body += "episodes, from the folder where this page was made:</p>"
            body += listing(commands, f"Replays of {escaped(run.name)}")
    if not able:
        body = "<p>No run has a checkpoint that can be played.</p>"
    return [scores(runs), Section("What Blue does", body)]


def _has_checkpoint(run: Run) -> bool:
    names = ("best.safetensors", "checkpoint.safetensors")
    return any((run.path / name).exists() for name in names)


def _acts(episode: EvaluatedEpisode) -> list[Act]:
    acts = []
    for step, actions in enumerate(episode.actions):
        for agent, words in actions.items():
            kind, _, host = words.partition(" ")
            if kind != "Sleep":
                acts.append(Act(step, kind, _place_of(host) or agent))
    return acts


@functools.cache
def _place_of(host: str) -> str:
    """Return the row of PLACES for a host's zone and kind, or "" if there is no host."""
    for zone, title in zip(ZONES, ZONE_TITLES, strict=True):
        if host.startswith(zone):
            return f"{title}, {'servers' if '_server_' in host else 'users'}"
    return ""
