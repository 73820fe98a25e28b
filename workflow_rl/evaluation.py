"""The official CAGE-2 protocol: three red agents, 30, 50 and 100 steps, mean total rewards."""

from __future__ import annotations

import functools
import json
import logging
import math
import statistics
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from prettytable import PrettyTable, TableStyle
from tqdm import tqdm

from agents.numpy_policy import Actor
from agents.scripted import SCRIPTED_AGENTS
from agents.trajectory import Trajectory
from workflow_rl.episode import EpisodeSpec, SeedStream, episode_spec
from workflow_rl.evaluation_env import EvaluationEnv, PolicyBlue, ScriptedBlue, step_actions
from workflow_rl.leaderboard import LEADERBOARD_NOTE, SCRIPTED_SCORES, TOP_SCORES
from workflow_rl.output_files import require_writable, require_writable_folder, write_text
from workflow_rl.parallel_env_async import AsyncParallelEnv
from workflow_rl.scenario2 import ACTION_NAMES, RED_AGENTS
from workflow_rl.versions import SimulatorVersion, simulator_version
from workflow_rl.worker_pool import TooManyFailuresError, WorkerPool

if TYPE_CHECKING:
    from agents.numpy_policy import NumpyPolicy

HORIZONS = (30, 50, 100)
MAXIMUM_EPISODES = 1_000_000


class CellScore(NamedTuple):
    """One red agent for one number of steps: its episodes, in the order of their seeds."""

    max_steps: int
    red_agent: str
    trajectories: Sequence[Trajectory]

    @property
    def returns(self) -> list[float]:
        """Total reward of each episode."""
        return [trajectory.episode_return for trajectory in self.trajectories]

    @property
    def mean(self) -> float:
        """Mean total reward."""
        return statistics.mean(self.returns)

    @property
    def std(self) -> float:
        """Sample standard deviation of the total rewards; NaN of a single one."""
        return statistics.stdev(self.returns) if len(self.returns) > 1 else math.nan

    @property
    def interval_95(self) -> float:
        """Half the width of the mean's 95% confidence interval (normal approximation)."""
        return 1.96 * self.std / math.sqrt(len(self.returns))


class Evaluation(NamedTuple):
    """Cells in the official order, and what was evaluated on what."""

    agent: str
    simulator: SimulatorVersion
    seed: int
    seconds: float
    cells: Sequence[CellScore]

    @property
    def is_official(self) -> bool:
        """Whether all nine cells of the protocol are there, and no others."""
        cells = [(cell.max_steps, cell.red_agent) for cell in self.cells]
        return cells == [(steps, red_agent) for steps in HORIZONS for red_agent in RED_AGENTS]

    @property
    def total(self) -> float:
        """Sum of the cells' means: the challenge's score if all nine are there."""
        return sum(cell.mean for cell in self.cells)

    @property
    def total_interval_95(self) -> float:
        """Half the width of its 95% confidence interval; the cells are independent."""
        return math.sqrt(sum(cell.interval_95**2 for cell in self.cells))


def evaluate_actor(
    actor: Actor | str,
    episodes: int = 100,
    seed: int = 0,
    simulator: str = "cyborg",
    n_workers: int | None = None,
    horizons: Sequence[int] = HORIZONS,
    red_agents: Sequence[str] = RED_AGENTS,
    name: str | None = None,
    quiet: bool = True,
) -> Evaluation:
    """Play `episodes` episodes in each cell, spread over `n_workers` (None: one a core).

    actor: a policy, or the name of a scripted agent. An episode depends on the seed, its cell and
    its number there, not on the workers nor on the other cells. Raises TooManyFailuresError.
    """
    from workflow_rl.config import usable_cores

    n_workers = n_workers or usable_cores()
    blue = ScriptedBlue(actor) if isinstance(actor, str) else PolicyBlue(actor)
    horizons = sorted(set(horizons))
    red_agents = [red_agent for red_agent in RED_AGENTS if red_agent in red_agents]
    cells = []
    start = time.perf_counter()
    with tqdm(
        total=len(horizons) * len(red_agents) * episodes, unit="ep", disable=quiet
    ) as progress_bar:
        for max_steps in horizons:
            specs = [
                cell_spec(seed, max_steps, red_agent, number)
                for red_agent in red_agents
                for number in range(episodes)
            ]
            make_env = functools.partial(EvaluationEnv, max_steps, simulator)
            with WorkerPool(make_env, min(n_workers, len(specs))) as pool:
                trajectories = _collect(pool, blue, specs, progress_bar)
            cells += [
                CellScore(max_steps, red_agent, [t for t in trajectories if t.red_agent == red_agent])
                for red_agent in red_agents
            ]
    return Evaluation(
        name or (actor if isinstance(actor, str) else type(actor).__name__),
        simulator_version(simulator),
        seed,
        time.perf_counter() - start,
        cells,
    )


