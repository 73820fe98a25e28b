"""The challenge's evaluation: mean total rewards against three red agents in 30, 50 and 100 steps.

    python evaluation.py --episodes 1000 --seed 153

This runs on the official CybORG package, or on csle-cyborg if the official package is not
installed. It writes <time>_BlueAgent.txt in the challenge's format. Python's generator is seeded
once, and all episodes draw from this generator in turn.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import random
import statistics
import sys
import time
import unittest.mock
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from acting_handed_in import read_handed_in
from acting_scenario import NAMED, Scenario
from agent import BlueAgent

STEPS = (30, 50, 100)
RED_AGENTS = ("B_lineAgent", "RedMeanderAgent", "SleepAgent")


class Episode(NamedTuple):
    """The actions of Blue and Red in each step, and the sum of the rewards."""

    actions: list[tuple[str, str]]
    total_reward: float


class Simulator(NamedTuple):
    """A CybORG package. make: returns a CybORG with a red agent. agents: the module of red agents.
    wrapper: the class ChallengeWrapper."""

    make: Callable[[Any], Any]
    agents: Any
    wrapper: Any
    name: str


def find_scenario() -> Scenario:
    """Return the scenario for which the agent was exported."""
    return Scenario(**json.loads(read_handed_in("scenario.json")))


def find_simulator() -> Simulator:
    """Return the challenge's official package if it is installed, or else csle-cyborg."""
    # CybORG imports Stable-Baselines3 for an agent that does not play here. An empty module serves.
    sys.modules.setdefault("stable_baselines3", ModuleType("stable_baselines3"))
    sys.modules["stable_baselines3"].__dict__.setdefault("PPO", None)
    scenario = find_scenario()
    try:
        import CybORG
        from CybORG import Agents
        from CybORG.Agents.Wrappers.ChallengeWrapper import ChallengeWrapper

        make = functools.partial(_official, CybORG, scenario)
        return Simulator(make, Agents, ChallengeWrapper, "CybORG (official)")
    except ModuleNotFoundError as error:
        # Packages of other challenges are also called CybORG. They lack some of these modules.
        if not (error.name or "").startswith("CybORG"):
            raise
    if scenario.is_cage1:
        sys.exit(
            "CybORG of CAGE Challenge 1 is not installed: git clone "
            "https://github.com/cage-challenge/cage-challenge-1, pip install gym==0.26.2, and set "
            "PYTHONPATH to the repository's folder CybORG"
        )
    try:
        from csle_cyborg import agents
    except ModuleNotFoundError:
        sys.exit("Neither CybORG nor csle-cyborg is installed: pip install -r requirements.txt")
    from csle_cyborg.agents.wrappers.challenge_wrapper import ChallengeWrapper
    from csle_cyborg.main import Main

    def make(red: Any) -> Any:
        return Main(scenario.description(), "sim", agents={"Red": red})

    return Simulator(make, agents, ChallengeWrapper, "csle-cyborg")


def _official(package: Any, scenario: Scenario, red: Any) -> Any:
    from CybORG.Simulator.SimulationController import SimulationController

    folder = Path(package.__file__).parent / "Shared" / "Scenarios"
    path = folder / f"Scenario{'1b' if scenario.is_cage1 else '2'}.yaml"
    if (folder / "Scenario2.yaml").exists() == scenario.is_cage1:
        sys.exit(f"The CybORG that is installed is another challenge's: {path} does not go with it")
    if scenario.text in NAMED:
        return package.CybORG(str(path), "sim", agents={"Red": red})
    # CybORG would read the images of a scenario file from its own folder only. So a function that
    # returns the parsed scenario replaces CybORG's parser.
    parsed = unittest.mock.patch.object(
        SimulationController, "_parse_scenario", return_value=scenario.description()
    )
    with parsed:
        return package.CybORG(str(path), "sim", agents={"Red": red})


def play(
    simulator: Simulator,
    agent: BlueAgent,
    red_agent: str,
    n_steps: int,
    episodes: int,
    seeds: Sequence[int] | None = None,
) -> Iterator[Episode]:
    """Play and yield episodes. seeds: one seed for each episode, or None to seed nothing.

    The challenge's loop resets after every episode, also after the last episode of a cell. The last
    reset also draws random numbers, and so changes the next cell."""
    cyborg = simulator.make(getattr(simulator.agents, red_agent))
    env = simulator.wrapper(env=cyborg, agent_name="Blue")
    for number in range(episodes):
        if seeds is not None:
            random.seed(seeds[number])
        observation = env.reset()
        if isinstance(observation, tuple):  # csle-cyborg returns (observation, info).
            observation = observation[0]
        actions = []
        rewards = []
        for _ in range(n_steps):
            action = agent.get_action(observation, env.get_action_space("Blue"))
            observation, reward, *_ = env.step(action)
            rewards.append(float(reward))
            blue, red = (str(cyborg.get_last_action(name)) for name in ("Blue", "Red"))
            actions.append((blue, red))
        agent.end_episode()
        yield Episode(actions, sum(rewards))
    env.reset()


def main() -> None:
    """Play all nine cells, print the means, and write the result file."""
    parser = argparse.ArgumentParser(description="Score the agent by the challenge's protocol.")
    parser.add_argument(
        "--episodes", type=int, default=100, help="episodes in each cell (default 100)"
    )
    parser.add_argument("--seed", type=int, default=153, help="the one random seed (default 153)")
    parser.add_argument("--author", default="anonymous")
    parser.add_argument("--team", default="none")
    parser.add_argument(
        "--technique", default="PPO", help="like author and team, a text in the result file"
    )
    options = parser.parse_args()
    if options.episodes < 2:
        parser.error(f"--episodes {options.episodes}: give 2 or more, for standard deviations")
    simulator = find_simulator()
    agent = BlueAgent()
    path = Path(f"{time.strftime('%Y%m%d_%H%M%S')}_BlueAgent.txt")
    total = 0.0
    with path.open("w") as file:
        played = find_scenario().name.capitalize()
        print(f"CybORG: {simulator.name}, {played}, seed {options.seed}", file=file)
        about = f"author: {options.author}, team: {options.team}, technique: {options.technique}"
        print(about, "wrappers: ChallengeWrapper", sep="\n", file=file)
        random.seed(options.seed)
        for n_steps, red_agent in itertools.product(STEPS, RED_AGENTS):
            episodes = list(play(simulator, agent, red_agent, n_steps, options.episodes))
            rewards = [episode.total_reward for episode in episodes]
            mean, deviation = statistics.mean(rewards), statistics.stdev(rewards)
            total += mean
            figures = f"{mean:8.2f}, standard deviation {deviation:.2f}"
            print(f"{n_steps:3} {red_agent:16} {figures}", flush=True)
            cell = f"steps: {n_steps}, adversary: {red_agent}, mean: {mean}"
            print(f"{cell}, standard deviation {deviation}", file=file)
            for actions, total_reward in episodes:
                print(f"actions: {actions}, total reward: {total_reward}", file=file)
    print(f"total {total:.2f}, result file: {path}")


if __name__ == "__main__":
    main()
