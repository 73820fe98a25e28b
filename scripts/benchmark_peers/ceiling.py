"""No learner: a process for each core plays with actions drawn at random."""

from __future__ import annotations

import multiprocessing

from task import N_CORES, chosen_env


def play(index: int) -> None:
    env = chosen_env()()
    env.action_space.seed(index)
    env.reset(seed=index)
    while True:
        if env.step(env.action_space.sample())[3]:
            env.reset()


def main() -> None:
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=play, args=(index,)) for index in range(N_CORES)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()


if __name__ == "__main__":
    main()
