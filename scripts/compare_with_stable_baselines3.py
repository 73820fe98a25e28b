"""As good as Stable-Baselines3's PPO, and faster? Both train on the same number of env steps.

Its settings are the published ones of RL Baselines3 Zoo 2.9.2 (MIT licence; those of Hopper-v4 and
HalfCheetah-v4, for v5 has none), ours are below. Every run is scored by the agent that it ends
with: the mean return of 50 seeded episodes that the agent was not trained on, with the likeliest
actions. The two take turns, seed by seed. Rows are added to --json as runs end, and runs that the
file has already are left out, so that the command can be stopped and called again. Rows whose
seconds are null were not timed beside others.
"""

from __future__ import annotations

import ast
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import click
from prettytable import PrettyTable

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from workflow_rl.output_files import write_text  # noqa: E402
from workflow_rl.reporting.harness import machine_name, text_table  # noqa: E402

TRAINERS = ("stable-baselines3", "workflow_rl")
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
THEIRS = {
    "CartPole-v1": "n_envs=8 normalize=False n_steps=32 batch_size=256 gae_lambda=0.8 gamma=0.98 "
    "n_epochs=20 ent_coef=0.0 learning_rate=lin_0.001 clip_range=lin_0.2",
    "Acrobot-v1": "n_envs=16 normalize=True n_steps=256 gae_lambda=0.94 gamma=0.99 n_epochs=4 "
    "ent_coef=0.0",
    "LunarLander-v3": "n_envs=16 normalize=False n_steps=1024 batch_size=64 gae_lambda=0.98 "
    "gamma=0.999 n_epochs=4 ent_coef=0.01",
    "Hopper-v5": "n_envs=1 normalize=True n_steps=512 batch_size=32 gamma=0.999 "
    "learning_rate=9.80828e-05 ent_coef=0.00229519 clip_range=0.2 n_epochs=5 gae_lambda=0.99 "
    "max_grad_norm=0.7 vf_coef=0.835671",
    "HalfCheetah-v5": "n_envs=1 normalize=True n_steps=512 batch_size=64 gamma=0.98 "
    "learning_rate=2.0633e-05 ent_coef=0.000401762 clip_range=0.1 n_epochs=20 gae_lambda=0.92 "
    "max_grad_norm=0.8 vf_coef=0.58096",
}
"""Environments, whether to normalise, and PPO's arguments; lin_X falls from X to 0 in the run."""


def published(env: str) -> dict[str, Any]:
    """Return the settings of THEIRS as values."""
    settings: dict[str, Any] = {}
    for name, _, text in (setting.partition("=") for setting in THEIRS[env].split()):
        value = ast.literal_eval(text.removeprefix("lin_"))
        is_linear = text.startswith("lin_")
        settings[name] = (lambda left, start=value: start * left) if is_linear else value
    return settings


def train_theirs(env: str, steps: int, seed: int) -> dict[str, Any]:
    """Train with Stable-Baselines3. seconds: from making the environments to the last update."""
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.vec_env import VecEnv, VecNormalize

    torch.set_num_threads(1)
    settings = published(env)
    n_envs, normalise = settings.pop("n_envs"), settings.pop("normalize")
    if env in ("Hopper-v5", "HalfCheetah-v5"):
        settings["policy_kwargs"] = {
            **{"log_std_init": -2, "ortho_init": False, "activation_fn": torch.nn.ReLU},
            "net_arch": {"pi": [256, 256], "vf": [256, 256]},
        }
    start = time.perf_counter()
    envs: VecEnv = make_vec_env(env, n_envs, seed)
    if normalise:
        envs = VecNormalize(envs, gamma=settings["gamma"])
    model = PPO("MlpPolicy", envs, seed=seed, device="cpu", **settings)
    model.learn(steps)
    seconds = time.perf_counter() - start
    test: VecEnv = make_vec_env(env, 1, 10_000 + seed)
    if isinstance(envs, VecNormalize):
        test = VecNormalize(test, training=False, norm_reward=False)
        test.obs_rms = envs.obs_rms
    mean, _ = evaluate_policy(model, test, n_eval_episodes=50, deterministic=True)
    return {"return": mean, "seconds": seconds}


def train_ours(env: str, steps: int, seed: int) -> dict[str, Any]:
    """Train with this package. seconds: of the whole command, imports included."""
    with tempfile.TemporaryDirectory() as folder:
        run, scores = Path(folder) / "run", Path(folder) / "scores.json"
        start = time.perf_counter()
        training = f"--env {env} --total-steps {steps} --seed {seed} {OURS[env]}"
        call(f"train-async --run-dir {run} {training}")
        seconds = time.perf_counter() - start
        evaluation = f"--which latest --episodes 50 --seed {10_000 + seed}"
        call(f"evaluate {run} --json {scores} {evaluation}")
        return {"return": json.loads(scores.read_text())["mean"], "seconds": seconds}


def call(command: str) -> None:
    words = [sys.executable, "-m", "workflow_rl", *command.split(), "--quiet"]
    subprocess.run(words, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def comparison_table(rows: list[dict[str, Any]], budget: int | None = None) -> PrettyTable:
    """Return a line for each environment: mean and standard error of returns, median seconds.

    budget: env steps of the runs that count, instead of STEPS.
    """
    lines = []
    for env in STEPS:
        steps = budget or STEPS[env]
        returns, seconds = [], []
        for trainer in TRAINERS:
            key = {"env": env, "steps": steps, "trainer": trainer}
            own = [row for row in rows if key.items() <= row.items()]
            returns.append([row["return"] for row in own])
            timed = [row["seconds"] for row in own if row["seconds"] is not None]
            seconds.append(statistics.median(timed or [math.nan]))
        if all(returns):
            seeds = "/".join(str(len(own)) for own in returns)
            means = map(mean_and_error, returns)
            speeds = (f"{seconds[0]:.0f}", f"{seconds[1]:.0f}", f"{seconds[0] / seconds[1]:.2f}")
            lines.append([env, f"{steps:,}", seeds, *means, *speeds])
    headings = ["environment", "steps", "seeds", "SB3 return", "our return", "SB3 seconds"]
    return text_table([*headings, "our seconds", "x as fast"], lines)


def mean_and_error(returns: list[float]) -> str:
    mean = statistics.mean(returns)
    if len(returns) == 1:
        return f"{mean:.1f}"
    return f"{mean:.1f} ± {statistics.stdev(returns) / len(returns) ** 0.5:.1f}"


@click.command(help=__doc__, context_settings={"show_default": True})
@click.option("--env", "envs", type=click.Choice(list(STEPS)), multiple=True, default=list(STEPS))
@click.option("--seeds", type=click.IntRange(1), default=3, help="Runs of each.")
@click.option("--steps", type=click.IntRange(1), help="Fewer steps, to try it.", show_default="all")
@click.option("--json", "path", type=click.Path(path_type=Path), required=True, metavar="FILE")
def main(envs: tuple[str, ...], seeds: int, steps: int | None, path: Path) -> None:
    rows: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
    for seed in range(seeds):
        for env in envs:
            for trainer, train in zip(TRAINERS, (train_theirs, train_ours), strict=True):
                budget = steps or STEPS[env]
                key = {"env": env, "steps": budget, "trainer": trainer, "seed": seed}
                if any(key.items() <= row.items() for row in rows):
                    continue
                rows.append({**key, **train(env, budget, seed)})
                click.echo(rows[-1])
                write_text(path, json.dumps(rows, indent=1) + "\n")
    click.echo(comparison_table(rows, steps))
    click.echo(machine_name())


if __name__ == "__main__":
    main()
