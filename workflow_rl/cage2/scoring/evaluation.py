"""The official CAGE-2 protocol: three red agents, 30, 50 and 100 steps, mean total rewards."""

from __future__ import annotations

import functools
import logging
import os
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import click
import numpy as np
from tqdm import tqdm

from agents.policies.archive import MOST_BYTES
from agents.policies.numpy_policy import Actor, NumpyPolicy
from workflow_rl.cage2.agent.scripted import SCRIPTED_AGENTS
from workflow_rl.cage2.cyborg.simulator_version import simulator_version
from workflow_rl.cage2.env.arguments import OBS_SIZE
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage2.env.options import STEPS, chosen_simulator, require_simulator
from workflow_rl.cage2.scenario2 import HORIZONS, RED_AGENTS
from workflow_rl.cage2.scoring.evaluation_env import EvaluationEnv, PolicyBlue, ScriptedBlue
from workflow_rl.cage2.scoring.leaderboard import LEADERBOARD_NOTE
from workflow_rl.cage2.scoring.scores import (
    CellScore,
    Evaluation,
    official_text,
    score_table,
    to_dict,
)
from workflow_rl.collection.failures import TooManyFailuresError
from workflow_rl.collection.local_pool import LocalPool
from workflow_rl.commands.options import (
    EPISODES,
    PATH,
    PROCESSES,
    SEED,
    GroupedCommand,
    under,
)
from workflow_rl.environments.env_batch import SerialEnvs
from workflow_rl.environments.environment import Environment, InvalidEnvironmentError
from workflow_rl.environments.episode import EpisodeSpec, SeedStream, episode_spec
from workflow_rl.output_files import (
    require_writable,
    require_writable_folder,
    sha256_of,
    write_text,
)
from workflow_rl.runs.config import usable_cores
from workflow_rl.runs.evaluation import AGENT_DIGEST, play_with_progress, write_scores

