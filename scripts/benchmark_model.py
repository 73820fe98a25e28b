"""How well the model of a finished mbpo run predicts episodes that it did not learn from.

Plays episodes of seeds of their own with the run's last policy, lets the model go on from their
steps with the real actions, and prints its errors beside those of predicting no change. Where
observations are bits, it also draws whether their probabilities are right.

    python scripts/benchmark_model.py runs/from-a-model
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import click
import numpy as np
from prettytable import PrettyTable, TableStyle

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from agents.mbpo.agent import MBPOAgent
from agents.mbpo.model_error import Reliability, errors_ahead, reliability
from agents.policies.numpy_policy import NumpyPolicy
from agents.replay import transitions_of
from agents.trajectory import Trajectory
from workflow_rl.collection.play import play_episodes
from workflow_rl.environments.episode import SeedStream, episode_spec
from workflow_rl.runs.checkpoint import CheckpointError, load_checkpoint
from workflow_rl.runs.folder import read_config
from workflow_rl.runs.learner import load_agent, make_agent
from workflow_rl.runs.trust import trusted_config


def draw(bins: Reliability, path: Path) -> None:
    """Observed frequency against predicted probability."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(5, 5))
    axes.plot([0, 1], [0, 1], color="0.7", label="calibrated")
    axes.plot(bins.predicted, bins.observed, "o-", label="the model's")
    axes.set(xlabel="predicted probability of a bit", ylabel="how often it was 1")
    axes.legend()
    figure.savefig(path, dpi=120, bbox_inches="tight")


@click.command(help=__doc__)
@click.argument("run", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--episodes", default=20, show_default=True)
@click.option("--steps", default=5, show_default=True, help="How far ahead.")
@click.option("--seed", default=1000, show_default=True)
@click.option("--plot", type=Path, help="Where to draw the reliability of bits.")
def main(run: Path, episodes: int, steps: int, seed: int, plot: Path | None) -> None:
    """Play, predict, compare."""
    config = trusted_config(read_config(run))
    agent = make_agent(config)
    file = run / "checkpoint.pt"
    try:
        load_agent(agent, load_checkpoint(file), file)
    except CheckpointError as error:
        raise click.ClickException(str(error)) from None
    if not isinstance(agent, MBPOAgent) or agent.dynamics is None:
        raise click.BadParameter(f"{run} has no model: train with --algorithm mbpo")
    if plot is not None and not agent.dynamics.bits:
        raise click.UsageError("--plot is for observations that are bits")
    variants = config.environment.variants
    specs = [episode_spec(seed, n, variants, SeedStream.BENCHMARK) for n in range(episodes)]
    envs = config.environment.make_envs(min(episodes, 8))
    policy = NumpyPolicy(agent.policy_parameters())
    played: list[Trajectory] = list(itertools.chain(*play_episodes(envs, policy, specs)))
    random = np.random.default_rng(seed)
    model, nothing = errors_ahead(agent.dynamics, played, steps, random)
    table = PrettyTable(
        ["steps ahead", "observation", "no change", "reward", "no change "], align="r"
    )
    table.set_style(TableStyle.MARKDOWN)
    for ahead in range(steps):
        errors = (model.obs, nothing.obs, model.reward, nothing.reward)
        table.add_row([ahead + 1, *(f"{one[ahead]:.3g}" for one in errors)])
    click.echo(table)
    if plot is not None:
        real = transitions_of(played)
        probability = agent.dynamics.predict(real.obs, real.action)
        draw(reliability(probability, real.next_obs), plot)


if __name__ == "__main__":
    main()
