"""How fast the compiled simulator steps by each route that others' code takes to it, on one core,
and how fast it is copied.

Routes take turns and stay on one core, the processes of SubprocVecEnv too. Prints Markdown tables.
"""

from __future__ import annotations

import functools
import os
import statistics
import sys
import time
import timeit
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import workflow_rl  # isort: skip  # noqa: F401  # Pins kernels before anything loads NumPy.

import click
import gymnasium
import numpy as np
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

from workflow_rl.cage2.compiled.simulator import CompiledSimulator
from workflow_rl.cage2.env.stable_baselines3_env import CompiledVecEnv
from workflow_rl.measuring.turns import in_turns, machine_name
from workflow_rl.reporting.text_table import text_table

ENV_ID = "workflow_rl:workflow_rl/CAGE2-v0"
MAX_STEPS = 100

Round = Callable[[int], int]
"""Plays a piece of its number's seed, and returns how many steps that was."""


def episodes(reset: Callable[[int], Any], step: Callable[[int], Any]) -> Round:
    actions = np.random.default_rng(0).integers(145, size=MAX_STEPS).tolist()

    def episode(seed: int) -> int:
        reset(seed)
        for action in actions:
            step(action)
        return MAX_STEPS

    return episode


def bare() -> Round:
    simulator = CompiledSimulator()
    return episodes(lambda seed: simulator.reset(seed, "B_lineAgent"), simulator.step)


def single(sample: bool = False, simulator: str = "compiled") -> Round:
    env = gymnasium.make(ENV_ID, simulator=simulator)
    step = (lambda _: env.step(env.action_space.sample())) if sample else env.step
    return episodes(lambda seed: env.reset(seed=seed), step)


def batch(envs: Any) -> Round:
    actions = np.random.default_rng(0).integers(145, size=(MAX_STEPS, envs.num_envs))
    envs.reset()

    def steps(_: int) -> int:
        for row in actions:
            envs.step(row)
        return int(actions.size)

    return steps


def sb3(kind: Any, simulator: str = "compiled") -> Round:
    return batch(make_vec_env(ENV_ID, 8, vec_env_cls=kind, env_kwargs={"simulator": simulator}))


ROUTES: dict[str, Callable[[], Round]] = {
    "the simulator itself, without Gymnasium": bare,
    '`gymnasium.make(simulator="compiled")`': single,
    "the same, actions by `action_space.sample()`": lambda: single(sample=True),
    '`gymnasium.make(simulator="cyborg")`': lambda: single(simulator="cyborg"),
    "`gymnasium.make_vec`, 8 envs": lambda: batch(gymnasium.make_vec(ENV_ID, 8)),
    "`gymnasium.make_vec`, 1,000 envs": lambda: batch(gymnasium.make_vec(ENV_ID, 1000)),
    "`gymnasium.make_vec(describe_steps=False)`, 1,000 envs": lambda: batch(
        gymnasium.make_vec(ENV_ID, 1000, describe_steps=False)
    ),
    "Stable-Baselines3's `DummyVecEnv` of 8": lambda: sb3(DummyVecEnv),
    "Stable-Baselines3's `SubprocVecEnv` of 8": lambda: sb3(SubprocVecEnv),
    "`DummyVecEnv` of 8, CybORG": lambda: sb3(DummyVecEnv, "cyborg"),
    "`SubprocVecEnv` of 8, CybORG": lambda: sb3(SubprocVecEnv, "cyborg"),
    "`CompiledVecEnv`, 8 envs": lambda: batch(CompiledVecEnv(8)),
    "`CompiledVecEnv`, 1,000 envs": lambda: batch(CompiledVecEnv(1000)),
}


def rate(play: Round, seconds: float, _: int) -> float:
    """Return steps per second of whole rounds until the time is up."""
    n_steps, number, start = 0, 0, time.perf_counter()
    while (passed := time.perf_counter() - start) < seconds:
        n_steps += play(number)
        number += 1
    return n_steps / passed


def median_seconds(call: Callable[[], Any], times: int) -> float:
    return statistics.median(timeit.repeat(call, number=1, repeat=times))


def copy_times() -> dict[str, str]:
    """Return how long going back to a state, and forking it, take halfway through an episode."""
    env: Any = gymnasium.make(ENV_ID, simulator="compiled").unwrapped
    envs: Any = gymnasium.make_vec(ENV_ID, 1000).unwrapped
    for stepped, action in ((env, 7), (envs, np.full(1000, 7))):
        stepped.reset(seed=0)
        for _ in range(50):
            stepped.step(action)
    one_env = median_seconds(lambda: env.load_state(env.save_state()), 1000)
    of_1000 = median_seconds(lambda: envs.load_state(envs.save_state()), 50)
    return {
        "`save_state` and `load_state`": f"{1e6 * one_env:.1f} us",
        "the same for a vector env of 1,000, per env": f"{1e3 * of_1000:.1f} us",
        "`fork(1000)`": f"{1e3 * median_seconds(lambda: env.fork(1000, seed=0), 50):.1f} ms",
    }


@click.command(help=__doc__, context_settings={"show_default": True})
@click.option("--rounds", type=click.IntRange(1), default=5)
@click.option("--seconds", type=click.FloatRange(0.01), default=1.0, help="Of each turn.")
def main(rounds: int, seconds: float) -> None:
    gymnasium.logger.min_level = gymnasium.logger.ERROR  # Stable-Baselines3 asks for pictures.
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    plays = {name: make() for name, make in ROUTES.items()}
    for play in plays.values():
        rate(play, 0.01, 0)
    turns = {name: functools.partial(rate, play, seconds) for name, play in plays.items()}
    rows = [
        [name, f"{statistics.median(found):,.0f}", f"{min(found):,.0f} to {max(found):,.0f}"]
        for name, found in in_turns(turns, rounds, quiet=False).items()
    ]
    click.echo(text_table(["route", "steps/s", "range"], rows, markdown=True))
    click.echo(text_table(["copies", "median"], copy_times().items(), markdown=True))
    click.echo(machine_name())


if __name__ == "__main__":
    main()
