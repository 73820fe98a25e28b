"""The loop of CleanRL's ppo.py: one file, Gymnasium's asynchronous or synchronous vector env."""

from __future__ import annotations

import gymnasium
import torch
from task import (
    CLIP,
    ENTROPY_COEF,
    EPOCHS,
    GAMMA,
    HIDDEN,
    LAMBDA,
    LEARNING_RATE,
    MAX_GRAD_NORM,
    MINIBATCH,
    N_ENVS,
    N_STEPS,
    VALUE_COEF,
    chosen_env,
    is_in_process,
)
from torch import nn
from torch.distributions import Categorical


def network(n_outputs: int) -> nn.Sequential:
    first, second = HIDDEN
    hidden = (nn.Linear(52, first), nn.Tanh(), nn.Linear(first, second), nn.Tanh())
    return nn.Sequential(*hidden, nn.Linear(second, n_outputs))


def main() -> None:
    torch.set_num_threads(1)  # Networks of this size gain nothing from more.
    torch.manual_seed(0)
    # As CleanRL's programs have it: the episode that follows begins within the step.
    mode = gymnasium.vector.AutoresetMode.SAME_STEP
    vector = gymnasium.vector.SyncVectorEnv if is_in_process() else gymnasium.vector.AsyncVectorEnv
    envs = vector([chosen_env()] * N_ENVS, autoreset_mode=mode)
    actor, critic = network(145), network(1)
    parameters = [*actor.parameters(), *critic.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=LEARNING_RATE, eps=1e-5)
    obs = torch.zeros(N_STEPS + 1, N_ENVS, 52)
    actions, log_probs, rewards, dones = torch.zeros(4, N_STEPS, N_ENVS)
    obs[-1] = torch.from_numpy(envs.reset(seed=0)[0])
    while True:
        with torch.no_grad():
            obs[0] = obs[-1]
            for t in range(N_STEPS):
                policy = Categorical(logits=actor(obs[t]))
                actions[t] = action = policy.sample()
                log_probs[t] = policy.log_prob(action)
                stepped, reward, _, truncated, infos = envs.step(action.numpy())
                obs[t + 1], rewards[t], dones[t] = map(
                    torch.from_numpy, (stepped, reward, truncated)
                )
                if truncated.any():  # What would have followed counts too.
                    last = torch.stack([*map(torch.from_numpy, infos["final_obs"][truncated])])
                    rewards[t, truncated] += GAMMA * critic(last)[:, 0]
            values, advantages = critic(obs)[..., 0], torch.zeros_like(rewards)
            advantage = torch.zeros(N_ENVS)
            for t in reversed(range(N_STEPS)):
                delta = rewards[t] + GAMMA * values[t + 1] * (1 - dones[t]) - values[t]
                advantages[t] = advantage = delta + GAMMA * LAMBDA * (1 - dones[t]) * advantage
        rollout = (obs[:-1], actions, log_probs, advantages, advantages + values[:-1])
        orders = [torch.randperm(N_ENVS * N_STEPS) for _ in range(EPOCHS)]
        for batch in torch.stack(orders).view(-1, MINIBATCH):
            seen, action, log_prob, advantage, return_ = (x.flatten(0, 1)[batch] for x in rollout)
            policy = Categorical(logits=actor(seen))
            ratio = (policy.log_prob(action) - log_prob).exp()
            advantage = (advantage - advantage.mean()) / advantage.std()
            clipped = ratio.clamp(1 - CLIP, 1 + CLIP) * advantage
            gain = torch.min(ratio * advantage, clipped).mean()
            gain = gain + ENTROPY_COEF * policy.entropy().mean()
            loss = VALUE_COEF * (critic(seen)[:, 0] - return_).square().mean() - gain
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, MAX_GRAD_NORM)
            optimizer.step()


if __name__ == "__main__":
    main()
