"""The command `replay`: write an episode as one HTML page to watch."""

from __future__ import annotations

from pathlib import Path

import click

from workflow_rl.cage2.scenario2 import RED_AGENTS
from workflow_rl.cage2.scoring.players import Blue, load_blue
from workflow_rl.cage2.scoring.recording import record_episode
from workflow_rl.cage2.scoring.replay_page import compare_with_cyborg, replay_page
from workflow_rl.commands.clear import ClearCommand
from workflow_rl.commands.options import PATH, SEED
from workflow_rl.output_files import require_writable, write_text
from workflow_rl.reporting.pages import uncollected

MOST_STEPS = 1000
"""Largest number of steps on a page, whose size grows with them."""

_OPTIONS: list[click.Parameter] = [
    click.Argument(["agent"], type=PATH),
    click.Option(["--red-agent"], type=click.Choice(RED_AGENTS), default=RED_AGENTS[0],
                 show_default=True, help="The red agent."),
    click.Option(["--seed"], type=SEED, default=0, show_default=True, metavar="N",
                 help="Seed of the evaluation."),
    click.Option(["--episode"], type=click.IntRange(0, 999_999), default=0, show_default=True,
                 metavar="N", help="Number of the episode, from 0 on, among the evaluation's "
                                   "episodes with this red agent and length."),
    click.Option(["--max-steps"], type=click.IntRange(1, MOST_STEPS), default=100,
                 show_default=True, metavar="N", help="Length of the episode in steps."),
    click.Option(["--against", "other"], type=PATH, metavar="AGENT",
                 help="Show how another agent plays the same episode."),
    click.Option(["--which"], type=click.Choice(["best", "latest"]),
                 help="Checkpoint of a run folder.  [default: best if there is one]"),
    click.Option(["--stochastic"], is_flag=True,
                 help="Sample the policy's actions, as in training, instead of its likeliest."),
    click.Option(["--output"], type=PATH, default=Path("replay.html"), show_default=True,
                 metavar="FILE", help="The page to write."),
]  # fmt: skip


@click.command(params=_OPTIONS, cls=ClearCommand)
def replay(
    agent: Path,
    red_agent: str,
    seed: int,
    episode: int,
    max_steps: int,
    other: Path | None,
    which: str | None,
    stochastic: bool,
    output: Path,
) -> None:
    """Write an episode as one HTML page to watch, which needs no network.

    AGENT is a training run's folder, a checkpoint or policy file, champion, or one of the scripted
    agents sleep, random, react-remove and react-restore. The episode is the one that evaluate plays
    with the same seed: the page shows what was true, what Blue saw, and what cost most.

    Example: replay runs/mixed --red-agent RedMeanderAgent --against champion
    """
    if which is not None and not agent.is_dir():
        raise click.UsageError(f"--which {which} goes with a run folder: give one")
    require_writable(output, "--output")
    with uncollected():
        blues = [_loaded(agent, which, stochastic, "AGENT")]
        if other is not None:
            blues.append(_loaded(other, None, stochastic, "--against"))
        try:
            recordings = [
                record_episode(blue, red_agent, max_steps, seed, episode) for blue in blues
            ]
        except RuntimeError as error:
            raise click.UsageError(f"--episode {episode} cannot be played: {error}") from None
        compared = [compare_with_cyborg(recording) for recording in recordings]
        write_text(output, replay_page(recordings, compared))
    for recording in recordings:
        click.echo(
            f"{recording.agent} against {recording.red_agent}, {len(recording.steps)} steps: "
            f"return {recording.episode_return:.1f}"
        )
    click.echo("\n".join(dict.fromkeys(one.text for one in compared)))
    click.echo(f"replay: {output}")
    if any(one.is_same is False for one in compared):
        raise SystemExit(1)


def _loaded(agent: Path, which: str | None, stochastic: bool, hint: str) -> Blue:
    try:
        return load_blue(agent, which, greedy=not stochastic)
    except ValueError as error:  # CheckpointError: importing it would import torch.
        raise click.BadParameter(str(error), param_hint=hint) from None
