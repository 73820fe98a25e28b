"""Digests of CybORG's episodes, stored beside this file.

With a checkout of CybORG 4 named by the variable, they are recorded anew by

    python -m tests.workflow_rl.cage4.compiled.digests
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np

from workflow_rl.cage4.agent.scripted import TEAMS, make_scripted_team
from workflow_rl.cage4.cyborg.simulators import make_simulator
from workflow_rl.cage4.interface import MAX_STEPS, RED_AGENTS, Simulator, state_digest

STORED = Path(__file__).with_name("digests.json")
EVERY, STATE_EVERY = 50, 10


def digests_of(simulator: Simulator, blue: str, seed: int, steps: int = MAX_STEPS) -> list[str]:
    """Return a digest for each EVERY steps of an episode, of all that happened until then.

    It covers observations, masks, rewards, done, busy agents and the generator at every step, and
    the whole state at every STATE_EVERY-th.
    """
    team = make_scripted_team(blue)
    content = hashlib.blake2b(digest_size=6)
    observations = simulator.reset(seed)
    content.update(np.concatenate(simulator.masks).tobytes())
    team.reset(simulator.masks, seed)
    digests = []
    for step in range(1, steps + 1):
        result = simulator.step(*team.act(observations))
        observations = result.observations
        content.update(np.concatenate(observations).astype(np.int8).tobytes())
        facts = (*result[1:], *simulator.busy_steps.tolist(), *simulator.generator_state())
        content.update(repr(tuple(map(int, facts))).encode())
        if step % STATE_EVERY == 0:
            content.update(state_digest(simulator.true_state()))
        if step % EVERY == 0:
            digests.append(content.hexdigest())
    return digests


def pairs() -> list[tuple[str, str, int]]:
    """Return blue team, red agent and seed of each stored episode."""
    names = [(blue, red_agent) for blue in sorted(TEAMS) for red_agent in RED_AGENTS]
    return [(*pair, seed) for seed, pair in enumerate(names)]


def main() -> None:
    stored = {}
    for blue, red_agent, seed in pairs():
        simulator = make_simulator("cyborg", red_agent)
        stored[f"{blue}/{red_agent}/{seed}"] = digests_of(simulator, blue, seed)
        print(blue, red_agent, seed, flush=True)
    lines = [f'"{name}": {json.dumps(digests)}' for name, digests in stored.items()]
    STORED.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
