"""Prints the mean return of uniformly random actions that the masks allow, with a 95% interval.

Usage: python examples/random_returns.py CartPole-v1 [--episodes 100] [--seed 0]

It takes --env-arg and --env-python, as train-async does.
"""

from __future__ import annotations

from contextlib import closing
from typing import Any

import click

from workflow_rl.collection import try_in_worker
from workflow_rl.commands.options import PAIR, PYTHON
from workflow_rl.environments.action_mask import mask_in
from workflow_rl.environments.episode import episode_spec
from workflow_rl.environments.flat_env import sampled
from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment
from workflow_rl.evaluation.intervals import mean_of


@click.command()
@click.argument("env_id")
@click.option("--env-arg", type=PAIR, multiple=True)
@click.option("--env-python", type=PYTHON, default="")
@click.option("--episodes", type=click.IntRange(2), default=100)
@click.option("--seed", type=click.IntRange(0), default=0)
def main(
    env_id: str, env_arg: tuple[tuple[str, Any], ...], env_python: str, episodes: int, seed: int
) -> None:
    environment = GymnasiumEnvironment(
        env_id, dict(env_arg), ignore_unknown=True, python=env_python
    )
    try_in_worker.check(environment)
    returns = []
    with closing(environment.make_env()) as env:
        env.action_space.seed(seed)
        for number in range(episodes):
            mask = mask_in(*env.reset(seed=episode_spec(seed, number).env_seed))
            total, ended = 0.0, False
            while not ended:
                obs, reward, terminated, truncated, info = env.step(sampled(env.action_space, mask))
                total += float(reward)
                ended, mask = terminated or truncated, mask_in(obs, info)
            returns.append(total)
    print(f"{mean_of([returns]).told(3)} in {episodes} episodes")


if __name__ == "__main__":
    main()
