"""PPO against B_line in one file, as CleanRL writes it: Gymnasium's vector env and torch.

Usage: [STEPS=300000] [SEED=0] python examples/cleanrl_ppo.py
"""

import os
import time

import gymnasium
import torch
from torch import nn
from torch.distributions import Categorical

STEPS, SEED = int(os.environ.get("STEPS", 300_000)), int(os.environ.get("SEED", 0))
ENV, N_ENVS, N_STEPS = "workflow_rl:workflow_rl/CAGE2-v0", 100, 20
GAMMA, LAMBDA, CLIP = 0.99, 0.95, 0.2
torch.set_num_threads(1)  # Networks of this size gain nothing from more.
torch.manual_seed(SEED)
envs = gymnasium.make_vec(ENV, N_ENVS, red_agent="B_lineAgent", autoreset_mode="SameStep")
actor, critic = (
    nn.Sequential(nn.Linear(52, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, n))
    for n in (145, 1)
)
optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=1e-3)
obs = torch.zeros(N_STEPS + 1, N_ENVS, 52)
actions, log_probs, rewards, dones = torch.zeros(4, N_STEPS, N_ENVS)
start = time.perf_counter()
obs[-1] = torch.from_numpy(envs.reset(seed=SEED)[0])
for _ in range(-(-STEPS // (N_ENVS * N_STEPS))):
    with torch.no_grad():
        obs[0] = obs[-1]
        for t in range(N_STEPS):
            policy = Categorical(logits=actor(obs[t]))
            actions[t] = action = policy.sample()
            log_probs[t] = policy.log_prob(action)
            stepped, reward, _, truncated, infos = envs.step(action.numpy())
            obs[t + 1], rewards[t], dones[t] = map(torch.from_numpy, (stepped, reward, truncated))
            if truncated.any():  # What would have followed counts too.
                last = torch.stack([*map(torch.from_numpy, infos["final_obs"][truncated])])
                rewards[t, truncated] += GAMMA * critic(last)[:, 0]
        values, advantages, advantage = critic(obs)[..., 0], torch.zeros_like(rewards), 0
        for t in reversed(range(N_STEPS)):
            delta = rewards[t] + GAMMA * values[t + 1] * (1 - dones[t]) - values[t]
            advantages[t] = advantage = delta + GAMMA * LAMBDA * (1 - dones[t]) * advantage
    rollout = (obs[:-1], actions, log_probs, advantages, advantages + values[:-1])
    for batch in torch.stack([torch.randperm(N_ENVS * N_STEPS) for _ in range(4)]).view(-1, 500):
        seen, action, log_prob, advantage, return_ = (x.flatten(0, 1)[batch] for x in rollout)
        ratio = (Categorical(logits=actor(seen)).log_prob(action) - log_prob).exp()
        advantage = (advantage - advantage.mean()) / advantage.std()
        gain = torch.min(ratio * advantage, ratio.clamp(1 - CLIP, 1 + CLIP) * advantage).mean()
        optimizer.zero_grad()
        ((critic(seen)[:, 0] - return_).square().mean() / 2 - gain).backward()
        nn.utils.clip_grad_norm_([*actor.parameters(), *critic.parameters()], 0.5)
        optimizer.step()
seconds = time.perf_counter() - start
mean, (seen, _) = 0.0, envs.reset(seed=10**6)
for _ in range(100):
    seen, reward, *_ = envs.step(actor(torch.from_numpy(seen)).argmax(-1).numpy())
    mean += reward.mean()
print(f"{STEPS} steps in {seconds:.0f} s; return {mean:.1f}")
