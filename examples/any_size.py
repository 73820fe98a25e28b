"""Trains on random networks of 13 hosts. The same weights then defend 9 and 20 hosts.

    python examples/any_size.py [HOSTS] [SEED]

The command line trains on these networks too:

    python -m workflow_rl train-async --env examples.any_size:RandomNetwork --network entities \
      --total-steps 160000 --run-dir runs/any-size
"""

from workflow_rl import TrainConfig, evaluate, train  # isort: skip (before NumPy: see `portable`)

import os
import sys

import gymnasium
import numpy as np

STEPS = int(os.environ.get("STEPS", 160_000))
N_EPISODES = max(2, STEPS * 300 // 160_000)
FEATURES, VERBS = 4, 2
RESTORE, HARDEN = range(VERBS)


class RandomNetwork(gymnasium.Env):
    """Defend a random tree of hosts, through which an attacker spreads from host 0.

    A host is shown by what it is worth, how many links it has, its alerts, which fade, and whether
    it is hardened. Alerts miss one attack in five. Restoring a host cleans it and costs 0.3.
    Hardening makes most attacks fail, until the host is restored, and costs 0.1. Each compromised
    host costs its worth in every step.

    most: the rows that are shown; the rows of hosts that do not exist are zeros.
    """

    def __init__(self, hosts=13, most=None, steps=50):
        self.hosts, self.most, self.steps = hosts, most or hosts, steps
        rows = 1 + np.arange(self.most * (1 + FEATURES)).reshape(self.most, 1 + FEATURES)
        verbs = [(verb, host) for verb in range(VERBS) for host in range(self.most)]
        self.entities = {
            "present": rows[:, 0],
            "features": rows[:, 1:],
            "actions": [(0, -1), *verbs],  # The first action is to wait.
        }
        self.observation_space = gymnasium.spaces.Box(0, 1, (1 + rows.size,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(1 + len(verbs))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        n = self.hosts
        self.linked = np.zeros((n, n), bool)
        for host in range(1, n):
            other = self.np_random.integers(host)
            self.linked[host, other] = self.linked[other, host] = True
        self.worth = self.np_random.choice([0.02, 0.1, 0.5], n)
        self.owned, self.hardened = np.zeros(n, bool), np.zeros(n, bool)
        self.owned[0] = True
        self.alerts, self.now = np.zeros(n), 0
        return self.shown(), {}

    def step(self, action):
        verb, host = divmod(action - 1, self.most)
        reward = 0.0
        if action > 0 and host < self.hosts:
            reward = -0.3 if verb == RESTORE else -0.1
            self.hardened[host] = verb == HARDEN
            if verb == RESTORE:
                self.owned[host], self.alerts[host] = host == 0, 0
        self.alerts *= 0.8
        source = self.np_random.choice(np.flatnonzero(self.owned))
        target = self.np_random.choice(np.flatnonzero(self.linked[source]))
        chance = self.np_random.random(2)
        if not self.owned[target] and chance[0] < (0.1 if self.hardened[target] else 0.7):
            self.owned[target] = True
            if chance[1] < 0.8:
                self.alerts[target] = 1
        self.now += 1
        reward -= float(self.worth[1:] @ self.owned[1:])
        return self.shown(), reward, False, self.now == self.steps, {}

    def shown(self):
        rows = np.zeros((self.most, 1 + FEATURES), np.float32)
        links = self.linked.sum(axis=1) / self.hosts
        columns = [np.ones(self.hosts), self.worth, links, self.alerts, self.hardened]
        rows[: self.hosts] = np.stack(columns, axis=1)
        return np.append(np.float32(self.now / self.steps), rows.ravel())


if __name__ == "__main__":
    hosts = int(sys.argv[1]) if len(sys.argv) > 1 else 13
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    config = TrainConfig(
        "async",
        n_envs=16,
        env="examples.any_size:RandomNetwork",
        env_args={"hosts": hosts},
        seed=seed,
        total_steps=STEPS,
        steps_per_update=4000,
        settings={"network": "entities", "hidden_sizes": (32, 32), "epochs": 4},
    )
    run = train(config, quiet=False)
    for other in (9, 13, 20):
        # `evaluate` also passes `hosts`, which the run trained with.
        print(evaluate(run, episodes=N_EPISODES, env=lambda hosts, n=other: RandomNetwork(n)))
