"""The command `evaluate`: score an agent on the environment that it was trained on."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from workflow_rl.commands.errors import own_command
from workflow_rl.commands.options import (
    EPISODES,
    PATH,
    PYTHON,
    SAVED,
    SEED,
    OutputFile,
    blaming,
    given_options,
    given_settings,
    plain_option,
    quiet_option,
    require_run_folder,
    setting_options,
    spelling,
    stochastic_option,
    under,
    which_option,
    worker_options,
)
from workflow_rl.commands.options_by_env import (
    Look,
    Named,
    OpenCommand,
    env_of_agents,
    name_of,
    place_options,
    require_agent,
    scripted_agents,
)
from workflow_rl.environments.environment import Environment
from workflow_rl.environments.source import default_env, guests
from workflow_rl.errors import ConfigError
from workflow_rl.output_files import (
    NOT_OURS,
    require_writable,
    require_writable_folder,
    sha256_of,
    write_json,
)

if TYPE_CHECKING:
    from workflow_rl.agents.policies.numpy_policy import Policy
    from workflow_rl.agents.settings import Settings
    from workflow_rl.environments.challenge import Scores, Scoring
    from workflow_rl.evaluation.evaluate import Shortfall
    from workflow_rl.runs.config import TrainConfig


class Scored(NamedTuple):
    """Who is scored.

    actor, environment: None for an agent that the settings name. actions: how the agent chooses:
    greedy, sampled or scripted. digest: SHA-256 of the agent's file.
    """

    name: str
    actions: str
    actor: Policy | None = None
    environment: Environment | None = None
    digest: str | None = None


def _named(look: Look) -> Named:
    env_id = env_of_agents(look)
    guest = guests.get(env_id)
    scoring = None if guest is None else guest.scoring()
    if guest is None or scoring is None:
        return Named(env_id, [])
    options = setting_options(scoring.settings)
    for option in options:
        option.secondary_opts = []  # A flag has no "--no-" here.
    return Named(env_id, [*under(f"Agents for {name_of(guest)}", *options), *place_options(guest)])


_OPTIONS: list[click.Parameter] = [
    click.Argument(["agents"], type=SAVED, nargs=-1, metavar="RUN_OR_CHECKPOINT..."),
    *under(
        "What is scored",
        plain_option("--env", metavar="ID", default=default_env(),
                     help="Environment of an agent that is scripted."),
        which_option(),
        stochastic_option(),
        plain_option("--env-python", type=PYTHON, default="", metavar="PATH",
                     show_default="that of the training",
                     help="Python interpreter that plays the environment."),
    ),
    *under(
        "Episodes",
        plain_option("--episodes", type=EPISODES, default=100,
                     help="Number of episodes (CAGE-2: in each cell)."),
        plain_option("--seed", type=SEED, default=0,
                     help="The same seed gives the same scores, for any number of workers."),
    ),
    *under(
        "What is written",
        plain_option("--json", "json_path", type=OutputFile(".json"), metavar="FILE",
                     help="File for the scores.  [default: evaluation.json in the run folder, if "
                          "its default checkpoint is scored with its likeliest actions (CAGE-2: "
                          "in all cells)]"),
        plain_option("--video", type=PATH, metavar="FOLDER",
                     help="Folder in which to record the first episode as an mp4, if the "
                          "environment draws pictures."),
        quiet_option(),
    ),
    *under("How the episodes are played", *worker_options()),
]  # fmt: skip


@click.command(cls=OpenCommand, params=_OPTIONS, named=_named)
def evaluate(agents: tuple[Path, ...], **options: Any) -> None:
    """Score agents on the environment that each was trained on.

    RUN_OR_CHECKPOINT is a training run's folder, a checkpoint or policy file, champion, the agent
    that comes with the package, or the name of a scripted agent of --env. Several are scored one
    after another, in the same episodes; then compare shows them together.

    An agent for CAGE-2 is scored by the challenge's protocol, beside the leaderboard: a cell of the
    table is the mean return of the episodes with one red agent and one length. A team for CAGE-4 is
    scored by that challenge's evaluation: the mean of the episodes' total rewards.

    Example: evaluate runs/20261120-120000-async-B_lineAgent --episodes 1000
    """
    for name in ("json_path", "video") if len(agents) > 1 else ():
        if options[name]:
            raise click.UsageError(f"{options[name]} is for one agent, and {len(agents)} are given")
    for agent in agents if len(agents) > 1 else ():  # A wrong name costs no evaluation.
        _player_of(agent, options)
    are_kept = [_evaluate(agent, options) for agent in agents or (None,)]
    if len(agents) > 1 and all(are_kept):
        click.echo(f"together: {own_command('compare', *dict.fromkeys(agents))}")


def _player_of(agent: Path | None, options: Mapping[str, Any]) -> tuple[Path | None, Scored]:
    """Return where a trained agent lies, or None for a scripted one, and who plays.

    agent: RUN_OR_CHECKPOINT. Raises click.UsageError.
    """
    scripted, sampled = options.get("agent"), options["stochastic"]
    if agent is not None and not agent.exists() and str(agent) in scripted_agents(options["env"]):
        agent, scripted = None, str(agent)
    if agent is not None:
        require_agent(agent, options["env"], "RUN_OR_CHECKPOINT")
    require_run_folder(options["which"], agent)
    if (agent is None) == (scripted is None):
        raise click.UsageError("give a run folder, a checkpoint, or a scripted agent's name")
    if agent is not None:
        greedy = None if sampled is None else not sampled
        given = {name: options[name] for name in ("which", "worker_timeout", "env_python")}
        with blaming(_blamed({"env_python"} & given_options())):
            return agent, _load(agent, greedy=greedy, **given)
    assert scripted is not None
    if sampled is not None:
        raise click.UsageError(
            f"--stochastic and --greedy go with a checkpoint, not with --agent {scripted}"
        )
    if options["env_python"]:
        raise click.UsageError(
            f"--env-python {options['env_python']} does not go with {scripted}, which plays in "
            "this interpreter"
        )
    return None, Scored(scripted, "greedy" if Path(scripted).exists() else "scripted")


def _evaluate(agent: Path | None, options: Mapping[str, Any]) -> bool:
    """Score an agent. Return whether the scores are in its run's folder, where compare looks."""
    from workflow_rl.evaluation.evaluate import record_video, scoring_of
    from workflow_rl.runs.folder import runs_in

    source, player = _player_of(agent, options)
    env_id = options["env"] if player.environment is None else player.environment.env_id
    if "env" in given_options() and options["env"] != env_id:
        raise click.BadParameter(
            f"{options['env']} is not what {source} was trained on, {env_id}: leave it out",
            param_hint="--env",
        )
    scoring = scoring_of(env_id)
    scripted = {"agent": player.name} if player.actor is None else {}
    settings = given_settings(scoring.settings, {**options, **scripted}, scripted)
    for name, value in settings:
        if isinstance(value, Path):
            require_writable_folder(value, spelling(name))
    json_path = options["json_path"]
    is_own = not options["which"] and options["stochastic"] is None and scoring.is_whole(settings)
    is_kept = json_path is None and source is not None and source.is_dir() and is_own
    is_best_of_several = False
    if is_kept:
        assert source is not None
        json_path = source / "evaluation.json"
        is_best_of_several = runs_in(source) != [source]
    if json_path is not None:
        require_writable(json_path, "--json")
    played = {
        name: options[name] for name in ("episodes", "seed", "n_workers", "worker_timeout", "quiet")
    }
    with blaming(_blamed({"video", "env_python", *type(settings).model_fields})):
        video = None
        if options["video"]:
            if player.actor is None or player.environment is None:
                raise ConfigError("video", f"there is none of {player.name}")
            video = record_video(
                *(player.actor, player.environment, options["video"], options["seed"]),
                options["worker_timeout"],
            )
        scores, short = _scores(player, scoring, settings, **played)
    acts = "" if player.actor is None else f" ({player.actions} actions)"
    written = [] if json_path is None else [_write(json_path, scores, scoring, player, short)]
    budgets = _budget_lines(Path(player.name).parent, scores, scoring)
    click.echo("\n".join([*scores.lines(f"{player.name}{acts}"), *budgets, *written]))
    if is_best_of_several:
        assert source is not None
        policies = f"{own_command('evaluate', source)}/policy-*"
        click.echo(f"the best policy alone; to score each: {policies}")
    if video:
        click.echo(f"video: {video}")
    return is_kept


