"""Sample Factory's asynchronous PPO: a process for each core steps envs, one chooses, one learns.

Its own: a probability ratio is clipped to [1 / (1 + CLIP), 1 + CLIP], and what follows an episode
cut at its end is taken to be worth what its last observation seen was. Up to two batches wait
while it trains, so that what it trains on is from older weights than PPO's elsewhere.
"""

import os
import sys
import tempfile
from typing import Any

import gymnasium
import task
from sample_factory.cfg.arguments import parse_full_cfg, parse_sf_args
from sample_factory.envs.env_utils import register_env
from sample_factory.train import run_rl

N_WORKERS = min(task.N_CORES, task.N_ENVS)
N_ENVS_EACH = task.N_ENVS // N_WORKERS


def make_chosen(name: str, cfg: Any, env_config: Any, render_mode: Any) -> gymnasium.Env[Any, Any]:
    return task.chosen_env()()


if __name__ == "__main__":  # Its processes import this file.
    register_env("CAGE2", make_chosen)
    settings = {
        "env": "CAGE2",
        # It is killed: that folder's owner removes this too.
        "train_dir": tempfile.mkdtemp(dir=os.environ[task.LOG_FOLDER]),
        "device": "cpu",
        "train_for_env_steps": task.FOREVER,
        "num_workers": N_WORKERS,
        "num_envs_per_worker": N_ENVS_EACH,
        # One half is stepped while actions are chosen for the other.
        "worker_num_splits": 1 if N_ENVS_EACH % 2 else 2,
        # Would play random episodes first, which train nothing but would be noted.
        "decorrelate_envs_on_one_worker": False,
        "rollout": task.N_STEPS,
        "batch_size": task.MINIBATCH,
        "num_batches_per_epoch": task.N_ENVS * task.N_STEPS // task.MINIBATCH,
        "num_epochs": task.EPOCHS,
        "shuffle_minibatches": True,  # Otherwise each is two envs' steps.
        "learning_rate": task.LEARNING_RATE,
        "gamma": task.GAMMA,
        "gae_lambda": task.LAMBDA,
        "value_bootstrap": True,  # Episodes are cut, not terminated.
        "ppo_clip_ratio": task.CLIP,
        "ppo_clip_value": task.FOREVER,  # No limit.
        "value_loss_coeff": task.VALUE_COEF,
        "exploration_loss_coeff": task.ENTROPY_COEF,
        "max_grad_norm": task.MAX_GRAD_NORM,
        "use_rnn": False,
        "actor_critic_share_weights": False,
        "nonlinearity": "tanh",
        "normalize_input": False,
        "normalize_returns": False,
    }
    args = [f"--{name}={value}" for name, value in settings.items()]
    args += ["--encoder_mlp_layers", *map(str, task.HIDDEN)]
    sys.exit(run_rl(parse_full_cfg(parse_sf_args(args)[0], args)))
