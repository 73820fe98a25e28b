"""What is compared: on which environment, for how many steps, and with which settings.

The settings of Stable-Baselines3's PPO and SAC are the published ones of RL Baselines3 Zoo 2.9.2
(MIT licence; those of Hopper-v4 and HalfCheetah-v4, for v5 has none). RecurrentPPO has this
package's networks, discount, lambda, clip range, learning rates, epochs, weight of the entropy,
normalisation, and numbers of environments. Its rollouts and minibatches have about as many steps as
this package's. BenchMARL's MAPPO has this package's networks, discount, lambda, rollouts and number
of environments.
"""

from __future__ import annotations

import ast
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from tests.recall_env import RecallEnv

EPISODES = 100
"""Of a score."""
CYCLES = 25
"""Steps of an episode of MPE."""


class Task(NamedTuple):
    """steps: of the environment. ours: options of `train-async`. peer: the class of
    Stable-Baselines3 or sb3-contrib, or MAPPO of BenchMARL. theirs: its settings; `n_envs` and
    `normalize` are of the environments; lin_X falls from X to 0 in the run.
    """

    env: str
    steps: int
    ours: str
    peer: str
    theirs: str

    def settings(self) -> dict[str, Any]:
        """Return the peer's settings as values."""
        settings: dict[str, Any] = {}
        for name, _, text in (setting.partition("=") for setting in self.theirs.split()):
            value = ast.literal_eval(text.removeprefix("lin_"))
            is_linear = text.startswith("lin_")
            settings[name] = (lambda rest, start=value: start * rest) if is_linear else value
        return settings


WIDE = (
    "policy_kwargs={'log_std_init':-2,'ortho_init':False,'activation':'ReLU','net_arch':[256,256]}"
)
HOPPER = "--num-steps-per-env 256 --learning-rate 6e-4 --minibatch-size 128"
EQUAL = "n_envs=8 normalize=True n_steps=256 batch_size=128 gamma=0.99 learning_rate=lin_6e-4"
"""HOPPER for Stable-Baselines3. All other settings are both libraries' defaults."""
SOFT = "--preset sac-control"
OFF_POLICY = "n_envs=1 normalize=False learning_starts=10000"
MEMORY = "--network gru --n-envs 16 --learning-rate 3e-3"
RECURRENT = (
    "n_envs=16 normalize=True learning_rate=lin_3e-3 "
    "policy_kwargs={'net_arch':[64],'lstm_hidden_size':64}"
)
TEAM = (
    "--critic central --n-envs 10 --episodes-per-update 100 --minibatch-size 750 --epochs 10 "
    "--learning-rate 1e-3 --learning-rate-final 1e-3 --gae-lambda 0.9"
)
MAPPO = (
    "lr=7e-4 on_policy_n_envs_per_worker=10 on_policy_collected_frames_per_batch=2500 "
    "on_policy_minibatch_size=500 on_policy_n_minibatch_iters=15"
)
"""The best of three settings of learning rate, minibatch size and epochs on simple_spread."""
TASKS = {
    "CartPole": Task(
        "CartPole-v1",
        100_000,
        "--num-steps-per-env 256",
        "PPO",
        "n_envs=8 normalize=False n_steps=32 batch_size=256 gae_lambda=0.8 gamma=0.98 n_epochs=20 "
        "ent_coef=0.0 learning_rate=lin_0.001 clip_range=lin_0.2",
    ),
    "Acrobot": Task(
        "Acrobot-v1",
        1_000_000,
        "--n-envs 16 --num-steps-per-env 256 --learning-rate 7e-4 --minibatch-size 128 --epochs 6 "
        "--gae-lambda 0.94",
        "PPO",
        "n_envs=16 normalize=True n_steps=256 gae_lambda=0.94 gamma=0.99 n_epochs=4 ent_coef=0.0",
    ),
    "LunarLander": Task(
        "LunarLander-v3",
        1_000_000,
        "--n-envs 16 --num-steps-per-env 256 --minibatch-size 512 --epochs 6 --discount 0.999 "
        "--gae-lambda 0.98 --entropy-coef 0.01",
        "PPO",
        "n_envs=16 normalize=False n_steps=1024 batch_size=64 gae_lambda=0.98 gamma=0.999 "
        "n_epochs=4 ent_coef=0.01",
    ),
    "Hopper": Task(
        "Hopper-v5",
        300_000,
        HOPPER,
        "PPO",
        "n_envs=1 normalize=True n_steps=512 batch_size=32 gamma=0.999 learning_rate=9.80828e-05 "
        "ent_coef=0.00229519 clip_range=0.2 n_epochs=5 gae_lambda=0.99 max_grad_norm=0.7 "
        f"vf_coef=0.835671 {WIDE}",
    ),
    "Hopper, equal settings": Task("Hopper-v5", 300_000, HOPPER, "PPO", EQUAL),
    "HalfCheetah": Task(
        "HalfCheetah-v5",
        300_000,
        "--n-envs 4 --num-steps-per-env 128 --steps-per-update 512 --hidden-sizes 256,256 "
        "--activation relu --log-std-init -2 --learning-rate 2e-4 --epochs 15 --clip-range 0.1 "
        "--discount 0.98 --gae-lambda 0.92 --entropy-coef 0.0004 --max-grad-norm 0.8",
        "PPO",
        "n_envs=1 normalize=True n_steps=512 batch_size=64 gamma=0.98 learning_rate=2.0633e-05 "
        "ent_coef=0.000401762 clip_range=0.1 n_epochs=20 gae_lambda=0.92 max_grad_norm=0.8 "
        f"vf_coef=0.58096 {WIDE}",
    ),
    "Hopper, sac": Task("Hopper-v5", 100_000, f"{SOFT} --target-entropy -0.33", "SAC", OFF_POLICY),
    "HalfCheetah, sac": Task("HalfCheetah-v5", 100_000, SOFT, "SAC", OFF_POLICY),
    "recall 30": Task(
        "tasks:recall_30",
        60_000,
        f"{MEMORY} --episodes-per-update 32 --minibatch-size 500 --epochs 4",
        "RecurrentPPO",
        f"{RECURRENT} gamma=0.99 n_steps=64 batch_size=512 n_epochs=4",
    ),
    "recall 100": Task(
        "tasks:recall_100",
        300_000,
        f"{MEMORY} --episodes-per-update 32 --minibatch-size 1500 --epochs 4",
        "RecurrentPPO",
        f"{RECURRENT} gamma=0.99 n_steps=200 batch_size=1600 n_epochs=4",
    ),
    "repeat the fourth last": Task(
        "tasks:repeat_previous",
        100_000,
        f"{MEMORY} --episodes-per-update 32 --minibatch-size 400 --epochs 10 --discount 0.5",
        "RecurrentPPO",
        f"{RECURRENT} n_steps=100 batch_size=400 n_epochs=10 gamma=0.5",
    ),
    "CartPole without velocities": Task(
        "tasks:cartpole_positions",
        60_000,
        f"{MEMORY} --episodes-per-update 16 --minibatch-size 1024 --epochs 6",
        "RecurrentPPO",
        f"{RECURRENT} gamma=0.99 n_steps=200 batch_size=1024 n_epochs=6",
    ),
    "simple_spread": Task(
        "tasks:simple_spread",
        120_000,
        TEAM,
        "MAPPO",
        MAPPO,
    ),
    "simple_speaker_listener": Task(
        "tasks:simple_speaker_listener",
        120_000,
        TEAM,
        "MAPPO",
        MAPPO,
    ),
}
"""By the name that the table shows."""