def score_finished_run(run_path: Path, config: TrainConfig, episodes: int, quiet: bool) -> None:
    """Score the agent of a run that has just ended: print what counts most, write all scores."""
    from workflow_rl.collection.cluster_address import NONE
    from workflow_rl.evaluation.evaluate import scoring_of
    from workflow_rl.runs.saved_agent import play_sampled

    json_path = run_path / "evaluation.json"
    require_writable(json_path, "--final-evaluation")
    with blaming(_blamed()):
        scoring = scoring_of(config.env)
        settings = scoring.settings_for(config.env_args)
        player = _load(run_path, worker_timeout=config.worker_timeout)
        scores, short = _scores(
            player,
            scoring,
            settings,
            episodes=episodes,
            seed=0,
            n_workers=config.given.get("n_workers") if config.cluster == NONE else None,
            quiet=quiet,
            worker_timeout=config.worker_timeout,
        )
    if short is not None and config.play is None:
        click.echo("The agent samples its actions from now on, because --play was not given.")
        play_sampled(run_path)
        score_finished_run(run_path, config, episodes, quiet)
        return
    written = _write(json_path, scores, scoring, player, short)
    lines = scores.closing_lines(f"{player.name} ({player.actions} actions)")
    click.echo("\n".join([*lines, *_budget_lines(run_path, scores, scoring), written]))


