"""The loop of CleanRL's ppo.py: one file, Gymnasium's asynchronous or synchronous vector env."""

from __future__ import annotations

import gymnasium
import task
import torch
from torch import nn
from torch.distributions import Categorical


def network(n_outputs: int) -> nn.Sequential:
    first, second = task.HIDDEN
    hidden = (nn.Linear(52, first), nn.Tanh(), nn.Linear(first, second), nn.Tanh())
    return nn.Sequential(*hidden, nn.Linear(second, n_outputs))


def main() -> None:
    torch.set_num_threads(1)  # Networks of this size gain nothing from more.
    torch.manual_seed(0)
    # As CleanRL's programs have it: the episode that follows begins within the step.
    mode = gymnasium.vector.AutoresetMode.SAME_STEP
    vector = (
        gymnasium.vector.SyncVectorEnv if task.is_in_process() else gymnasium.vector.AsyncVectorEnv
    )
    envs = vector([task.chosen_env()] * task.N_ENVS, autoreset_mode=mode)
    actor, critic = network(145), network(1)
    parameters = [*actor.parameters(), *critic.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=task.LEARNING_RATE, eps=1e-5)
    obs = torch.zeros(task.N_STEPS + 1, task.N_ENVS, 52)
    actions, log_probs, rewards, dones = torch.zeros(4, task.N_STEPS, task.N_ENVS)
    obs[-1] = torch.from_numpy(envs.reset(seed=0)[0])
    while True:
        with torch.no_grad():
            obs[0] = obs[-1]
            for t in range(task.N_STEPS):
                policy = Categorical(logits=actor(obs[t]))
                actions[t] = action = policy.sample()
                log_probs[t] = policy.log_prob(action)
                stepped, reward, _, truncated, infos = envs.step(action.numpy())
                obs[t + 1], rewards[t], dones[t] = map(
                    torch.from_numpy, (stepped, reward, truncated)
                )
                if truncated.any():  # What would have followed counts too.
                    last = torch.stack([*map(torch.from_numpy, infos["final_obs"][truncated])])
                    rewards[t, truncated] += task.GAMMA * critic(last)[:, 0]
            values, advantages = critic(obs)[..., 0], torch.zeros_like(rewards)
            advantage = torch.zeros(task.N_ENVS)
            for t in reversed(range(task.N_STEPS)):
                delta = rewards[t] + task.GAMMA * values[t + 1] * (1 - dones[t]) - values[t]
                advantages[t] = advantage = (
                    delta + task.GAMMA * task.LAMBDA * (1 - dones[t]) * advantage
                )
        rollout = (obs[:-1], actions, log_probs, advantages, advantages + values[:-1])
        orders = [torch.randperm(task.N_ENVS * task.N_STEPS) for _ in range(task.EPOCHS)]
        for batch in torch.stack(orders).view(-1, task.MINIBATCH):
            seen, action, log_prob, advantage, return_ = (x.flatten(0, 1)[batch] for x in rollout)
            policy = Categorical(logits=actor(seen))
            ratio = (policy.log_prob(action) - log_prob).exp()
            advantage = (advantage - advantage.mean()) / advantage.std()
            clipped = ratio.clamp(1 - task.CLIP, 1 + task.CLIP) * advantage
            gain = torch.min(ratio * advantage, clipped).mean()
            gain = gain + task.ENTROPY_COEF * policy.entropy().mean()
            loss = task.VALUE_COEF * (critic(seen)[:, 0] - return_).square().mean() - gain
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, task.MAX_GRAD_NORM)
            optimizer.step()


if __name__ == "__main__":
    main()
