"""How fast the compiled simulator steps by each route that others' code takes to it, on one core,
and how fast it is copied.

Routes take turns, so that a busy machine is busy for all of them, and stay on one core, the
processes of SubprocVecEnv too. Prints a table of Markdown.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
# Also what gives NumPy and torch the kernels of a training run.
import workflow_rl  # noqa: F401  # isort: skip
import click
import gymnasium
import numpy as np
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv
from tqdm import tqdm

from workflow_rl.cage2.compiled.simulator import CompiledSimulator
from workflow_rl.cage2.env.stable_baselines3_env import CompiledVecEnv

ENV_ID = "workflow_rl:workflow_rl/CAGE2-v0"
MAX_STEPS = 100
Play = Callable[[float], float]
"""For so many seconds; steps per second."""


def _single(env: Any, sample: bool = False) -> Play:
    actions = np.random.default_rng(0).integers(145, size=MAX_STEPS).tolist()

    def play(seconds: float) -> float:
        n_episodes, start = 0, time.perf_counter()
        while (passed := time.perf_counter() - start) < seconds:
            env.reset(seed=n_episodes)
            for action in actions:
                env.step(env.action_space.sample() if sample else action)
            n_episodes += 1
        return n_episodes * MAX_STEPS / passed

    return play


def _bare() -> Play:
    simulator = CompiledSimulator()
    actions = np.random.default_rng(0).integers(145, size=MAX_STEPS).tolist()

    def play(seconds: float) -> float:
        n_episodes, start = 0, time.perf_counter()
        while (passed := time.perf_counter() - start) < seconds:
            simulator.reset(n_episodes, "B_lineAgent")
            for action in actions:
                simulator.step(action)
            n_episodes += 1
        return n_episodes * MAX_STEPS / passed

    return play


def _batch(envs: Any) -> Play:
    actions = np.random.default_rng(0).integers(145, size=(MAX_STEPS, envs.num_envs))
    envs.reset()

    def play(seconds: float) -> float:
        n_steps, start = 0, time.perf_counter()
        while (passed := time.perf_counter() - start) < seconds:
            for row in actions:
                envs.step(row)
            n_steps += actions.size
        return n_steps / passed

    return play


def _make(**arguments: Any) -> Any:
    return gymnasium.make(ENV_ID, **{"simulator": "compiled", **arguments})


def _sb3(n_envs: int, kind: Any, simulator: str = "compiled") -> Any:
    return make_vec_env(ENV_ID, n_envs, vec_env_cls=kind, env_kwargs={"simulator": simulator})


ROUTES: dict[str, Callable[[], Play]] = {
    "the simulator itself, without Gymnasium": _bare,
    "`gymnasium.make`": lambda: _single(_make()),
    "`gymnasium.make`, actions by `action_space.sample()`": lambda: _single(_make(), sample=True),
    '`gymnasium.make(simulator="cyborg")`': lambda: _single(_make(simulator="cyborg")),
    "`gymnasium.make_vec`, 8 envs": lambda: _batch(gymnasium.make_vec(ENV_ID, 8)),
    "`gymnasium.make_vec`, 1,000 envs": lambda: _batch(gymnasium.make_vec(ENV_ID, 1000)),
    "`gymnasium.make_vec(describe_steps=False)`, 1,000 envs": lambda: _batch(
        gymnasium.make_vec(ENV_ID, 1000, describe_steps=False)
    ),
    "Stable-Baselines3's `DummyVecEnv` of 8": lambda: _batch(_sb3(8, DummyVecEnv)),
    "Stable-Baselines3's `SubprocVecEnv` of 8": lambda: _batch(_sb3(8, SubprocVecEnv)),
    "`DummyVecEnv` of 8, CybORG": lambda: _batch(_sb3(8, DummyVecEnv, "cyborg")),
    "`SubprocVecEnv` of 8, CybORG": lambda: _batch(_sb3(8, SubprocVecEnv, "cyborg")),
    "`CompiledVecEnv`, 8 envs": lambda: _batch(CompiledVecEnv(8)),
    "`CompiledVecEnv`, 1,000 envs": lambda: _batch(CompiledVecEnv(1000)),
}


def _seconds(call: Callable[[], Any], times: int) -> float:
    """The median of one call."""
    found = []
    for _ in range(times):
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return statistics.median(found)


def copy_times() -> dict[str, str]:
    """What it takes to go back to a state, and to fork it, halfway through an episode."""
    env: Any = _make().unwrapped
    envs: Any = gymnasium.make_vec(ENV_ID, 1000).unwrapped
    for one, action in ((env, 7), (envs, np.full(1000, 7))):
        one.reset(seed=0)
        for _ in range(50):
            one.step(action)
    one_env = _seconds(lambda: env.load_state(env.save_state()), 1000)
    of_1000 = _seconds(lambda: envs.load_state(envs.save_state()), 50)
    return {
        "`save_state` and `load_state`": f"{1e6 * one_env:.1f} us",
        "of a vector env of 1,000, each": f"{1e3 * of_1000:.1f} us",
        "`fork(1000)`": f"{1e3 * _seconds(lambda: env.fork(1000, seed=0), 50):.1f} ms",
    }


@click.command(context_settings={"show_default": True})
@click.option("--rounds", type=click.IntRange(1), default=5)
@click.option("--seconds", type=click.FloatRange(0.01), default=1.0, help="Of each turn.")
def main(rounds: int, seconds: float) -> None:
    """Print the median rate of each route to the compiled simulator, and its range."""
    # Stable-Baselines3 asks for pictures first.
    gymnasium.logger.min_level = gymnasium.logger.ERROR
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    routes = {name: make() for name, make in ROUTES.items()}
    rates: dict[str, list[float]] = {name: [] for name in routes}
    for play in routes.values():
        play(0.01)
    for _ in tqdm(range(rounds), unit="round"):
        for name, play in routes.items():
            rates[name].append(play(seconds))
    click.echo("| route | steps/s | range |\n| --- | --- | --- |")
    for name, found in rates.items():
        low, middle, high = min(found), statistics.median(found), max(found)
        click.echo(f"| {name} | {middle:,.0f} | {low:,.0f} to {high:,.0f} |")
    click.echo("\n| copies | median |\n| --- | --- |")
    for name, taken in copy_times().items():
        click.echo(f"| {name} | {taken} |")


if __name__ == "__main__":
    main()
