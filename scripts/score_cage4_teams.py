"""Score teams for CAGE Challenge 4 on the same episodes of the compiled simulator.

python scripts/score_cage4_teams.py --episodes 1000 --first-seed 3000000
python scripts/score_cage4_teams.py --champion --red-agent library --episodes 100
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from workflow_rl.agents.policies.team_policy import TeamParameters, load_policy_or_team
from workflow_rl.cage4.agent.belief import RESTORE, Bits, Joint
from workflow_rl.cage4.agent.blue_team import BlueSees, TeamMaker
from workflow_rl.cage4.agent.gate import PRICE
from workflow_rl.cage4.agent.policy_team import PolicyTeam
from workflow_rl.cage4.agent.raw_record import NUMBERS
from workflow_rl.cage4.agent.rules import ROBUST_RULES, RULES, RuleTeam, most_urgent
from workflow_rl.cage4.agent.trained_teams import RELEASED
from workflow_rl.cage4.compiled import constants
from workflow_rl.cage4.compiled.actions import IMPACT
from workflow_rl.cage4.compiled.batched_simulator import BatchedSimulator
from workflow_rl.cage4.compiled.red_simulator import RedSimulator
from workflow_rl.cage4.red.roster import REDS, found_reds
from workflow_rl.cage4.scenario import scenario4
from workflow_rl.cage4.scenario.scenario4 import CHALLENGE, SCENARIOS, Scenario
from workflow_rl.evaluation.intervals import mean_of

AT_ONCE = 250
VARIANTS = {
    "released": RULES,
    "robust": ROBUST_RULES,
}
_ANALYSES = scenario4.ON_HOSTS["Analyse"].ravel()


class Lost(NamedTuple):
    """Rewards of N episodes, `[N]` each: of the 498 counted steps, and three parts of them.

    The parts: Restores, impacts in the contractor's zone, impacts elsewhere. The rest is greens'
    failed work.
    """

    total: NDArray[np.int64]
    restores: NDArray[np.int64]
    contractor: NDArray[np.int64]
    impacts: NDArray[np.int64]


class TrueStateTeam:
    """It sees where red has sessions, and restores the host whose zone an Impact costs most: what
    no team does that sees what the challenge shows. states: of the simulator."""

    reads_raw = False
    states: NDArray[Any]

    def begin(self, envs: Any, seeds: Any, masks: Bits, seen: BlueSees) -> None:
        self._exists = masks[:, _ANALYSES].reshape(len(masks), *NUMBERS.shape)

    def act(self, envs: Any) -> tuple[Joint, None]:
        sessions = self.states["sessions"]
        is_there = np.arange(sessions.shape[2]) < self.states["n_sessions"][:, :, None]
        held = np.zeros((len(envs), scenario4.N_HOSTS), np.bool_)
        env, red, place = np.nonzero(is_there)
        held[env, sessions["host"][env, red, place]] = True
        needed = held[:, NUMBERS] & self._exists
        price = PRICE[self.states["phase"]][:, :, None]
        return most_urgent(np.where(needed, RESTORE, 0), np.where(needed, 1 + price, 0)), None

    def see(self, envs: Any, taken: Joint, seen: BlueSees) -> None:
        pass


def team_in(path: Path) -> TeamMaker:
    """Return what makes the team of a policy file. Its policies choose the likeliest actions."""
    try:
        team, about = load_policy_or_team(path)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    args = about.get("env_args", {})
    if not isinstance(team, TeamParameters) or "observation" not in args:
        raise click.UsageError(f"{path} holds no team for CAGE-4")
    shown = {name: args[name] for name in ("observation", "actions", "messages")}
    return functools.partial(PolicyTeam, policy=team.actor(greedy=True), **shown)


def play(
    make_team: TeamMaker, seeds: Sequence[int], red_agent: str, scenario: Scenario = CHALLENGE
) -> Lost:
    """Play each seed's episode."""
    parts = []
    for start in range(0, len(seeds), AT_ONCE):
        chosen = list(seeds[start : start + AT_ONCE])
        envs = list(range(len(chosen)))
        reds = reds_of(red_agent)
        simulator: Any = (
            RedSimulator(len(chosen), shows_raw=True, scenario=scenario)
            if reds
            else BatchedSimulator(
                len(chosen), red_agent=red_agent, shows_raw=True, scenario=scenario
            )
        )
        simulator.reset(chosen)
        for env, seed in enumerate(chosen if reds else ()):
            reds.reset(seed, env)
        team = make_team(len(chosen))
        if isinstance(team, TrueStateTeam):
            team.states = simulator.states
        team.begin(envs, envs, simulator.masks, seen_in(simulator))
        lost = Lost(*np.zeros((4, len(chosen)), np.int64))
        for _ in range(scenario4.COUNTED_STEPS):
            actions, messages = team.act(envs)
            if reds:
                simulator.choose(reds.act(simulator.rows, envs)[0])
            _, rewards, _ = simulator.step(actions, messages)
            team.see(envs, actions, seen_in(simulator))
            impacts, in_contractor = impacts_of(simulator.states)
            lost.total[:] += rewards.sum(1)
            lost.restores[:] += rewards[:, 1]
            lost.contractor[:] += (impacts * in_contractor).sum(1)
            lost.impacts[:] += (impacts * ~in_contractor).sum(1)
        parts.append(lost)
    return Lost(*(np.concatenate(values) for values in zip(*parts, strict=True)))