MAXIMUM_EPISODES = 1_000_000


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
    its number there, not on the workers nor on the other cells. Raises TooManyFailuresError,
    also if any episode cannot be played.
    """
    n_workers = n_workers or usable_cores()
    blue = ScriptedBlue(actor) if isinstance(actor, str) else PolicyBlue(actor)
    horizons = sorted(set(horizons))
    red_agents = [red_agent for red_agent in RED_AGENTS if red_agent in red_agents]
    cells = []
    start = time.perf_counter()
    with tqdm(
        total=len(horizons) * len(red_agents) * episodes, unit="ep", disable=quiet or None
    ) as progress_bar:
        for max_steps in horizons:
            specs = [
                cell_spec(seed, max_steps, red_agent, number)
                for red_agent in red_agents
                for number in range(episodes)
            ]
            make_env = functools.partial(EvaluationEnv, max_steps, simulator)
            make_envs = functools.partial(SerialEnvs, make_env, variant_option="red_agent")
            n_used = min(n_workers, len(specs))
            with LocalPool(make_envs, n_used, preload=Cage2(simulator=simulator).preload) as pool:
                trajectories = play_with_progress(pool, blue, specs, progress_bar, _name_of)
            cells += [
                CellScore(max_steps, red_agent, [t for t in trajectories if t.variant == red_agent])
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
    return episode_spec(seed, cell * MAXIMUM_EPISODES + number, (red_agent,), SeedStream.EVALUATION)


def _name_of(spec: EpisodeSpec) -> str:
    """An episode of `cell_spec`, as its cell counts it."""
    cell, number = divmod(spec.number, MAXIMUM_EPISODES)
    return f"{number} ({spec.variant}, {cell // len(RED_AGENTS)} steps)"


def load_policy(path: str | os.PathLike[str], greedy: bool = True) -> Actor:
    """The actor of a run folder, checkpoint or policy file on the 52 bits. Raises CheckpointError,
    also if it is not for CAGE-2."""
    return on_the_bits(*load_trained(path, greedy), path)


def load_trained(
    path: str | os.PathLike[str], greedy: bool = True, which: str | None = None
) -> tuple[NumpyPolicy, Environment]:
    """The policy of a run folder, checkpoint or policy file, and the environment that it was
    trained on. Raises CheckpointError, also if it is not for CAGE-2."""
    from workflow_rl.runs.checkpoint import CheckpointError
    from workflow_rl.runs.saved_agent import load_saved

    policy, environment = load_saved(Path(path), which, greedy)
    spaces = (environment if isinstance(environment, Cage2) else Cage2()).spaces()
    first, last = policy.parameters.weights[0], policy.parameters.biases[-1]
    if (len(first), policy.distribution) != (spaces.obs_dim, spaces.distribution):
        if not isinstance(environment, Cage2):
            raise CheckpointError(f"{path} was trained on {environment.env_id}, not on CAGE-2")
        raise CheckpointError(
            f"{path} has a network of another shape: from {len(first)} numbers to {len(last)}, but "
            f"{spaces.obs_dim} observed bits and {spaces.distribution.n_outputs} actions are needed"
        )
    return policy, environment


def on_the_bits(policy: Actor, environment: Environment, path: str | os.PathLike[str]) -> Actor:
    """A policy of this environment, as an actor on the 52 bits. Raises CheckpointError, naming
    `path`."""
    from workflow_rl.runs.checkpoint import CheckpointError

    try:
        actor = environment.bare_actor(policy)
    except InvalidEnvironmentError as error:
        raise CheckpointError(f"{path}: {error}, which no evaluation shows") from None
    if isinstance(environment, Cage2) and environment.observation == "belief":
        _compile_beliefs(actor)
    return actor


def _compile_beliefs(actor: Actor) -> None:
    """Unless they are: the workers would each do so, and nobody would know why it takes long."""
    from workflow_rl.cage2.compiled.blue_belief import BELIEF, begin_beliefs
    from workflow_rl.cage2.compiled.jit import announce_compiling

    announce_compiling("what Blue concludes", "a minute", (begin_beliefs,), BELIEF)
    for _ in range(2):
        actor.act(np.zeros((1, OBS_SIZE), np.uint8))
    actor.reset(0)


_OPTIONS: list[click.Parameter] = [
    click.Argument(["run_or_checkpoint"], type=PATH, required=False),
    *under(
        "What is scored",
        click.Option(["--agent"], type=click.Choice(SCRIPTED_AGENTS),
                     help="Evaluate this scripted agent instead of a checkpoint."),
        click.Option(["--which"], type=click.Choice(["best", "latest"]),
                     help="Checkpoint of a run folder.  [default: best if there is one]"),
        click.Option(["--stochastic"], is_flag=True,
                     help="Sample the policy's actions, as in training, instead of its likeliest."),
    ),
    *under(
        "Episodes",
        click.Option(["--episodes"], type=EPISODES, default=100,
                     show_default=True, metavar="N", help="Episodes in each cell."),
        click.Option(["--seed"], type=SEED, default=0, show_default=True, metavar="N",
                     help="The same seed gives the same scores, whatever the number of workers."),
        click.Option(["--red-agent", "red_agents"], type=click.Choice(RED_AGENTS), multiple=True,
                     default=RED_AGENTS, help="Only this one; may be given again.  "
                                              "[default: all three]"),
        click.Option(["--max-steps", "horizons"], type=STEPS, multiple=True,
                     default=HORIZONS, metavar="N", help="Only so many steps; may be given again.  "
                                                         "[default: 30, 50 and 100]"),
    ),
    *under(
        "What is written",
        click.Option(["--json", "json_path"], type=PATH, metavar="FILE",
                     help="Where to write the scores.  [default: evaluation.json in the run "
                          "folder, if all cells of its default checkpoint are scored]"),
        click.Option(["--output-dir"], type=PATH, metavar="FOLDER",
                     help="Where to write a result file in the challenge's format."),
        click.Option(["--author"], default="anonymous", show_default=True, help="For that file."),
        click.Option(["--team"], default="none", show_default=True, help="For that file."),
        click.Option(["--quiet"], is_flag=True, help="No progress bar."),
    ),
    *under(
        "How they are played",
        click.Option(["--n-workers"], type=PROCESSES, metavar="N",
                     help="Worker processes.  [default: one a core]"),
        click.Option(["--simulator"], type=click.Choice(["cyborg", "cyborg-upstream"]),
                     default="cyborg", show_default=True,
                     help="cyborg is the csle-cyborg package, sped up without changing a bit; "
                          "cyborg-upstream is the official CybORG package, if installed."),
        click.Option(["--stock-simulator"], is_flag=True,
                     help="csle-cyborg without the speed-ups."),
    ),
]  # fmt: skip


@click.command(cls=GroupedCommand, params=_OPTIONS)
def evaluate(**options: Any) -> None:
    """Score an agent by the challenge's protocol, beside the leaderboard.

    RUN_OR_CHECKPOINT is a training run's folder, a checkpoint or policy file, or champion, the
    agent that comes with the package. An episode's score is the sum of its rewards; a cell of the
    table is the mean of one red agent's episodes of one length.

    These are the options for CAGE-2. For a run of another environment, `evaluate RUN --help` lists
    other options, such as --trust.

    Example: evaluate runs/20261120-120000-async-B_lineAgent --episodes 1000
    """
    logging.basicConfig(format="%(levelname)s: %(message)s")
    _check_combinations(options)
    simulator = chosen_simulator(options)
    require_simulator(simulator)
    json_path, output_dir = _checked_outputs(options)
    actor, name, class_name, digest = _chosen_actor(options)
    try:
        evaluation = evaluate_actor(
            actor,
            episodes=options["episodes"],
            seed=options["seed"],
            simulator=simulator,
            n_workers=options["n_workers"],
            horizons=options["horizons"],
            red_agents=options["red_agents"],
            name=name,
            quiet=options["quiet"],
        )
    except TooManyFailuresError as error:
        click.echo(f"Error: {error}", err=True)
        raise SystemExit(1) from None
    actions = "scripted" if options["agent"] else "sampled" if options["stochastic"] else "greedy"
    click.echo(score_table(evaluation))
    click.echo(
        f"{name} ({actions} actions) on {evaluation.simulator}: {options['episodes']} episodes a "
        f"cell, seed {evaluation.seed}, {evaluation.seconds:.1f} s.\n{LEADERBOARD_NOTE}"
    )
    if json_path is not None:
        content = {**to_dict(evaluation), "actions": actions, AGENT_DIGEST: digest}
        write_scores(json_path, content, _episodes_a_cell, "episodes a cell")
    if output_dir is not None:
        path = output_dir / f"{datetime.now():%Y%m%d_%H%M%S}_{class_name}.txt"
        write_text(path, official_text(evaluation, options["author"], options["team"], class_name))
        click.echo(f"result file: {path}")


def _episodes_a_cell(scores: Mapping[str, Any]) -> int:
    return max(int(cell["episodes"]) for cell in scores["cells"])


def _check_combinations(options: dict[str, Any]) -> None:
    source, agent = options["run_or_checkpoint"], options["agent"]
    if (source is None) == (agent is None):
        raise click.UsageError("give a run folder or a checkpoint, or else --agent NAME")
    if agent is not None and options["stochastic"]:
        raise click.UsageError(f"--stochastic goes with a checkpoint, not with --agent {agent}")
    if options["which"] is not None and not (source and source.is_dir()):
        raise click.UsageError(f"--which {options['which']} goes with a run folder: give one")


def _checked_outputs(options: dict[str, Any]) -> tuple[Path | None, Path | None]:
    """The JSON file and the folder of the result file to write. An evaluation takes minutes: what
    is wrong with them should show before it."""
    json_path, source = options["json_path"], options["run_or_checkpoint"]
    if json_path is None and source is not None and source.is_dir() and _is_standard(options):
        json_path = source / "evaluation.json"
    if json_path is not None:
        require_writable(json_path, "--json")
    if options["output_dir"] is not None:
        require_writable_folder(options["output_dir"], "--output-dir")
    return json_path, options["output_dir"]


def _is_standard(options: dict[str, Any]) -> bool:
    """Whether this is the run's evaluation proper, which its folder keeps: not of another of its
    checkpoints, with sampled actions or in some of the cells."""
    return (
        options["which"] is None
        and not options["stochastic"]
        and set(options["red_agents"]) == set(RED_AGENTS)
        and set(options["horizons"]) == set(HORIZONS)
    )


def _chosen_actor(options: dict[str, Any]) -> tuple[Actor | str, str, str, str | None]:
    """What `evaluate_actor` plays, its name, its class's name in the result file's, and the digest
    of its file, if it has one."""
    from workflow_rl.runs.checkpoint import CheckpointError
    from workflow_rl.runs.saved_agent import saved_path

    try:
        if (agent := options["agent"]) is not None:
            return agent, agent, "".join(map(str.title, agent.split("-"))) + "Agent", None
        path = saved_path(options["run_or_checkpoint"], options["which"])
        # Before it is loaded: a run that goes on may replace it.
        digest = sha256_of(path, MOST_BYTES)
        return load_policy(path, greedy=not options["stochastic"]), str(path), "PPOAgent", digest
    except CheckpointError as error:
        raise click.UsageError(str(error)) from None
