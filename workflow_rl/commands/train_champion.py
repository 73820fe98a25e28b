"""The command `train-champion`: train the strongest agent, choose it, score it."""

from __future__ import annotations

import json
import shlex
import time
from pathlib import Path

import click

from workflow_rl.commands.clear import ClearCommand
from workflow_rl.commands.errors import own_command, training_errors, usage_errors
from workflow_rl.commands.guest_options import name_of
from workflow_rl.commands.options import COUNT, EPISODES, PATH, SEED
from workflow_rl.environments.environment import default_env, guests
from workflow_rl.output_files import write_text

AGENT_FILE, CARD_FILE = "champion.npz", "card.json"


def _default(part: str) -> str:
    """Return in words what `train-champion` spends by default on a part: see ChampionBudget."""
    spent = {name_of(one): getattr(one.champion, part) for one in guests.values() if one.champion}
    return "  [default: " + "; ".join(f"{name}: {n}" for name, n in spent.items()) + "]"


_OPTIONS: list[click.Parameter] = [
    click.Option(["--run-dir"], type=PATH, required=True, metavar="FOLDER",
                 help="Folder of the run. It is new or empty, or the one in which this command "
                      "was stopped before; then the command goes on."),
    click.Option(["--env"], type=click.Choice([n for n, one in guests.items() if one.champion]),
                 default=default_env(), show_default=True, metavar="ID",
                 help="Environment of the agent."),
    click.Option(["--seed"], type=SEED, default=0, show_default=True, metavar="N",
                 help="The same seed gives the same agent."),
    click.Option(["--total-episodes"], type=COUNT, metavar="N",
                 help="Episodes of training (CAGE-4: of whole updates, 200 each)."
                      + _default("training")),
    click.Option(["--selection-episodes"], type=click.IntRange(32, 1_000_000), metavar="N",
                 help="Episodes (CAGE-2: against each attacker) that compare the last candidates."
                      + _default("selection")),
    click.Option(["--episodes"], type=EPISODES, metavar="N",
                 help="Episodes (CAGE-2: in each cell) of the final score." + _default("score")),
    click.Option(["--quiet"], is_flag=True, help="No progress bars."),
]  # fmt: skip


@click.command(params=_OPTIONS, cls=ClearCommand)
def train_champion(
    run_dir: Path,
    env: str,
    seed: int,
    total_episodes: int | None,
    selection_episodes: int | None,
    episodes: int | None,
    quiet: bool,
) -> None:
    """Train the strongest agent for a challenge, choose it among its candidates, and score it.

    The agent plays on what Blue sees and concludes alone. Episodes that serve nothing else compare
    the candidates. The final score is the challenge's, on further episodes.

    Example: train-champion --run-dir runs/champion
    """
    from workflow_rl.commands.evaluate import evaluate
    from workflow_rl.runs.execute import AtOnce
    from workflow_rl.runs.folder import RunDirError
    from workflow_rl.runs.loop import stopped_by_signals

    guest = guests[env]
    budget = guest.champion
    assert budget is not None
    total_episodes = total_episodes or budget.training
    selection_episodes = selection_episodes or budget.selection
    episodes = episodes or budget.score
    which = [] if env == default_env() else ["--env", env]
    words = f"--seed {seed} --total-episodes {total_episodes} "
    words += f"--selection-episodes {selection_episodes} --episodes {episodes}"
    command = ["train-champion", *which, *words.split()]
    again = own_command(*command, "--run-dir", run_dir)
    recipe = guest.champion_recipe()
    try:
        with usage_errors({}), training_errors(again, run_dir):
            training = recipe.train(run_dir, seed, total_episodes, quiet)
            start = time.perf_counter()
            with stopped_by_signals(AtOnce()):
                chosen = recipe.choose(run_dir, selection_episodes, quiet)
    except RunDirError as error:
        raise click.BadParameter(str(error), param_hint="--run-dir") from None
    click.echo(
        f"chosen: {chosen.chosen} of {chosen.candidates} candidates, by {chosen.episodes} "
        "episodes of each kind, which do not score it"
    )
    end = time.perf_counter()
    flags = ["--quiet"] if quiet else []
    scored = [str(recipe.agent(run_dir)), "--episodes", str(episodes)]
    written = ["--json", str(run_dir / "evaluation.json")]
    evaluate.main([*scored, *written, *flags], standalone_mode=False)
    seconds = {
        "training": training,
        "choosing": end - start,
        "scoring": time.perf_counter() - end,
    }
    card = recipe.card(run_dir, shlex.join(["workflow-rl", *command]), chosen, seconds)
    write_text(run_dir / CARD_FILE, json.dumps(card, indent=2) + "\n")
    click.echo(
        f"agent: {run_dir / AGENT_FILE}\n"
        f"card: {run_dir / CARD_FILE} ({sum(seconds.values()):.0f} s in all)"
    )
