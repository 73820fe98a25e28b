"""How well the model of a finished mbpo run predicts episodes that it did not learn from.

Plays episodes of other seeds with the run's last policy, lets the model go on from their steps with
the real actions, and prints its errors beside those of predicting no change.

    python scripts/benchmark_model.py runs/from-a-model
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import workflow_rl  # isort: skip  # noqa: F401  # Pins kernels before anything loads NumPy.

import click
import numpy as np

from workflow_rl.agents.mbpo.agent import MBPOAgent
from workflow_rl.agents.mbpo.model_error import errors_ahead
from workflow_rl.collection.player import play_episodes
from workflow_rl.environments.episode import SeedStream, episode_spec
from workflow_rl.reporting.text_table import text_table
from workflow_rl.runs.checkpoint import CheckpointError, load_checkpoint
from workflow_rl.runs.folder import read_config
from workflow_rl.runs.learner import make_agent, restored_agent
from workflow_rl.runs.trust import trusted_config


@click.command(help=__doc__, context_settings={"show_default": True})
@click.argument("run", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--episodes", default=20)
@click.option("--steps", default=5, help="How far ahead.")
@click.option("--seed", default=1000)
def main(run: Path, episodes: int, steps: int, seed: int) -> None:
    config = trusted_config(read_config(run))
    agent, file = make_agent(config), run / "checkpoint.pt"
    try:
        restored_agent(agent, load_checkpoint(file), file)
    except CheckpointError as error:
        raise click.ClickException(str(error)) from None
    if not isinstance(agent, MBPOAgent) or agent.dynamics is None:
        raise click.BadParameter(f"{run} has no model: train with --algorithm mbpo")
    variants = config.environment.variants
    specs = [episode_spec(seed, n, variants, SeedStream.BENCHMARK) for n in range(episodes)]
    envs = config.environment.make_envs(min(episodes, 8))
    policy = agent.policy_parameters().actor()
    played = list(itertools.chain(*play_episodes(envs, policy, specs)))
    model, nothing = errors_ahead(agent.dynamics, played, steps, np.random.default_rng(seed))
    columns = (model.obs, nothing.obs, model.reward, nothing.reward)
    rows = [[n + 1, *(f"{column[n]:.3g}" for column in columns)] for n in range(steps)]
    headings = ["steps ahead", "observation", "no change", "reward", "no change "]
    click.echo(text_table(headings, rows, left=0, markdown=True))


if __name__ == "__main__":
    main()