def cell_spec(seed: int, max_steps: int, red_agent: str, number: int) -> EpisodeSpec:
    """Episode `number` of a cell: each has seeds of its own."""
    assert 0 <= number < MAXIMUM_EPISODES
    cell = max_steps * len(RED_AGENTS) + RED_AGENTS.index(red_agent)
    return episode_spec(seed, cell * MAXIMUM_EPISODES + number, red_agent, SeedStream.EVALUATION)


def _collect(
    pool: WorkerPool, actor: Actor, specs: Sequence[EpisodeSpec], progress_bar: tqdm[Any]
) -> list[Trajectory]:
    # In blocks, for the bar to move: large ones, since at the end of each some workers wait.
    collector = AsyncParallelEnv(pool)
    size = 20 * pool.n_workers
    trajectories: list[Trajectory] = []
    for first in range(0, len(specs), size):
        block = specs[first : first + size]
        trajectories += collector.collect(actor, block).trajectories
        progress_bar.update(len(block))
    return trajectories


def checkpoint_path(run_or_checkpoint: Path, which: str | None = None) -> Path:
    """The file to load for a run folder or a .pt file.

    which: "best" or "latest" of a run folder; None is its best.pt if there is one, otherwise its
    checkpoint.pt.
    """
    if not run_or_checkpoint.is_dir():
        return run_or_checkpoint
    best, latest = run_or_checkpoint / "best.pt", run_or_checkpoint / "checkpoint.pt"
    if which is None:
        return best if best.exists() else latest
    return best if which == "best" else latest


def load_policy(path: Path, greedy: bool = True) -> NumpyPolicy:
    """A checkpoint's actor. Raises CheckpointError, also if it is not one for CAGE-2."""
    from agents.networks import ActorCritic
    from agents.numpy_policy import NumpyPolicy
    from workflow_rl.checkpoint import CheckpointError, load_checkpoint
    from workflow_rl.cyborg_env import OBS_SIZE

    checkpoint = load_checkpoint(path)
    try:
        ppo, weights = checkpoint.config["ppo"], checkpoint.agent["network"]
        network = ActorCritic(
            OBS_SIZE, len(ACTION_NAMES), ppo["hidden_sizes"], ppo["activation"], seed=0
        )
        expected, found = (
            {key: tuple(tensor.shape) for key, tensor in state.items()}
            for state in (network.state_dict(), weights)
        )
        policy_version = int(checkpoint.agent["policy_version"])
    except (KeyError, TypeError, ValueError, AttributeError):
        raise CheckpointError(f"{path} is not a checkpoint of this package") from None
    for key, shape in expected.items():
        if found.get(key) != shape:
            raise CheckpointError(
                f"{path} has a network of another shape: {key} is {found.get(key)}, but "
                f"{OBS_SIZE} observed bits and {len(ACTION_NAMES)} actions need {shape}"
            )
    network.load_state_dict(weights)
    return NumpyPolicy(network.policy_parameters(), policy_version, greedy)


@click.command()
@click.argument("run_or_checkpoint", type=click.Path(path_type=Path), required=False)
@click.option("--agent", type=click.Choice(SCRIPTED_AGENTS),
              help="Evaluate this scripted agent instead of a checkpoint.")
@click.option("--which", type=click.Choice(["best", "latest"]),
              help="Checkpoint of a run folder.  [default: best if there is one]")
@click.option("--stochastic", is_flag=True,
              help="Sample the policy's actions, as in training, instead of its likeliest.")
@click.option("--episodes", type=click.IntRange(1, MAXIMUM_EPISODES), default=100,
              show_default=True, help="Episodes in each cell.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True,
              help="The same seed gives the same scores, whatever the number of workers.")
@click.option("--red-agent", "red_agents", type=click.Choice(RED_AGENTS), multiple=True,
              default=RED_AGENTS, help="Only this one; may be given again.  [default: all three]")
@click.option("--max-steps", "horizons", type=click.IntRange(min=1), multiple=True,
              default=HORIZONS, help="Only so many steps; may be given again.  "
                                     "[default: 30, 50 and 100]")
