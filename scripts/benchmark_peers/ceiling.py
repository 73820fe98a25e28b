"""No learner: a process for each core plays with actions drawn at random."""

from __future__ import annotations

import multiprocessing
import os
import time

from task import N_CORES, chosen_env


def play(index: int) -> None:
    parent = os.getppid()
    env = chosen_env()()
    env.action_space.seed(index)
    env.reset(seed=index)
    while os.getppid() == parent:  # Nobody else would end it if the parent were killed.
        if env.step(env.action_space.sample())[3]:
            env.reset()


def main() -> None:
    context = multiprocessing.get_context("fork")
    parent = os.getppid()
    for index in range(N_CORES):
        context.Process(target=play, args=(index,), daemon=True).start()
    while os.getppid() == parent:
        time.sleep(1)


if __name__ == "__main__":
    main()
