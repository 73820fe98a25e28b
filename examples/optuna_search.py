"""Optuna tunes this package's own PPO against B_line, on equal shares of the steps.

Usage: [STEPS=600000] [SEED=0] python examples/optuna_search.py
"""

import os
import tempfile
import time
from pathlib import Path

# Before NumPy, which it holds to kernels that all processors have.
from workflow_rl import TrainConfig, evaluate, train  # isort: skip
import optuna

STEPS, SEED = int(os.environ.get("STEPS", 600_000)), int(os.environ.get("SEED", 0))
N_TRIALS = 6


def search(folder: Path) -> None:
    def objective(trial: optuna.Trial) -> float:
        config = TrainConfig(
            "async",
            env_args={"simulator": "compiled", "red_agent": "B_lineAgent"},
            n_envs=24,
            total_steps=max(1, STEPS // N_TRIALS),
            seed=SEED,
            settings={
                "learning_rate": trial.suggest_float("learning_rate", 1e-3, 1e-2, log=True),
                "entropy_coef": trial.suggest_float("entropy_coef", 1e-4, 1e-2, log=True),
            },
        )
        return evaluate(train(config, folder / str(trial.number)), episodes=50, seed=SEED + 1).mean

    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=SEED))
    start = time.perf_counter()
    study.optimize(objective, n_trials=N_TRIALS)
    seconds = time.perf_counter() - start
    mean = evaluate(folder / str(study.best_trial.number), episodes=100, seed=10**6).mean
    print(f"{STEPS} steps in {seconds:.0f} s; return {mean:.1f}")


if __name__ == "__main__":  # The workers import this file.
    with tempfile.TemporaryDirectory() as folder:
        search(Path(folder))
