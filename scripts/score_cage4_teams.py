"""Score teams for CAGE Challenge 4 on the same episodes of the compiled simulator.

python scripts/score_cage4_teams.py --episodes 1000 --first-seed 3000000
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import click
import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from workflow_rl.cage4 import scenario4
from workflow_rl.cage4.agent.champion import load_weights
from workflow_rl.cage4.agent.rules import BatchedRuleTeam, Rules
from workflow_rl.cage4.champion.episodes import BatchedChampionTeam
from workflow_rl.cage4.compiled import network
from workflow_rl.cage4.compiled.actions import IMPACT
from workflow_rl.cage4.compiled.observe import SHOWN
from workflow_rl.cage4.compiled.red_tables import HAS_SESSION
from workflow_rl.cage4.compiled.simulator import BatchedSimulator
from workflow_rl.runs.intervals import mean_of

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
_ZONES = np.array(
    [scenario4.ZONES.index(scenario4.AGENT_ZONES[agent][i]) for agent, i in scenario4.OWN_ZONES]
)
_HOSTS = _ZONES[:, None] * network.PLACES + SHOWN
_ANALYSES = scenario4.ON_HOSTS["Analyse"].ravel()
_REDS = np.repeat(network.RED_OF_ZONE[_ZONES][:, None], len(SHOWN), axis=1)


def held_hosts(simulator: BatchedSimulator) -> NDArray[np.bool_]:
    """Return the hosts where red has a session that is root, or that red would next make root: bool
    `[N, 7, 16]`."""
    states = simulator.states
    held = HAS_SESSION[np.minimum(states["host_state"][:, _REDS, _HOSTS], len(HAS_SESSION) - 1)]
    shown: NDArray[np.bool_] = held & (states["red_sessions"][:, _HOSTS] != 0)
    return shown


def see_true_state(team: BatchedRuleTeam, simulator: BatchedSimulator) -> None:
    """Put the truth in the place of the team's conclusions."""
    belief = team.belief
    belief.exploited[:] = held_hosts(simulator)
    for conclusions in (belief.doubtful, belief.ever_doubtful, belief.sources, belief.may_be_first):
        conclusions[:] = False


class Lost(NamedTuple):
    """Rewards of N episodes, `[N]` each: of the 498 counted steps, and three parts of them.

    The parts: Restores, impacts in the contractor's zone, impacts elsewhere. The rest is greens'
    failed work. hosts: how many the team defends.
    """

    total: NDArray[np.int64]
    restores: NDArray[np.int64]
    contractor: NDArray[np.int64]
    impacts: NDArray[np.int64]
    hosts: NDArray[np.int64]


class Team(Protocol):
    """It plays N episodes at once."""

    def reset(self, masks: NDArray[np.bool_]) -> None: ...

    def act(self, observations: NDArray[np.integer]) -> NDArray[np.int64]: ...


def play(team: Team, seeds: range, red_agent: str, sees_truth: bool = False) -> Lost:
    """Play each seed's episode. sees_truth: the team is one of rules, and sees the true state."""
    parts = []
    for start in range(0, len(seeds), AT_ONCE):
        chosen = list(seeds[start : start + AT_ONCE])
        simulator = BatchedSimulator(len(chosen), red_agent=red_agent)
        observations = simulator.reset(chosen)
        team.reset(simulator.masks)
        lost = Lost(*np.zeros((5, len(chosen)), np.int64))
        lost.hosts[:] = simulator.masks[:, _ANALYSES].sum(1)
        for _ in range(scenario4.COUNTED_STEPS):
            if sees_truth:
                assert isinstance(team, BatchedRuleTeam)
                see_true_state(team, simulator)
            observations, rewards, _ = simulator.step(team.act(observations))
            impacts, in_contractor = impacts_of(simulator.states)
            lost.total[:] += rewards.sum(1)
            lost.restores[:] += rewards[:, 1]
            lost.contractor[:] += (impacts * in_contractor).sum(1)
            lost.impacts[:] += (impacts * ~in_contractor).sum(1)
        parts.append(lost)
    return Lost(*(np.concatenate(values) for values in zip(*parts, strict=True)))


def impacts_of(states: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return what each red agent's impact cost in the last step, and whether it was in the
    contractor's zone, `[N, 6]` each."""
    has_impact = (states["red_done"] == IMPACT) & (states["n_sessions"] > 0)
    zones = network.ZONE[np.where(has_impact, states["red_target"], 0)]
    prices = network.REWARDS[states["phase"][:, None], zones, scenario4.IMPACT_COST]
    return prices * has_impact, zones == network.CONTRACTOR


@click.command()
@click.option("--episodes", type=click.IntRange(2), default=500)
@click.option("--first-seed", type=click.IntRange(0), default=1_000_000)
@click.option(
    "--variant",
    type=click.Choice([*VARIANTS, TRUE_STATE]),
    multiple=True,
    help="Of the rules. All, if neither a variant nor a champion is given.",
)
@click.option("--champion", is_flag=True, help="The released champion.")
@click.option(
    "--weights",
    type=click.Path(exists=True, path_type=Path),
    multiple=True,
    help="The file of a champion that `train-champion` made.",
)
@click.option(
    "--red-agent", type=click.Choice(scenario4.RED_AGENTS), default=scenario4.RED_AGENTS[0]
)
def main(
    episodes: int,
    first_seed: int,
    variant: tuple[str, ...],
    champion: bool,
    weights: tuple[Path, ...],
    red_agent: str,
) -> None:
    """Play the same episodes with each team. Intervals are of 95 %.

    The differences to the first team are of pairs with the same seed.
    """
    teams: dict[str, Team] = {"champion": BatchedChampionTeam(load_weights())} if champion else {}
    teams |= {str(path): BatchedChampionTeam(load_weights(path)) for path in weights}
    for name in variant or (() if teams else (*VARIANTS, TRUE_STATE)):
        teams[name] = BatchedRuleTeam(VARIANTS.get(name, RELEASED))
    seeds, first = range(first_seed, first_seed + episodes), None
    for name, team in teams.items():
        lost = play(team, seeds, red_agent, name == TRUE_STATE)
        print("\n".join(words_of(name, lost)), flush=True)
        if first is None:
            first = lost.total
        else:
            print(f"  paired difference {with_interval(lost.total - first)}", flush=True)


def words_of(name: str, lost: Lost) -> list[str]:
    """Return what a team lost, line by line."""
    rest = lost.total - lost.restores - lost.contractor - lost.impacts
    small, large = np.quantile(lost.hosts, [0.1, 0.9])
    few, many = lost.hosts <= small, lost.hosts >= large
    return [
        f"{name}: {with_interval(lost.total)} (median {np.median(lost.total):.0f}, "
        f"standard deviation {lost.total.std(ddof=1):.1f})",
        f"  Restores {lost.restores.mean():.1f}, impacts in the contractor's zone "
        f"{lost.contractor.mean():.1f}, other impacts {lost.impacts.mean():.1f}, "
        f"failed work {rest.mean():.1f}",
        f"  the smallest networks ({lost.hosts.min()} to {small:.0f} hosts) "
        f"{with_interval(lost.total[few])}, the largest ({large:.0f} to {lost.hosts.max()}) "
        f"{with_interval(lost.total[many])}",
    ]


def with_interval(values: NDArray[np.int64]) -> str:
    """Return the mean and half of its interval of 95 %, in words."""
    return mean_of([values]).told(1)


if __name__ == "__main__":
    main()
