"""Plays each side of tic-tac-toe against a random player.

python -m workflow_rl train-async --env pettingzoo.classic.tictactoe_v3:env \
  --total-episodes 6000 --run-dir runs/tic-tac-toe
python examples/against_random.py runs/tic-tac-toe [EPISODES]
"""

from workflow_rl import load_agent  # isort: skip (before NumPy)

import sys

import numpy as np
from pettingzoo.classic import tictactoe_v3

run, episodes = sys.argv[1], int(sys.argv[2])
env, team = tictactoe_v3.env(), load_agent(run, env=tictactoe_v3.env)
for side in env.possible_agents:
    results = []
    for episode in range(episodes):
        random = np.random.default_rng([episode, 1])
        env.reset()
        for agent in env.agent_iter():
            obs, reward, terminated, truncated, _ = env.last()
            if terminated or truncated:
                results += [reward] if agent == side else []
                env.step(None)
            elif agent == side:
                env.step(team.act({agent: obs})[agent])
            else:
                env.step(random.choice(np.flatnonzero(obs["action_mask"])))
    print(side, np.mean(results), "±", 1.96 * np.std(results) / np.sqrt(episodes))