def recall_30() -> gymnasium.Env[Any, Any]:
    """Return an environment whose cue must be named 30 steps later. A hit gives 1, chance 0.25."""
    return RecallEnv(30, 4)


def recall_100() -> gymnasium.Env[Any, Any]:
    """As `recall_30`, 100 steps later."""
    return RecallEnv(100, 4)


def repeat_previous() -> gymnasium.Env[Any, Any]:
    """Return POPGym's task of naming the card shown four steps before, from -1 to 1.

    Observations are one-hot numbers: Stable-Baselines3 normalises no categories, and would cut
    normalised integers.
    """
    from popgym.envs.repeat_previous import RepeatPreviousEasy

    one_hot = gymnasium.wrappers.FlattenObservation(RepeatPreviousEasy())
    return gymnasium.wrappers.DtypeObservation(one_hot, np.float32)


def cartpole_positions() -> gymnasium.Env[Any, Any]:
    """Return POPGym's CartPole of 200 steps, from 0 to 1, that shows no velocities."""
    from popgym.envs.position_only_cartpole import PositionOnlyCartPoleEasy

    return PositionOnlyCartPoleEasy()


def simple_spread() -> Any:
    """Return MPE's three agents that cover three landmarks and must not collide."""
    from mpe2 import simple_spread_v3

    return simple_spread_v3.parallel_env(max_cycles=CYCLES)


def simple_speaker_listener() -> Any:
    """Return MPE's agent that knows the goal and another one that must go there."""
    from mpe2 import simple_speaker_listener_v4

    return simple_speaker_listener_v4.parallel_env(max_cycles=CYCLES)
