"""The command `replay`: an episode to watch, as one HTML page."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from workflow_rl.cage2.scenario2 import HOSTS, RED_AGENTS
from workflow_rl.cage2.scoring.recording import (
    Blue,
    Comparison,
    Recording,
    compare_with_cyborg,
    load_blue,
    record_episode,
)
from workflow_rl.commands.options import PATH, SEED
from workflow_rl.output_files import require_writable, write_text
from workflow_rl.reporting.pages import as_json, escaped, filled, source, uncollected

PAGES = "workflow_rl.cage2.scoring.pages"
MOST_STEPS = 1000
"""Of a page: its size grows with them."""


def replay_page(recordings: Sequence[Recording], compared: Sequence[Comparison]) -> str:
    """The page of an episode, or of the same one with two agents."""
    first = recordings[0]
    agents = " and ".join(recording.agent for recording in recordings)
    returns = "; ".join(
        f"{one.agent}, {one.choice} actions: return {one.episode_return:.1f}" for one in recordings
    )
    about = (
        f"{returns}. Episode {first.episode} of the {first.max_steps}-step cell of an evaluation "
        f"with seed {first.seed}."
    )
    if len(recordings) > 1:
        about += " Chance is the same for both until their actions differ."
    return filled(
        PAGES,
        "replay.html",
        title=escaped(f"{agents} against {first.red_agent}"),
        about=escaped(about),
        compared=escaped(" ".join(dict.fromkeys(one.text for one in compared))),
        episodes=as_json({**_scenario(), "recordings": recordings}),
        script=source(PAGES, "replay.js"),
    )


def _scenario() -> dict[str, Any]:
    from workflow_rl.cage2.compiled.tables import (
        EXPLORED_ADDRESSES,
        N_SUBNET_HOSTS,
        SUBNET_HOSTS,
        SUBNETS,
    )

    members = zip(SUBNETS, SUBNET_HOSTS, N_SUBNET_HOSTS, strict=True)
    by_name = {name: [HOSTS[host] for host in hosts[:n]] for name, hosts, n in members}
    return {
        "hosts": HOSTS,
        # From where Red begins to what it is after.
        "subnets": {name: by_name[name] for name in ("User", "Enterprise", "Operational")},
        "leads": [
            (HOSTS[host], HOSTS[other])
            for host, explored in enumerate(EXPLORED_ADDRESSES)
            for other in np.flatnonzero([explored >> i & 1 for i in range(len(HOSTS))])
            if other != host
        ],
    }


_OPTIONS: list[click.Parameter] = [
    click.Argument(["agent"], type=PATH),
    click.Option(["--red-agent"], type=click.Choice(RED_AGENTS), default=RED_AGENTS[0],
                 show_default=True, help="Who attacks."),
    click.Option(["--seed"], type=SEED, default=0, show_default=True, metavar="N",
                 help="That of an evaluation."),
    click.Option(["--episode"], type=click.IntRange(0, 999_999), default=0, show_default=True,
                 metavar="N", help="Its number among the evaluation's episodes of this red agent "
                                   "and length, from 0 on."),
    click.Option(["--max-steps"], type=click.IntRange(1, MOST_STEPS), default=100,
                 show_default=True, metavar="N", help="Length of the episode in steps."),
    click.Option(["--against", "other"], type=PATH, metavar="AGENT",
                 help="Another agent in the same episode, beside the first."),
    click.Option(["--which"], type=click.Choice(["best", "latest"]),
                 help="Checkpoint of a run folder.  [default: best if there is one]"),
    click.Option(["--stochastic"], is_flag=True,
                 help="Sample the policy's actions, as in training, instead of its likeliest."),
    click.Option(["--output"], type=PATH, default=Path("replay.html"), show_default=True,
                 metavar="FILE", help="The page to write."),
]  # fmt: skip


@click.command(params=_OPTIONS)
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
    logging.basicConfig(format="%(levelname)s: %(message)s")
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
