"""Steps per CPU second of CAGE-4's compiled simulator, of 64 networks in one call.

python examples/cage4_speed.py
"""

import time

import numpy as np

from workflow_rl.cage4.compiled.batched_simulator import BatchedSimulator

n, random = 64, np.random.default_rng(0)
simulator = BatchedSimulator(n)
for turn in range(5):
    seeds = range(turn * n, (turn + 1) * n)
    simulator.reset(seeds)
    masks = np.split(simulator.masks, [82, 164, 246, 328], axis=1)
    actions = [
        np.stack([(random.random(mask.shape) * mask).argmax(1) for mask in masks], axis=1)
        for _ in range(20)
    ]
    start = time.process_time()
    simulator.reset(seeds)
    for step in range(499):
        simulator.step(actions[step % 20])
    print(f"{n * 499 / (time.process_time() - start):,.0f} steps per CPU second")
