"""Score variants of CAGE Challenge 4's rule team on the compiled simulator.

python scripts/tune_cage4_team.py --episodes 1000 --first-seed 3000000
"""

from __future__ import annotations

import sys
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from workflow_rl.cage4.agent.belief import OWN_ZONES
from workflow_rl.cage4.agent.rules import LAST_COUNTED_STEP, BatchedRuleTeam, Rules
from workflow_rl.cage4.compiled.network import PLACES, RED_OF_ZONE
from workflow_rl.cage4.compiled.observe import SHOWN
from workflow_rl.cage4.compiled.red_tables import HAS_SESSION
from workflow_rl.cage4.compiled.simulator import BatchedSimulator
from workflow_rl.cage4.scenario4 import AGENT_ZONES, ZONES

AT_ONCE = 250
RELEASED = Rules()
VARIANTS = {
    "released": RELEASED,
    "no Restore of sources": RELEASED._replace(restores_sources=False),
    "no Remove of doubtful hosts": RELEASED._replace(removes_doubtful=False),
    "no Restore of doubtful hosts": RELEASED._replace(restores_doubtful=False),
    "never waits for scans": RELEASED._replace(patience=0),
    "patience 20": RELEASED._replace(patience=20),
    "patience 150": RELEASED._replace(patience=150),
    "few 0": RELEASED._replace(few=0),
    "few 2": RELEASED._replace(few=2),
    "lead 0": RELEASED._replace(lead=0),
    "lead 60": RELEASED._replace(lead=60),
}
TRUE_STATE = "sees the true state"
_ZONES = np.array([ZONES.index(AGENT_ZONES[agent][i]) for agent, i in OWN_ZONES])
_HOSTS = _ZONES[:, None] * PLACES + SHOWN
_REDS = np.repeat(RED_OF_ZONE[_ZONES][:, None], len(SHOWN), axis=1)


def see_true_state(team: BatchedRuleTeam, simulator: BatchedSimulator) -> None:
    """Put the truth in the place of the team's conclusions: the hosts where red has a session that
    is root, or that red would next make root."""
    states, belief = simulator.states, team.belief
    held = HAS_SESSION[np.minimum(states["host_state"][:, _REDS, _HOSTS], len(HAS_SESSION) - 1)]
    belief.exploited[:] = held & (states["red_sessions"][:, _HOSTS] != 0)
    for conclusions in (belief.doubtful, belief.ever_doubtful, belief.sources, belief.may_be_first):
        conclusions[:] = False


def totals_of(rules: Rules, seeds: range, sees_truth: bool = False) -> NDArray[np.int64]:
    """Return the total of the 498 counted rewards of each seed's episode."""
    totals = []
    for start in range(0, len(seeds), AT_ONCE):
        chosen = list(seeds[start : start + AT_ONCE])
        simulator, team = BatchedSimulator(len(chosen)), BatchedRuleTeam(rules)
        observations = simulator.reset(chosen)
        team.reset(simulator.masks)
        total = np.zeros(len(chosen), np.int64)
        for _ in range(LAST_COUNTED_STEP):
            if sees_truth:
                see_true_state(team, simulator)
            observations, rewards, _ = simulator.step(team.act(observations))
            total += rewards.sum(1)
        totals.append(total)
    return np.concatenate(totals)


@click.command()
@click.option("--episodes", type=click.IntRange(2), default=500)
@click.option("--first-seed", type=click.IntRange(0), default=1_000_000)
@click.option(
    "--variant", type=click.Choice([*VARIANTS, TRUE_STATE]), multiple=True, help="All, if none."
)
def main(episodes: int, first_seed: int, variant: tuple[str, ...]) -> None:
    """Play the same episodes with each variant. Intervals are of 95 %."""
    seeds = range(first_seed, first_seed + episodes)
    for name in variant or (*VARIANTS, TRUE_STATE):
        totals = totals_of(VARIANTS.get(name, RELEASED), seeds, name == TRUE_STATE)
        half = 1.96 * totals.std(ddof=1) / len(totals) ** 0.5
        print(
            f"{name}: {totals.mean():.1f} ± {half:.1f} (median {np.median(totals):.0f}, "
            f"standard deviation {totals.std(ddof=1):.1f})",
            flush=True,
        )


if __name__ == "__main__":
    main()