def _budget_lines(run_path: Path, scores: Scores, scoring: Scoring) -> list[str]:
    """Return whether the scored episodes keep the budgets of the agent's run, if it has any."""
    from workflow_rl.evaluation.measures import kept_budgets
    from workflow_rl.runs.folder import read_config

    costs = getattr(scores, "costs", {})
    try:
        settings = read_config(run_path).settings
        returns = scoring.returns(scores.to_dict())
        sums = zip(*costs.values(), strict=True)
        by_task = [[*itertools.islice(sums, len(of_task))] for of_task in returns.values()]
        kept = kept_budgets(settings, [*costs], by_task)
    except NOT_OURS:  # An agent that comes without its run.
        return []
    return [f"budget {of}" for of in kept]


def _blamed(options: Collection[str] = ()) -> Callable[[str], str]:
    """Return a function from a field to the source of its wrong value: an option, or the agent."""
    return lambda name: spelling(name) if name in options else "RUN_OR_CHECKPOINT"


def _scores(
    player: Scored, scoring: Scoring, settings: Settings, **played: Any
) -> tuple[Scores, Shortfall | None]:
    from workflow_rl.evaluation.evaluate import scored
    from workflow_rl.runs.folder import return_at_the_end

    trained = return_at_the_end(Path(player.name).parent)
    who = player.actor, player.environment
    return scored(scoring, *who, settings, trained, name=player.name, **played)


def _load(
    source: Path, which: str | None = None, greedy: bool | None = None, **played: Any
) -> Scored:
    from workflow_rl.runs.saved_agent import load_player, saved_path, scored_as

    path = saved_path(source, which)
    # The digest comes first: a run that goes on may replace the file.
    digest = sha256_of(path)
    actor, environment = load_player(path, greedy=greedy, plays=True, **played)
    actions = "greedy" if actor.greedy else "sampled"
    return Scored(scored_as(source, which), actions, actor, environment, digest)


def _write(
    path: Path, scores: Scores, scoring: Scoring, player: Scored, short: Shortfall | None
) -> str:
    """Write the scores as JSON. Return a line with the path, and with a note if the scores replace
    scores of more episodes."""
    from workflow_rl.evaluation.evaluate import AGENT_DIGEST, SHORTFALL, read_scores

    content = {**scores.to_dict(), "actions": player.actions, AGENT_DIGEST: player.digest}
    content[SHORTFALL] = short and short._asdict()
    try:
        before = _episodes(scoring, read_scores(path))
    except NOT_OURS:
        before = 0
    write_json(path, content)
    is_less = before > _episodes(scoring, content)
    instead = f" (in the place of those of {before} {scoring.unit})" if is_less else ""
    return f"scores: {path}{instead}"


def _episodes(scoring: Scoring, content: Mapping[str, Any]) -> int:
    return max(map(len, scoring.returns(content).values()))
