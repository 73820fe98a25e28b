"""As good as Stable-Baselines3's PPO, and faster? Both train on the same number of env steps.

Its settings are the published ones of RL Baselines3 Zoo 2.9.2 (MIT licence; those of Hopper-v4 and
HalfCheetah-v4, for there are none of v5), ours are below. Every run is a process of its own, scored
by the agent it ends with: the mean return of 50 seeded episodes that it was not trained on, with
the likeliest actions. The two take turns, seed by seed. Rows are added to --json as runs end, and
runs that it has already are left out, so that the command can be stopped and called again. Rows
whose seconds are null were not timed beside others.
"""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from prettytable import PrettyTable, TableStyle

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from workflow_rl.output_files import write_text

TRAINERS = ("stable-baselines3", "workflow_rl")
EVALUATION_EPISODES = 50

STEPS = {
    "CartPole-v1": 100_000,
    "Acrobot-v1": 1_000_000,
    "LunarLander-v3": 1_000_000,
    "Hopper-v5": 300_000,
    "HalfCheetah-v5": 300_000,
}

OURS = {
    "CartPole-v1": "--num-steps-per-env 256",
    "Acrobot-v1": "--n-envs 16 --num-steps-per-env 256 --learning-rate 7e-4 --minibatch-size 128 "
    "--epochs 6 --gae-lambda 0.94",
    "LunarLander-v3": "--n-envs 16 --num-steps-per-env 256 --minibatch-size 512 --epochs 6 "
    "--discount 0.999 --gae-lambda 0.98 --entropy-coef 0.01",
    "Hopper-v5": "--num-steps-per-env 256 --learning-rate 6e-4 --minibatch-size 128",
    "HalfCheetah-v5": "--n-envs 4 --num-steps-per-env 128 --steps-per-update 512 "
    "--hidden-sizes 256,256 --activation relu --log-std-init -2 --learning-rate 2e-4 --epochs 15 "
    "--clip-range 0.1 --discount 0.98 --gae-lambda 0.92 --entropy-coef 0.0004 --max-grad-norm 0.8",
}
"""Options of `train-async` besides --env, --total-steps and --seed."""


def linear(start: float) -> Callable[[float], float]:
    """Falls to 0 with the share of the run that is left."""
    return lambda left: start * left


def published(env: str) -> tuple[int, bool, dict[str, Any]]:
    """Environments, whether to normalise, and PPO's arguments."""
    from torch import nn

    mujoco = {
        "policy_kwargs": {
            "log_std_init": -2,
            "ortho_init": False,
            "activation_fn": nn.ReLU,
            "net_arch": {"pi": [256, 256], "vf": [256, 256]},
        },
        "n_steps": 512,
    }
    settings: dict[str, tuple[int, bool, dict[str, Any]]] = {
        "CartPole-v1": (
            8,
            False,
            {
                **{"n_steps": 32, "batch_size": 256, "gae_lambda": 0.8, "gamma": 0.98},
                **{"n_epochs": 20, "ent_coef": 0.0},
                **{"learning_rate": linear(1e-3), "clip_range": linear(0.2)},
            },
        ),
        "Acrobot-v1": (
            16,
            True,
            {"n_steps": 256, "gae_lambda": 0.94, "gamma": 0.99, "n_epochs": 4, "ent_coef": 0.0},
        ),
        "LunarLander-v3": (
            16,
            False,
            {
                **{"n_steps": 1024, "batch_size": 64, "gae_lambda": 0.98, "gamma": 0.999},
                **{"n_epochs": 4, "ent_coef": 0.01},
            },
        ),
        "Hopper-v5": (
            1,
            True,
            {
                **mujoco,
                **{"batch_size": 32, "gamma": 0.999, "learning_rate": 9.80828e-05},
                **{"ent_coef": 0.00229519, "clip_range": 0.2, "n_epochs": 5, "gae_lambda": 0.99},
                **{"max_grad_norm": 0.7, "vf_coef": 0.835671},
            },
        ),
        "HalfCheetah-v5": (
            1,
            True,
            {
                **mujoco,
                **{"batch_size": 64, "gamma": 0.98, "learning_rate": 2.0633e-05},
                **{"ent_coef": 0.000401762, "clip_range": 0.1, "n_epochs": 20, "gae_lambda": 0.92},
                **{"max_grad_norm": 0.8, "vf_coef": 0.58096},
            },
        ),
    }
    return settings[env]


