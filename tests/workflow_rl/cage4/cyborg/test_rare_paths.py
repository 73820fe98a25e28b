from __future__ import annotations

from pathlib import Path

from workflow_rl.cage4.agent.scripted import make_scripted_team
from workflow_rl.cage4.cyborg.rare_paths import RARE_PATHS, counted_rare_paths
from workflow_rl.cage4.cyborg.sped_up import SpedUpNetwork
from workflow_rl.cage4.scenario.scenario4 import RED_AGENTS


def play(simulator: SpedUpNetwork, blue: str, seed: int, steps: int) -> tuple[int, int, int, int]:
    team = make_scripted_team(blue)
    observations = simulator.reset(seed)
    team.reset(simulator.masks, seed)
    for _ in range(steps):
        observations = simulator.step(*team.act_in(simulator, observations)).observations
    return simulator.generator_state()


def test_paths_are_counted_and_change_nothing(checkout: Path) -> None:
    simulator = SpedUpNetwork(RED_AGENTS[0], 500)
    with counted_rare_paths() as counts:
        after = play(simulator, "restores", 3, 250)
    assert tuple(counts) == RARE_PATHS
    assert counts["session moved"] > 0
    assert counts["session 0 promoted"] > 0
    assert counts["used port redrawn"] > 0
    before = dict(counts)
    assert play(simulator, "restores", 3, 250) == after
    assert counts == before
