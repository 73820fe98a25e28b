"""How well the model of a finished mbpo run predicts episodes that it did not learn from.

Plays episodes of other seeds with the run's last policy, lets the model go on from their steps with
the real actions, and prints its errors beside those of predicting no change.

    python scripts/benchmark_model.py runs/from-a-model
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import workflow_rl  # isort: skip  # noqa: F401  # Pins kernels before anything loads NumPy.

import click
import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.mbpo.agent import MBPOAgent
from workflow_rl.agents.mbpo.dynamics import Dynamics
from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.collection.player import play_episodes
from workflow_rl.environments.episode import SeedStream, episode_spec
from workflow_rl.errors import UserError
from workflow_rl.runs.checkpoint import load_checkpoint
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.learner import make_agent, restored_agent
from workflow_rl.text_table import text_table


class Errors(NamedTuple):
    """Errors of predictions 1 to K steps ahead, with the real actions, float64 [K].

    obs: the absolute differences of an observation's numbers, summed, and averaged over the starts.
    For bits this is the number of wrong bits; real numbers are in units of their standard
    deviation. reward: root mean squared error of the step's reward.
    """

    obs: NDArray[np.float64]
    reward: NDArray[np.float64]


def errors_ahead(
    dynamics: Dynamics, episodes: Sequence[Trajectory], n_steps: int, random: np.random.Generator
) -> tuple[Errors, Errors]:
    """Return the errors of the model's draws, and those of predicting that nothing changes.

    Predictions start at every step, except an episode's first, that has `n_steps` after it. Raises
    ValueError if there is none.
    """
    starts = [(episode, t) for episode in episodes for t in range(1, episode.length - n_steps + 1)]
    if not starts:
        raise ValueError(f"no episode has more than {n_steps} steps")

    def real(values: str, ahead: int) -> NDArray[Any]:
        return np.stack([getattr(episode, values)[t + ahead] for episode, t in starts])

    def real_obs(ahead: int) -> NDArray[Any]:
        rows = [
            episode.obs[t + ahead] if t + ahead < episode.length else episode.last_obs
            for episode, t in starts
        ]
        return np.stack(rows).astype(np.float64)

    first, last_reward = real("obs", 0), real("reward", -1)
    scale = np.ones(first.shape[1])
    if not dynamics.bits:
        scale = first.std(axis=0)
        scale[scale == 0] = np.inf
    imagined, found = first, []
    for ahead in range(n_steps):
        step, _ = dynamics.imagine(imagined, real("action", ahead), random)
        imagined = step.next_obs
        expected, reward = real_obs(ahead + 1), real("reward", ahead)
        found.append(
            [
                (np.abs(obs - expected) / scale).sum(axis=1).mean()
                for obs in (imagined, first.astype(np.float64))
            ]
            + [np.sqrt(np.square(seen - reward).mean()) for seen in (step.reward, last_reward)]
        )
    of_model, of_nothing, reward_of_model, reward_of_nothing = np.array(found).T
    return Errors(of_model, reward_of_model), Errors(of_nothing, reward_of_nothing)


@click.command(help=__doc__, context_settings={"show_default": True})
@click.argument("run", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--episodes", default=20)
@click.option("--steps", default=5, help="How far ahead.")
@click.option("--seed", default=1000)
def main(run: Path, episodes: int, steps: int, seed: int) -> None:
    file = run / "checkpoint.safetensors"
    try:
        checkpoint = load_checkpoint(file)
        config = TrainConfig.to_train(checkpoint.config)
        agent = make_agent(config)
        restored_agent(agent, checkpoint, file)
    except UserError as error:
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