def train_theirs(env: str, steps: int, seed: int) -> dict[str, Any]:
    """A run of Stable-Baselines3. seconds: from making the environments to the last update."""
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.vec_env import VecEnv, VecNormalize

    torch.set_num_threads(1)
    n_envs, normalise, options = published(env)
    start = time.perf_counter()
    envs: VecEnv = make_vec_env(env, n_envs, seed)
    if normalise:
        envs = VecNormalize(envs, gamma=options["gamma"])
    model = PPO("MlpPolicy", envs, seed=seed, device="cpu", **options)
    model.learn(steps)
    seconds = time.perf_counter() - start
    test: VecEnv = make_vec_env(env, 1, 10_000 + seed)
    if isinstance(envs, VecNormalize):
        test = VecNormalize(test, training=False, norm_reward=False)
        test.obs_rms = envs.obs_rms
    mean, _ = evaluate_policy(model, test, EVALUATION_EPISODES, deterministic=True)
    return {"return": mean, "seconds": seconds}


def train_ours(env: str, steps: int, seed: int) -> dict[str, Any]:
    """A run of the asynchronous trainer. seconds: of the command, imports and start included."""
    with tempfile.TemporaryDirectory() as folder:
        run, scores = Path(folder) / "run", Path(folder) / "scores.json"
        start = time.perf_counter()
        training = f"--env {env} --total-steps {steps} --seed {seed} {OURS[env]}"
        call("train-async", "--run-dir", run, *training.split())
        seconds = time.perf_counter() - start
        evaluation = f"--which latest --episodes {EVALUATION_EPISODES} --seed {10_000 + seed}"
        call("evaluate", run, "--json", scores, *evaluation.split())
        return {"return": json.loads(scores.read_text())["mean"], "seconds": seconds}


def call(*arguments: str | Path) -> None:
    """The command workflow-rl."""
    subprocess.run(
        [sys.executable, "-m", "workflow_rl", *map(str, arguments), "--quiet"],
        cwd=Path(__file__).resolve().parent.parent,
        check=True,
        stdout=subprocess.DEVNULL,
    )


def comparison_table(rows: list[dict[str, Any]], budget: int | None = None) -> PrettyTable:
    """A line an environment: mean and standard error of the returns, and median seconds.

    budget: of the runs that count; None: STEPS.
    """
    table = PrettyTable(
        [
            *("environment", "steps", "seeds", "SB3 return", "our return"),
            *("SB3 seconds", "our seconds", "x as fast"),
        ],
        align="r",
    )
    table.set_style(TableStyle.SINGLE_BORDER)
    table.align["environment"] = "l"
    for env in STEPS:
        steps = budget or STEPS[env]
        its_rows = [row for row in rows if (row["env"], row["steps"]) == (env, steps)]
        of = {
            trainer: [row for row in its_rows if row["trainer"] == trainer] for trainer in TRAINERS
        }
        if not all(of.values()):
            continue
        timed = [[row["seconds"] for row in of[t] if row["seconds"] is not None] for t in TRAINERS]
        theirs, ours = (statistics.median(seconds or [math.nan]) for seconds in timed)
        table.add_row(
            [
                *(env, f"{steps:,}", "/".join(str(len(of[trainer])) for trainer in TRAINERS)),
                *(mean_and_error([row["return"] for row in of[t]]) for t in TRAINERS),
                *(f"{theirs:.0f}", f"{ours:.0f}", f"{theirs / ours:.2f}"),
            ]
        )
    return table


def mean_and_error(returns: list[float]) -> str:
    """Mean and standard error of the mean."""
    mean = statistics.mean(returns)
    if len(returns) == 1:
        return f"{mean:.1f}"
    return f"{mean:.1f} ± {statistics.stdev(returns) / len(returns) ** 0.5:.1f}"


@click.command(context_settings={"show_default": True})
@click.option("--env", "envs", type=click.Choice(list(STEPS)), multiple=True, default=list(STEPS))
@click.option("--seeds", type=click.IntRange(1), default=3, help="Runs of each.")
@click.option("--trainer", "trainers", type=click.Choice(TRAINERS), multiple=True, default=TRAINERS)
@click.option("--steps", type=click.IntRange(1), help="Fewer steps, to try it.", show_default="all")
@click.option("--json", "path", type=click.Path(path_type=Path), required=True, metavar="FILE")
def main(
    envs: tuple[str, ...], seeds: int, trainers: tuple[str, ...], steps: int | None, path: Path
) -> None:
    """Train with both on the same steps, and print a table of returns and wall time."""
    rows: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
    done = {(row["env"], row["steps"], row["trainer"], row["seed"]) for row in rows}
    for seed in range(seeds):
        for env in envs:
            for trainer in trainers:
                budget = steps or STEPS[env]
                if (env, budget, trainer, seed) in done:
                    continue
                train = train_theirs if trainer == TRAINERS[0] else train_ours
                row = {"env": env, "steps": budget, "trainer": trainer, "seed": seed}
                rows.append({**row, **train(env, budget, seed)})
                click.echo(rows[-1])
                write_text(path, json.dumps(rows, indent=1) + "\n")
    click.echo(comparison_table(rows, steps))


if __name__ == "__main__":
    main()
