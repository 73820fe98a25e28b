"""The command `replay`: write an episode as one HTML page to watch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from workflow_rl.collection.messages import TooManyFailuresError, WorkerError
from workflow_rl.commands.options import (
    SAVED,
    SEED,
    OutputFile,
    given_options,
    given_settings,
    plain_option,
    require_run_folder,
    setting_options,
    stochastic_option,
    under,
    which_option,
)
from workflow_rl.commands.options_by_env import (
    Look,
    Named,
    OpenCommand,
    env_of_agents,
    name_of,
    named_here,
    require_agent,
)
from workflow_rl.environments.source import default_env, guests
from workflow_rl.output_files import require_writable, written
from workflow_rl.reporting.pages import uncollected

if TYPE_CHECKING:
    from workflow_rl.environments.challenge import Replays


def _named(look: Look) -> Named:
    env_id = env_of_agents(look)
    replays = _replays_of(env_id)
    if replays is None:
        return Named(env_id, [])
    options = setting_options(replays.settings)
    return Named(env_id, under(f"The episode, {name_of(guests[env_id])}", *options))


_OPTIONS: list[click.Parameter] = [
    click.Argument(["agent"], type=SAVED),
    *under(
        "Who plays",
        plain_option("--env", type=click.Choice(list(guests)), metavar="ID",
                     default=default_env(), help="Environment of an agent that comes by its name."),
        plain_option("--against", "other", type=SAVED, metavar="AGENT",
                     help="Show how another agent plays the same episode."),
        which_option(),
        stochastic_option(),
    ),
    *under(
        "The episode",
        plain_option("--seed", type=SEED, default=0, help="Seed of the evaluation."),
        plain_option("--episode", type=click.IntRange(0, 999_999), default=0,
                     help="Number of the episode in the evaluation, from 0 on (CAGE-2: among "
                          "those with this red agent and length)."),
    ),
    *under(
        "What is written",
        plain_option("--output", type=OutputFile(".html"), default=Path("replay.html"),
                     metavar="FILE", help="The page to write."),
    ),
]  # fmt: skip


@click.command(params=_OPTIONS, cls=OpenCommand, named=_named)
def replay(
    agent: Path,
    env: str,
    seed: int,
    episode: int,
    other: Path | None,
    which: str | None,
    stochastic: bool | None,
    output: Path,
    **options: Any,
) -> None:
    """Write an episode of CAGE-2 or CAGE-4 as one HTML page to watch, which needs no network.

    AGENT is a training run's folder, a checkpoint or policy file, champion, or the name of a
    scripted agent of --env. The episode is the one that evaluate plays with the same seed: the page
    shows what was true, what each side did, and what cost most.

    Example: replay runs/mixed --red-agent RedMeanderAgent --against champion
    """
    require_run_folder(which, agent)
    require_writable(output, "--output")
    with uncollected():
        env_id = named_here().env
        if env_id not in guests and "env" in given_options():
            env_id = env  # The agent was trained on an environment that plays a guest's.
        replays = _replays_of(env_id)
        if replays is None:
            raise click.BadParameter(
                f"{agent} was trained on {env_id}, of which there are no pages: `evaluate --video` "
                "films an environment of Gymnasium's",
                param_hint="AGENT",
            )
        settings = given_settings(replays.settings, options)
        for name, hint in ((agent, "AGENT"), (other, "--against")):
            if name is not None:
                require_agent(name, env_id, hint)
        players = [_loaded(replays, agent, which, stochastic, "AGENT")]
        if other is not None:
            players.append(_loaded(replays, other, None, stochastic, "--against"))
        try:
            shown = replays.replay(players, settings, seed, episode)
        except (TooManyFailuresError, WorkerError):
            raise  # It is no fault of the episode.
        except RuntimeError as error:
            raise click.UsageError(f"--episode {episode} cannot be played: {error}") from None
    click.echo("\n".join([*shown.lines, f"replay: {written(output, shown.page)}"]))
    if not shown.is_same:
        raise SystemExit(1)


def _replays_of(env_id: str) -> Replays | None:
    return guests[env_id].replays() if env_id in guests else None


def _loaded(
    replays: Replays, agent: Path, which: str | None, stochastic: bool | None, hint: str
) -> Any:
    try:
        return replays.load(agent, which, None if stochastic is None else not stochastic)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=hint) from None
