"""Looking one step ahead with copies of the environment: forks play out what each action leads to.

Every action that can do any good is tried in 30 forks of the env, with other luck in each, which go
on for 12 steps with a simple rule; the action with the best mean is then made. The forks know where
Red is, as no agent of the challenge may: this measures what planning with a perfect model is worth.

    python examples/lookahead.py [EPISODES]
"""

import sys

import gymnasium
import numpy as np

N_FORKS, DEPTH = 30, 12
FIRST_RESTORE = 132


def react(suspicious_hosts):
    """Restore the first host on which a process was caught, if any: bool [N, 13] to actions [N]."""
    caught = suspicious_hosts.any(axis=1)
    return np.where(caught, FIRST_RESTORE + suspicious_hosts.argmax(axis=1), 0)


def look_ahead(env, seed):
    """The action whose forks do best, followed by `react`."""
    actions = np.flatnonzero(env.action_masks())
    forks = env.fork(len(actions) * N_FORKS, seed)
    _, returns, _, truncated, infos = forks.step(actions.repeat(N_FORKS))
    for _ in range(DEPTH - 1):
        if truncated.any():
            break
        _, rewards, _, truncated, infos = forks.step(react(infos["suspicious_hosts"]))
        returns = returns + rewards
    return actions[returns.reshape(len(actions), N_FORKS).mean(axis=1).argmax()]


def play(agent, seed):
    """The return of an episode in which `agent(env, info, step)` acts."""
    made = gymnasium.make("workflow_rl:workflow_rl/CAGE2-v0", simulator="compiled", max_steps=30)
    env = made.unwrapped
    _, info = env.reset(seed=seed)
    episode_return, truncated, step = 0.0, False, 0
    while not truncated:
        _, reward, _, truncated, info = env.step(agent(env, info, step))
        episode_return, step = episode_return + reward, step + 1
    return episode_return


n_episodes = int(sys.argv[1]) if len(sys.argv) > 1 else 20
for name, agent in {
    "the rule alone": lambda env, info, step: react(info["suspicious_hosts"][None])[0],
    "with a step of lookahead": lambda env, info, step: look_ahead(env, seed=10_000 * step),
}.items():
    returns = [play(agent, seed) for seed in range(n_episodes)]
    print(f"{name}: {np.mean(returns):.1f} over {n_episodes} episodes of 30 steps")
