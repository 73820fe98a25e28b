"""A project with Stable-Baselines3, for comparison with the commands of this package.

python examples/sb3_project.py
"""

from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

env = VecNormalize(make_vec_env("CartPole-v1", n_envs=8, seed=0))
test_env = VecNormalize(make_vec_env("CartPole-v1", seed=1), training=False, norm_reward=False)
watch = EvalCallback(test_env, n_eval_episodes=5, eval_freq=1280, best_model_save_path="best")
model = PPO(
    "MlpPolicy",
    env,
    n_steps=256,
    batch_size=256,
    learning_rate=lambda left: 0.001 * left,
    policy_kwargs={"net_arch": [64, 64]},
    seed=0,
    device="cpu",
)
model.learn(total_timesteps=30_000, callback=watch)
model.save("cart_pole.zip")
env.save("cart_pole.pkl")