def reds_of(red_agent: str) -> Any:
    """Return what plays a red agent from outside the simulator, or None for one of its own."""
    (attacker,) = REDS.read(red_agent).members
    return None if attacker.name in scenario4.RED_AGENTS else found_reds(attacker)


def seen_in(simulator: BatchedSimulator) -> BlueSees:
    """Return what the last step, or the reset, showed."""
    busy = simulator.states["blue_ticks"].astype(np.int64)
    return BlueSees(simulator.obs, simulator.raw, busy)


def impacts_of(states: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return what each red agent's impact cost in the last step, and whether it was in the
    contractor's zone, `[N, 6]` each."""
    has_impact = (states["red_done"] == IMPACT) & (states["n_sessions"] > 0)
    zones = constants.ZONE[np.where(has_impact, states["red_target"], 0)]
    prices = constants.REWARDS[states["phase"][:, None], zones, scenario4.IMPACT_COST]
    return prices * has_impact, zones == constants.CONTRACTOR


@click.command()
@click.option("--episodes", type=click.IntRange(2), default=500)
@click.option(
    "--first-seed",
    type=click.IntRange(0),
    multiple=True,
    default=[1_000_000],
    help="With several, as many episodes from each, in one pool.",
)
@click.option(
    "--variant",
    type=click.Choice(list(VARIANTS)),
    multiple=True,
    help="Of the rules. All, if no other team is given.",
)
@click.option("--champion", is_flag=True, help="The released champion.")
@click.option("--true-state", is_flag=True, help="A team that sees where red is, as a bound.")
@click.option(
    "--weights",
    type=click.Path(exists=True, path_type=Path),
    multiple=True,
    help="A policy file, such as the champion.npz that `train-champion` made.",
)
@click.option(
    "--red-agent",
    default=scenario4.RED_AGENTS[0],
    help="Whatever the trainers take. Each of several plays its own table.",
)
@click.option(
    "--scenario",
    type=click.Choice([*SCENARIOS, "all"]),
    default="challenge",
    help="With all, a table of every team in every scenario follows.",
)
def main(
    episodes: int,
    first_seed: tuple[int, ...],
    variant: tuple[str, ...],
    champion: bool,
    true_state: bool,
    weights: tuple[Path, ...],
    red_agent: str,
    scenario: str,
) -> None:
    """Play the same episodes with each team. Intervals are of 95 %.

    The differences to the first team are of pairs with the same seed.
    """
    teams: dict[str, TeamMaker] = {"champion": team_in(RELEASED["champion"])} if champion else {}
    teams |= {str(path): team_in(path) for path in weights}
    teams |= {"true state": lambda n_envs: TrueStateTeam()} if true_state else {}
    for name in variant or (() if teams else VARIANTS):
        teams[name] = functools.partial(RuleTeam, rules=VARIANTS[name])
    # A seed that is in two sets counts once.
    seeds = list(dict.fromkeys(i for first in first_seed for i in range(first, first + episodes)))
    print(f"episodes: {len(seeds)}")
    rows = {name: [name] for name in teams}
    scenarios = list(SCENARIOS) if scenario == "all" else [scenario]
    reds = [attacker.name for attacker in REDS.read(red_agent).members]
    columns = {
        (red if len(scenarios) == 1 else of if len(reds) == 1 else f"{of}, {red}"): (red, of)
        for of in scenarios
        for red in reds
    }
    for column, (red, of) in columns.items():
        first = None
        for name, team in teams.items():
            lost = play(team, seeds, red, SCENARIOS[of])
            rows[name].append(with_interval(lost.total))
            words = words_of(f"{column}, {name}" if len(columns) > 1 else name, lost)
            print("\n".join(words), flush=True)
            if first is None:
                first = lost.total
            else:
                print(f"  paired difference {with_interval(lost.total - first)}", flush=True)
    if len(columns) > 1:
        lines = [["team", *columns], ["---"] * (1 + len(columns)), *rows.values()]
        print("\n".join(f"| {' | '.join(line)} |" for line in lines))


def words_of(name: str, lost: Lost) -> list[str]:
    """Return what a team lost, line by line."""
    rest = lost.total - lost.restores - lost.contractor - lost.impacts
    return [
        f"{name}: {with_interval(lost.total)} (median {np.median(lost.total):.0f}, "
        f"standard deviation {lost.total.std(ddof=1):.1f})",
        f"  Restores {lost.restores.mean():.1f}, impacts in the contractor's zone "
        f"{lost.contractor.mean():.1f}, other impacts {lost.impacts.mean():.1f}, "
        f"failed work {rest.mean():.1f}",
    ]


def with_interval(values: NDArray[np.int64]) -> str:
    """Return the mean and half of its interval of 95 %, in words."""
    return mean_of([values]).told(1)


if __name__ == "__main__":
    main()
