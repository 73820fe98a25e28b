"""The challenge's protocol: mean total rewards against three red agents in 30, 50 and 100 steps.

A cell of the protocol is one red agent and one length of episodes."""

import dataclasses
import functools
import random
import time
import zlib
from collections.abc import Callable, Sequence

from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.cage.attackers import Attackers
from workflow_rl.cage.playing import Workers, play
from workflow_rl.cage.scoring import PlayedTwice, checked
from workflow_rl.cage2.agent.blue import Blue
from workflow_rl.cage2.cyborg.simulators import SimulatorVersion, simulator_version
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage2.red.roster import REDS
from workflow_rl.cage2.red.user_reds import in_cyborg
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scenario.simulator_protocol import MAX_STEPS
from workflow_rl.cage2.scenario2 import HORIZONS, RED_AGENTS
from workflow_rl.cage2.scoring.scores import CellScore, ProtocolScores
from workflow_rl.environments.episode import EpisodeSpec, SeedStream, episode_spec
from workflow_rl.machine_facts import usable_cores
from workflow_rl.progress_bar import Progress

MAXIMUM_EPISODES = 1_000_000


def evaluate_blue(
    blue: Blue,
    episodes: int = 100,
    seed: int = 0,
    simulator: str = "compiled",
    n_workers: int | None = None,
    horizons: Sequence[int] = HORIZONS,
    red_agents: Sequence[str] = RED_AGENTS,
    quiet: bool = True,
    worker_timeout: float = 60.0,
    check: int = 0,
) -> ProtocolScores:
    """Play `episodes` episodes in each cell, in `n_workers` workers (by default one for each core).

    red_agents: the cells' red agents. Each is a text that `roster.REDS` reads. horizons: the cells'
    lengths of episodes. worker_timeout: seconds for which a worker may be silent: see `Pool`.
    check: how many episodes, drawn from all cells, CybORG plays again.

    An episode depends only on the seed, its cell and its number in the cell. Raises
    TooManyFailuresError if an episode cannot be played, or if CybORG's total differs."""
    horizons = sorted(set(horizons))
    others = [red_agent for red_agent in red_agents if red_agent not in RED_AGENTS]
    red_agents = [red_agent for red_agent in RED_AGENTS if red_agent in red_agents]
    red_agents += dict.fromkeys(others)
    members: dict[str, None] = {}
    for name in red_agents:
        members |= dict.fromkeys(f"{member.name}=1" for member in REDS.read(name).members)
    environment = Cage2(
        ",".join(members), simulator=simulator, scenario=blue.played.text, measures=True
    )
    n_workers = n_workers or usable_cores()
    cells = []
    start = time.perf_counter()
    n_episodes = len(horizons) * len(red_agents) * episodes
    with Progress(quiet, n_episodes + min(check, n_episodes), "ep") as progress:
        play_cells = functools.partial(_play, blue, progress, n_workers, worker_timeout)
        for max_steps in horizons:
            specs = []
            for name in red_agents:
                specs += [cell_spec(seed, max_steps, name, number) for number in range(episodes)]
            of_length = dataclasses.replace(environment, max_steps=max_steps)
            trajectories = play_cells(of_length, specs)
            for i, name in enumerate(red_agents):
                of_cell = trajectories[i * episodes : (i + 1) * episodes]
                cells.append(CellScore(max_steps, name, of_cell))
        seconds = time.perf_counter() - start
        line = None
        if check:
            on_cyborg = dataclasses.replace(environment, simulator="cyborg", measures=False)
            version = simulator_version("cyborg", environment.network.is_cage1)
            line = _checked(cells, seed, check, play_cells, on_cyborg, version)
    return ProtocolScores(
        blue.name,
        _version(simulator, environment.opponents, environment.network),
        seed,
        seconds,
        cells,
        blue.played,
        line,
    ).with_measures()


