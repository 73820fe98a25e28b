"""The command `train-champion` trains agents, chooses the strongest, and scores it."""

import shlex
import time
from pathlib import Path

import click

from workflow_rl.cage.guest import CageGuest
from workflow_rl.commands.errors import own_command, training_errors
from workflow_rl.commands.options import COUNT, EPISODES, PATH, SEED, plain_option, quiet_option
from workflow_rl.commands.options_by_env import Look, Named, OpenCommand
from workflow_rl.environments.source import default_env, guests
from workflow_rl.output_files import write_json

AGENT_FILE = "champion.npz"
CARD_FILE = "card.json"

_OPTIONS: list[click.Parameter] = [
    plain_option("--run-dir", type=PATH, required=True, metavar="FOLDER",
                 help="Folder of the run, new or empty. If this command was stopped in the folder "
                      "before, it goes on there."),
    plain_option("--env", type=click.Choice(list(guests)), default=default_env(), metavar="ID",
                 help="Environment of the agent."),
    plain_option("--seed", type=SEED, default=0, help="The same seed gives the same agent."),
    quiet_option(),
]  # fmt: skip


def _named(look: Look) -> Named:
    """Return the options for the numbers of episodes that the environment's recipe plays."""
    env_id = look.values.get("env", default_env())
    guest = guests.get(env_id)
    budget = guest.champion if isinstance(guest, CageGuest) else None
    if budget is None:
        return Named(env_id, [])
    options = [
        plain_option("--total-episodes", type=COUNT, default=budget.training,
                     help="Episodes of training."),
        plain_option("--selection-episodes", type=click.IntRange(32, 1_000_000),
                     default=budget.selection,
                     help="Episodes against each attacker in the last round of the choice."),
        plain_option("--episodes", type=EPISODES, default=budget.score,
                     help="Episodes of the final score, in each cell."),
    ]  # fmt: skip
    return Named(env_id, options)


@click.command(params=_OPTIONS, cls=OpenCommand, named=_named)
def train_champion(
    run_dir: Path,
    env: str,
    seed: int,
    quiet: bool,
    total_episodes: int = 0,
    selection_episodes: int = 0,
    episodes: int = 0,
) -> None:
    """Train the strongest agent for a challenge, choose it among its candidates, and score it.

    The agent observes only what Blue sees and concludes. Separate episodes compare the candidates.
    The final score follows the challenge's protocol, on further episodes.

    Example: train-champion --run-dir runs/champion"""
    from workflow_rl.commands.evaluate import evaluate
    from workflow_rl.runs.loop import stopped_by_signals

    guest = guests[env]
    if not isinstance(guest, CageGuest) or guest.champion is None:
        raise click.BadParameter(f"there is no recipe for {env}", param_hint="--env")
    env_option = [] if env == default_env() else ["--env", env]
    budgets = f"--seed {seed} --total-episodes {total_episodes} "
    budgets += f"--selection-episodes {selection_episodes} --episodes {episodes}"
    command = ["train-champion", *env_option, *budgets.split()]
    again = own_command(*command, "--run-dir", run_dir)
    recipe = guest.champion_recipe()
    with training_errors(again, run_dir):
        training = recipe.train(run_dir, seed, total_episodes, quiet)
        start = time.perf_counter()
        with stopped_by_signals():
            chosen = recipe.choose(run_dir, selection_episodes, quiet)
    click.echo(
        f"chosen: {chosen.chosen} of {chosen.candidates} candidates, by {chosen.episodes} "
        "episodes of each kind, which do not score it"
    )
    end = time.perf_counter()
    flags = ["--quiet"] if quiet else []
    scored = [str(run_dir), "--episodes", str(episodes)]
    written = ["--json", str(run_dir / "evaluation.json")]
    evaluate.main([*scored, *written, *flags], standalone_mode=False)
    seconds = {
        "training": training,
        "choosing": end - start,
        "scoring": time.perf_counter() - end,
    }
    card = recipe.card(run_dir, shlex.join(["workflow-rl", *command]), chosen, seconds)
    write_json(run_dir / CARD_FILE, card)
    click.echo(
        f"agent: {run_dir / AGENT_FILE}\n"
        f"card: {run_dir / CARD_FILE} ({sum(seconds.values()):.0f} s in all)"
    )
