"""The command `replay`: write an episode as one HTML page to watch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from workflow_rl.commands.errors import errors_in_one_line
from workflow_rl.commands.options import (
    SAVED,
    SEED,
    OutputFile,
    given_options,
    given_settings,
    setting_options,
    under,
)
from workflow_rl.commands.options_by_env import (
    Look,
    Named,
    OpenCommand,
    env_of_agent,
    env_of_agents,
    name_of,
    require_agent,
)
from workflow_rl.environments.source import default_env, guests
from workflow_rl.output_files import require_writable, written
from workflow_rl.reporting.pages import uncollected

if TYPE_CHECKING:
    from workflow_rl.environments.challenge import Replays

SECTION = "Look"


def _named(look: Look) -> Named:
    """Return what can be chosen of an episode of the environment that the agent was trained on."""
    env_id = env_of_agents(look)
    replays = guests[env_id].replays() if env_id in guests else None
    if replays is None:
        return Named(env_id, [])
    options = setting_options(replays.settings)
    return Named(env_id, under(f"The episode, {name_of(guests[env_id])}", *options))


_OPTIONS: list[click.Parameter] = [
    click.Argument(["agent"], type=SAVED),
    *under(
        "Who plays",
        click.Option(["--env"], type=click.Choice(list(guests)), metavar="ID",
                     default=default_env(), show_default=True,
                     help="Environment of an agent that comes by its name."),
        click.Option(["--against", "other"], type=SAVED, metavar="AGENT",
                     help="Show how another agent plays the same episode."),
        click.Option(["--which"], type=click.Choice(["best", "latest"]),
                     help="Checkpoint of a run folder.  [default: best if there is one]"),
        click.Option(["--stochastic/--greedy"], default=None,
                     help="Sample the policy's actions, as in training, or choose its likeliest.  "
                          "[default: --play of the training]"),
    ),
    *under(
        "The episode",
        click.Option(["--seed"], type=SEED, default=0, show_default=True, metavar="N",
                     help="Seed of the evaluation."),
        click.Option(["--episode"], type=click.IntRange(0, 999_999), default=0, show_default=True,
                     metavar="N", help="Number of the episode in the evaluation, from 0 on "
                                       "(CAGE-2: among those with this red agent and length)."),
    ),
    *under(
        "What is written",
        click.Option(["--output"], type=OutputFile(".html"), default=Path("replay.html"),
                     show_default=True, metavar="FILE", help="The page to write."),
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
    if which is not None and not agent.is_dir():
        raise click.UsageError(f"--which {which} goes with a run folder: give one")
    require_writable(output, "--output")
    with uncollected():
        env, replays = _replays_for(agent, which, env)
        settings = given_settings(replays.settings, options)
        for name, hint in ((agent, "AGENT"), (other, "--against")):
            if name is not None:
                require_agent(name, env, hint)
        players = [_loaded(replays, agent, which, stochastic, "AGENT")]
        if other is not None:
            players.append(_loaded(replays, other, None, stochastic, "--against"))
        try:
            with errors_in_one_line():
                shown = replays.replay(players, settings, seed, episode)
        except RuntimeError as error:
            raise click.UsageError(f"--episode {episode} cannot be played: {error}") from None
    click.echo("\n".join([*shown.lines, f"replay: {written(output, shown.page)}"]))
    if not shown.is_same:
        raise SystemExit(1)


def _replays_for(agent: Path, which: str | None, named: str) -> tuple[str, Replays]:
    """Return the agent's environment, which the agent's file or else --env tells, and how episodes
    are shown. Raise click.BadParameter if they are not."""
    is_named = "env" in given_options() and not agent.exists()
    env_id = named if is_named else env_of_agent(agent) or named
    if agent.exists():
        from workflow_rl.runs.saved_agent import load_saved

        try:
            env_id = load_saved(agent, which).environment.env_id
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="AGENT") from None
        if env_id not in guests and "env" in given_options():
            env_id = named  # An environment that plays a guest's.
    replays = guests[env_id].replays() if env_id in guests else None
    if replays is None:
        raise click.BadParameter(
            f"{agent} was trained on {env_id}, of which there are no pages: `evaluate --video` "
            "films an environment of Gymnasium's",
            param_hint="AGENT",
        )
    return env_id, replays


def _loaded(
    replays: Replays, agent: Path, which: str | None, stochastic: bool | None, hint: str
) -> Any:
    try:
        return replays.load(agent, which, None if stochastic is None else not stochastic)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=hint) from None