def _version(simulator: str, reds: Attackers, scenario: Scenario) -> SimulatorVersion:
    """Return the version of the simulator that plays. Even if the simulator is "cyborg", compiled
    code plays the red agents that do not derive from CybORG's classes."""
    version = simulator_version(simulator, scenario.is_cage1)
    if simulator != "cyborg":
        return version
    of_cyborg = {*RED_AGENTS, *in_cyborg(reds, scenario)}
    others = [red.name for red in reds.members if red.name not in of_cyborg]
    if len(others) == len(reds.members):
        return simulator_version("compiled", scenario.is_cage1)
    if others:
        name = f"compiled code for {' and '.join(others)}, and {version.name}"
        version = version._replace(name=name)
    return version


def _play(
    blue: Blue,
    progress: Progress,
    n_workers: int,
    worker_timeout: float,
    environment: Cage2,
    specs: Sequence[EpisodeSpec],
) -> list[Trajectory]:
    """Play episodes of one length, and return them in the order of specs."""
    name_of = functools.partial(_name_of, environment.max_steps)
    workers = Workers(n_workers, worker_timeout, environment.preload, progress, name_of)
    return [*play(blue.make_envs(environment), blue, specs, workers=workers)]


def _checked(
    cells: Sequence[CellScore],
    seed: int,
    n_episodes: int,
    play_cells: Callable[[Cage2, Sequence[EpisodeSpec]], list[Trajectory]],
    environment: Cage2,
    version: SimulatorVersion,
) -> str:
    """Play drawn episodes again on CybORG. Return a line that says how many totals are equal."""
    everything = []
    for cell in cells:
        for number in range(len(cell.trajectories)):
            # Only the challenge's red agents play in both simulators: see `red.user_reds`.
            if cell_spec(seed, cell.max_steps, cell.red_agent, number).variant in RED_AGENTS:
                everything.append((cell, number))
    if not everything:
        return "No episode was played again: CybORG does not play these red agents."
    indices = random.Random(seed).sample(range(len(everything)), min(n_episodes, len(everything)))
    drawn = [everything[index] for index in sorted(indices)]
    played = []
    for max_steps in sorted({cell.max_steps for cell, _ in drawn}):
        chosen = [(cell, number) for cell, number in drawn if cell.max_steps == max_steps]
        specs = [cell_spec(seed, max_steps, cell.red_agent, number) for cell, number in chosen]
        of_length = dataclasses.replace(environment, max_steps=max_steps)
        again = play_cells(of_length, specs)
        for (cell, number), spec, trajectory in zip(chosen, specs, again, strict=True):
            name = _name_of(max_steps, spec)
            played.append(PlayedTwice(name, cell.returns[number], trajectory.episode_return))
    return checked(played, f"{version.name} {version.version}")


def cell_spec(seed: int, max_steps: int, red_agent: str, number: int) -> EpisodeSpec:
    """Return episode `number` of a cell. All episodes of an evaluation have different seeds.

    red_agent: one of RED_AGENTS, or another text that `roster.REDS` reads. If the text names
    several red agents, the seed draws one of them."""
    assert 0 <= number < MAXIMUM_EPISODES
    if red_agent in RED_AGENTS:
        cell = max_steps * len(RED_AGENTS) + RED_AGENTS.index(red_agent)
    else:
        # This number is beyond the numbers of RED_AGENTS' cells. It depends only on the text.
        beyond = 1 + (zlib.crc32(red_agent.encode()) % MAXIMUM_EPISODES)
        cell = (beyond * MAX_STEPS + max_steps) * len(RED_AGENTS)
    variants = REDS.read(red_agent).variants
    return episode_spec(seed, cell * MAXIMUM_EPISODES + number, variants, SeedStream.EVALUATION)


def _name_of(max_steps: int, spec: EpisodeSpec) -> str:
    """Return the name of an episode of `cell_spec`, for error messages."""
    return f"{spec.number % MAXIMUM_EPISODES} ({spec.variant}, {max_steps} steps)"
