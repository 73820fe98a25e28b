"""The Python interface: train, load an agent, evaluate it, in a few lines each.

from workflow_rl import TrainConfig, evaluate, load_agent, train

train(TrainConfig("async", env="CartPole-v1", total_steps=50_000), "runs/cart-pole")
print(evaluate("runs/cart-pole", episodes=100).mean)
action = load_agent("runs/cart-pole").act(observation)
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium

from agents.ppo.config import PPOConfig as PPOConfig
from workflow_rl.commands.train import warn_if_results_vary
from workflow_rl.runs import loop
from workflow_rl.runs.best_agent import choose_best
from workflow_rl.runs.checkpoint import load_checkpoint
from workflow_rl.runs.config import ConfigError
from workflow_rl.runs.config import TrainConfig as TrainConfig
from workflow_rl.runs.evaluation import Evaluation, evaluate_policy
from workflow_rl.runs.folder import make_run_folder
from workflow_rl.runs.learner import usable_device
from workflow_rl.runs.saved_agent import load_agent as load_agent
from workflow_rl.runs.saved_agent import load_player, saved_path
from workflow_rl.runs.trust import trusted_config

PathLike = str | os.PathLike[str]
MakeEnv = Callable[..., gymnasium.Env[Any, Any]]


def train(
    config: TrainConfig,
    run_dir: PathLike | None = None,
    *,
    env: MakeEnv | None = None,
    resume: bool = False,
    init_from: PathLike | None = None,
    quiet: bool = True,
    trust: bool = False,
) -> Path:
    """Train an agent, from any thread, and return the run's folder.

    Leaves torch deterministic, with as many threads as config.learner_threads asks for. Import
    workflow_rl before NumPy and torch: it is then that they are held to the kernels that all
    processors have, see `portable`.

    Args:
        config: what is trained, how, and for how long.
        run_dir: where the run is kept, a new or empty folder; None: one in `runs`.
        env: a function that makes the environment, called with config.env_args, instead of the one
            that config.env names, which is then only its name; it is sent to the workers by
            cloudpickle.
        resume: go on with the run in run_dir, past its end if the config's is later.
        init_from: a run or checkpoint whose agent it begins with; not with resume.
        quiet: show no progress bar.
        trust: import and call the environment, and join the cluster, that only a file names, if
            the config is from a file.

    Raises:
        ConfigError: a setting makes no sense here.
        RunDirError: run_dir cannot be used.
        CheckpointError: what it should go on or begin with cannot be used.
        DivergedError: a batch could not be learned from; the last checkpoint is kept.
        NotWrittenError: the run cannot be written; the last checkpoint is kept.
        TooManyFailuresError: workers failed too often; a checkpoint has been saved.
        NotFiniteError: an environment gave a number that is not finite; a checkpoint has been
            saved.
    """
    if resume and init_from is not None:
        raise ConfigError(
            "init_from", f"{init_from} does not go with resume: a run goes on with its own agent"
        )
    config = config if env is None else config.with_env(env)
    config = trusted_config(config, trust, names_cluster=trust)
    config = dataclasses.replace(config, device=usable_device(config.device))
    begin_with = None if init_from is None else load_checkpoint(saved_path(Path(init_from)))
    resumed = None
    if resume:
        if run_dir is None:
            raise ConfigError("run_dir", "None: give the folder of the run to resume")
        resumed = load_checkpoint(Path(run_dir) / "checkpoint.pt")
        config.require_same_run(resumed.config)
    warn_if_results_vary(config)
    path = Path(run_dir or make_run_folder(config.mode, config.environment.label))
    summary = loop.train(config, path, resumed, begin_with, quiet)
    choose_best(path, config, summary, quiet)
    return path


def evaluate(
    run: PathLike,
    episodes: int = 100,
    *,
    env: MakeEnv | None = None,
    seed: int = 0,
    greedy: bool = True,
    n_workers: int | None = None,
    trust: bool = False,
) -> Evaluation:
    """Play so many seeded episodes with the agent of a run or checkpoint, on its environment.

    Args:
        run: a run's folder, a checkpoint or policy file, or a released agent's name.
        episodes: how many.
        env: the function that makes the environment, if it was given to `train`.
        seed: the same gives the same returns, whatever the number of workers.
        greedy: choose the likeliest actions, or else sample them as in training.
        n_workers: processes; None: one a core.
        trust: import and call the environment that the run's files name.

    Raises:
        CheckpointError: there is no agent in `run` that can be used.
        InvalidEnvironmentError: its environment cannot be made.
        ValueError: fewer episodes than 1, or a negative seed.
        TooManyFailuresError: workers failed too often, or an episode cannot be played or scored: a
            score is of all the episodes.
    """
    policy, environment = load_player(Path(run), None, greedy, env, trust)
    environment.spaces()  # Raises what is wrong with it in one line.
    return evaluate_policy(policy, environment, episodes, seed, n_workers)
