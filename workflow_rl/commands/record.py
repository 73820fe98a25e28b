"""The command `record`: write episodes of an agent to a file that others can read."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from workflow_rl.commands.options import (
    EPISODES,
    FUNCTION,
    SAVED,
    SEED,
    OutputFile,
    blaming,
    env_options,
    given_options,
    plain_option,
    quiet_option,
    setting_options,
    spelling,
    under,
    worker_options,
)
from workflow_rl.commands.options_by_env import (
    Look,
    Named,
    OpenCommand,
    chosen_env,
    env_of_agents,
    guest_options,
    named_here,
    require_agent,
)
from workflow_rl.environments.source import guests
from workflow_rl.output_files import require_writable
from workflow_rl.runs.config import TrainConfig

_AGENT = click.Argument(["agent"], type=SAVED)
_OPTIONS: list[click.Parameter] = [
    _AGENT,
    click.Argument(["file"], type=OutputFile(".npz")),
    *under("Environment", *env_options(),
           *setting_options(TrainConfig, ["ignore_unknown", "env_python"])),
    *under(
        "Episodes",
        plain_option("--episodes", type=EPISODES, default=100, help="Number of episodes."),
        plain_option("--seed", type=SEED, default=0,
                     help="The same seed gives the same episodes, for any number of workers."),
        *worker_options(),
        quiet_option(),
    ),
]  # fmt: skip


def _named(look: Look) -> Named:
    env_id = env_of_agents(look)
    return Named(env_id, guest_options(env_id))


@click.command(params=_OPTIONS, cls=OpenCommand, named=_named)
def record(agent: Path, file: Path, **options: Any) -> None:
    """Write episodes of an agent to a file that others can read, and that --teacher takes.

    AGENT is a training run's folder, a checkpoint or policy file, champion, the name of a scripted
    agent of --env, or module:function, which takes an observation, and a mask where there are
    masks, and returns an action. The agent plays the environment that it was trained on, or that of
    --env. FILE is an .npz file of plain arrays. A FILE of episodes that exists is replaced; any
    other file is left. minari:ID writes a new dataset of Minari's. A policy plays as after its
    training: see --play of train-async.

    Example: record decoys demos.npz --simulator compiled --episodes 500
    """
    from workflow_rl.runs.copy_teacher import written_episodes
    from workflow_rl.teaching.episode_files import dataset_named
    from workflow_rl.teaching.teachers import returns_in_words, returns_of

    if dataset_named(file) is None:
        require_writable(file, "FILE")
    who: str | Callable[..., Any] = str(agent)
    if not agent.exists() and ":" in str(agent):
        who = FUNCTION.convert(str(agent), _AGENT, click.get_current_context())
    elif named_here().env in guests:
        require_agent(agent, named_here().env, "AGENT")
    with blaming(lambda name: "AGENT" if name == "teacher" else spelling(name)):
        chosen = chosen_env(options)
        try:
            recorded = written_episodes(
                *(who, file, options["episodes"]),
                *(options["env"] if "env" in given_options() else None, chosen["env_args"]),
                *(options["seed"], options["n_workers"], options["quiet"]),
                options["worker_timeout"],
                **{
                    name: options[name]
                    for name in given_options() & {"env_python", "ignore_unknown"}
                },
            )
        except FileExistsError as error:
            raise click.BadParameter(str(error), param_hint="FILE") from None
    told = returns_in_words(returns_of(recorded.trajectories))
    click.echo(f"{agent} on {recorded.about['env']}: mean return {told}")
    click.echo(f"episodes: {file}")
