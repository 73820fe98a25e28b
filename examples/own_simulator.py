"""Trains on a simulator of one's own that steps many environments in one call.

    python examples/own_simulator.py

The command line trains on it too:

    cd examples
    python -m workflow_rl train-async --env own_simulator:Corridors --env-arg length=20 \
      --total-steps 100000 --run-dir ../runs/corridors
"""

from workflow_rl.environments import BatchedEnv  # isort: skip (before NumPy: see `portable`)

import gymnasium
import numpy as np

MOST_STEPS = 60


class Corridors(BatchedEnv):
    """Walk to the right end of a corridor from a random place. The floor slips: one step in ten
    goes the wrong way. Every step costs 0.1, and arriving pays 1."""

    def __init__(self, n_envs, length=10):
        self.observation_space = gymnasium.spaces.Box(0, 1, (2,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)
        self.length = length
        self.place = np.zeros(n_envs, np.int64)
        self.steps = np.zeros(n_envs, np.int64)
        self.slips = np.zeros((n_envs, MOST_STEPS), bool)

    def reset(self, indices, seeds):
        for i, seed in zip(indices, seeds, strict=True):
            # All that is random in an episode follows from its seed.
            random = np.random.default_rng(seed)
            self.place[i] = random.integers(self.length)
            self.slips[i] = random.random(MOST_STEPS) < 0.1
        self.steps[indices] = 0
        return self.seen(indices)

    def step(self, indices, actions):
        slipped = self.slips[indices, self.steps[indices]]
        change = np.where((actions == 1) ^ slipped, 1, -1)
        self.place[indices] = np.clip(self.place[indices] + change, 0, self.length)
        self.steps[indices] += 1
        arrived = self.place[indices] == self.length
        is_late = ~arrived & (self.steps[indices] == MOST_STEPS)
        return self.seen(indices), np.where(arrived, 1.0, -0.1), arrived, is_late

    def seen(self, indices):
        place, steps = self.place[indices] / self.length, self.steps[indices] / MOST_STEPS
        return np.stack([place, steps], axis=1).astype(np.float32)


if __name__ == "__main__":
    from workflow_rl import TrainConfig, evaluate, train  # Here: workers need no PyTorch.

    config = TrainConfig("async", n_envs=64, total_steps=40_000)
    run = train(config, env=Corridors)
    print(f"{run}: mean return {evaluate(run, env=Corridors).mean:.2f}")