@click.option("--simulator", type=click.Choice(["cyborg", "cyborg-upstream"]), default="cyborg",
              show_default=True, help="cyborg is the csle-cyborg package, sped up without changing "
                                      "a bit; cyborg-upstream is the official CybORG package, if "
                                      "installed.")
@click.option("--stock-simulator", is_flag=True, help="csle-cyborg without the speed-ups.")
@click.option("--n-workers", type=click.IntRange(min=1),
              help="Worker processes.  [default: one a core]")
@click.option("--json", "json_path", type=click.Path(path_type=Path), metavar="FILE",
              help="Where to write the scores.  [default: evaluation.json in the run folder]")
@click.option("--output-dir", type=click.Path(path_type=Path), metavar="FOLDER",
              help="Where to write a result file in the challenge's format.")
@click.option("--author", default="anonymous", show_default=True, help="For that file.")
@click.option("--team", default="none", show_default=True, help="For that file.")
@click.option("--quiet", is_flag=True, help="No progress bar.")  # fmt: skip
def evaluate(
    run_or_checkpoint: Path | None,
    agent: str | None,
    which: str | None,
    stochastic: bool,
    episodes: int,
    seed: int,
    red_agents: tuple[str, ...],
    horizons: tuple[int, ...],
    simulator: str,
    stock_simulator: bool,
    n_workers: int | None,
    json_path: Path | None,
    output_dir: Path | None,
    author: str,
    team: str,
    quiet: bool,
) -> None:
    """Score an agent by the challenge's protocol, beside the leaderboard.

    RUN_OR_CHECKPOINT is a training run's folder or a checkpoint file of one. An episode's score is
    the sum of its rewards; a cell of the table is the mean of one red agent's episodes of one
    length.

    Example: evaluate runs/20261120-120000-async-B_lineAgent --episodes 1000
    """
    from workflow_rl.checkpoint import CheckpointError
    from workflow_rl.cyborg_env import CyborgEnv

    logging.basicConfig(format="%(levelname)s: %(message)s")
    if (run_or_checkpoint is None) == (agent is None):
        raise click.UsageError("give either a run folder or checkpoint, or --agent, and not both")
    if which is not None and not (run_or_checkpoint and run_or_checkpoint.is_dir()):
        raise click.UsageError(f"--which {which} chooses a checkpoint of a run folder: give one")
    if stock_simulator and simulator != "cyborg":
        raise click.UsageError(f"--stock-simulator goes with --simulator cyborg, not {simulator}")
    try:
        actor: Actor | str
        if run_or_checkpoint is not None:
            source = checkpoint_path(run_or_checkpoint, which)
            actor, name = load_policy(source, greedy=not stochastic), str(source)
            class_name = "PPOAgent"
        else:
            assert agent is not None
            actor = name = agent
            class_name = "".join(map(str.title, agent.split("-"))) + "Agent"
        if simulator == "cyborg-upstream":
            CyborgEnv(simulator=simulator)  # Is it installed?
    except (CheckpointError, ImportError) as error:
        raise click.UsageError(str(error)) from None
    if json_path is None and run_or_checkpoint is not None and run_or_checkpoint.is_dir():
        json_path = run_or_checkpoint / "evaluation.json"
    if json_path is not None:
        require_writable(json_path, "--json")
    if output_dir is not None:
        require_writable_folder(output_dir, "--output-dir")
    try:
        evaluation = evaluate_actor(
            actor,
            episodes,
            seed,
            "cyborg-stock" if stock_simulator else simulator,
            n_workers,
            horizons,
            red_agents,
            name,
            quiet,
        )
    except TooManyFailuresError as error:
        click.echo(f"Error: {error}", err=True)
        raise SystemExit(1) from None
    click.echo(score_table(evaluation))
    click.echo(
        f"{name} on {evaluation.simulator}: {episodes} episodes a cell, seed {seed}, "
        f"{evaluation.seconds:.1f} s.\n{LEADERBOARD_NOTE}"
    )
    if json_path is not None:
        actions = "scripted" if agent else "sampled" if stochastic else "greedy"
        write_text(json_path, json.dumps({**to_dict(evaluation), "actions": actions}, indent=2))
        click.echo(f"scores: {json_path}")
    if output_dir is not None:
        path = output_dir / f"{datetime.now():%Y%m%d_%H%M%S}_{class_name}.txt"
        write_text(path, official_text(evaluation, author, team, class_name))
        click.echo(f"result file: {path}")
