"""The Python interface: train, load an agent, evaluate it, in a few lines each.

from workflow_rl import TrainConfig, evaluate, load_agent, train

train(TrainConfig("async", env="CartPole-v1", total_steps=50_000), "runs/cart-pole")
print(evaluate("runs/cart-pole", episodes=100).mean)
action = load_agent("runs/cart-pole").act(observation)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium

from workflow_rl.agents.ppo.config import PPOConfig as PPOConfig
from workflow_rl.environments.source import default_env, guests, interpreter
from workflow_rl.errors import ConfigError
from workflow_rl.evaluation.evaluate import ChallengeScore, Evaluation, is_scripted, score_agent
from workflow_rl.reporting import learning_curve
from workflow_rl.runs.config import TrainConfig as TrainConfig
from workflow_rl.runs.copy_teacher import written_episodes
from workflow_rl.runs.execute import Plan, execute, require_ready, run_folder
from workflow_rl.runs.folder import (
    begins_with_another,
    distinct_names,
    read_config,
    read_metrics,
    return_at_the_end,
    runs_in,
)
from workflow_rl.runs.on_update import OnUpdate
from workflow_rl.runs.read_checkpoint import load_checkpoint
from workflow_rl.runs.return_curves import groups_of, known_to_all, warn_of_short_runs, with_returns
from workflow_rl.runs.saved_agent import load_agent as load_agent
from workflow_rl.runs.saved_agent import load_player, require_guest, saved_path, scored_as
from workflow_rl.runs.signature import signed
from workflow_rl.runs.trust import sign_named

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PathLike = str | os.PathLike[str]
MakeEnv = Callable[..., gymnasium.Env[Any, Any]]


def train(
    config: TrainConfig,
    run_dir: PathLike | None = None,
    *,
    env: MakeEnv | None = None,
    resume: bool = False,
    init_from: PathLike | None = None,
    on_update: OnUpdate | None = None,
    quiet: bool = True,
    trust: bool = False,
) -> Path:
    """Train an agent, from any thread, and return the run's folder.

    Leaves torch deterministic, with the threads that config.learner_threads asks for. Import
    workflow_rl before NumPy and torch: it holds them to the kernels that all processors have, see
    `portable`.

    Args:
        config: what is trained, how, and for how long.
        run_dir: where the run is kept, a new or empty folder; None: a new folder in `runs`.
        env: a function that makes the environment, called with config.env_args. config.env is then
            only a name. The function is sent to the workers by cloudpickle.
        resume: go on with the run in run_dir, past its end if the config's end is later.
        init_from: a run or checkpoint whose agent the run begins with; not with resume.
        on_update: called with an `Update` after every update. It changes no weights, and can log
            numbers and stop the run.
        quiet: show no progress bar.
        trust: treat a config and files of somebody else as the user's own. The files are signed,
            and what the config and the files name is imported, called and joined.

    Raises:
        ConfigError: a setting makes no sense here.
        UserError: run_dir, or the checkpoint to go on or begin with, cannot be used.
        DivergedError: a batch could not be learned from. The last checkpoint is kept.
        NotWrittenError: the run cannot be written. The last checkpoint is kept.
        TooManyFailuresError: workers failed too often. A checkpoint has been saved.
        ObservationError: an environment gave a number that is not finite. A checkpoint has been
            saved.
    """
    if resume and init_from is not None:
        raise ConfigError(
            "init_from", f"{init_from} does not go with resume: a run goes on with its own agent"
        )
    if env is not None:
        config = config.changed(make_env=env, **_named_after(env, config))
    if trust:
        sign_named([run_dir, init_from, config.teacher])
    if trust and config.named_by_file:
        config = TrainConfig.to_train(signed(config.to_dict()), names_cluster=True)
    config.require_named(names_cluster=trust or not config.named_by_file)
    begin_with = None if init_from is None else load_checkpoint(saved_path(Path(init_from)))
    folder, resumed = None if run_dir is None else Path(run_dir), None
    if resume:
        from workflow_rl.runs.resume import checkpoint_to_resume

        if folder is None:
            raise ConfigError("run_dir", "None: give the folder of the run to resume")
        resumed = checkpoint_to_resume(folder, config)
    require_ready(config, begins=resumed is None)
    with run_folder(folder, config) as path:
        execute(
            Plan([config], [resumed]),
            path,
            init_from=begin_with,
            quiet=quiet,
            draw=learning_curve.plot_learning_curve,
            on_update=on_update,
        )
        return path


def _named_after(env: MakeEnv, config: TrainConfig) -> dict[str, Any]:
    """Return the fields that name the function that makes an environment.

    A guest's name would stand for the guest, and its arguments are of no use.
    """
    if config.env not in guests:
        return {}
    name = getattr(env, "__qualname__", type(env).__qualname__)
    return {"env": f"{env.__module__}:{name}", "env_args": {}}


def record(
    agent: PathLike | Callable[..., Any],
    file: PathLike,
    episodes: int = 100,
    *,
    env: str | MakeEnv | None = None,
    env_args: Mapping[str, Any] = {},
    seed: int = 0,
    n_workers: int | None = None,
    trust: bool = False,
    worker_timeout: float = 60.0,
    env_python: str | None = None,
    ignore_unknown: bool | None = None,
) -> Path:
    """Write episodes of an agent to a file, which `TrainConfig(teacher=file)` copies.

    The episodes are those that the agent would play as the teacher of a run with this seed.

    Args:
        agent: a run's folder, a checkpoint or policy file, the name of a released or scripted
            agent; or a function of an observation that returns an action, or a class: see
            `teaching.teachers`.
        file: the .npz file to write: see docs/reference/episodes.md. It may replace a file of
            episodes, and no other. Or "minari:ID", a new dataset of Minari's.
        episodes: number of episodes.
        env: the environment's id, or the function that makes it; None: what the agent was trained
            on, or the default environment.
        env_args: arguments of the environment, which replace those of the agent's file.
        seed: the same seed gives the same episodes, whatever the number of workers.
        n_workers: processes; None: one for each core.
        trust: sign the agent's file as the user's own, and import and call what the file names.
        worker_timeout: seconds within which each call of the environment must return.
        env_python: the interpreter that plays the environment, by default that of the agent's run.
        ignore_unknown: see TrainConfig, by default as in the agent's run.

    Raises:
        ConfigError: there is no such agent, it does not play in this environment, or the
            environment cannot be made.
        UserError: the agent's file cannot be read, or its environment is not to be trusted.
        TooManyFailuresError: an episode cannot be played.
        OSError: the file cannot be written, or holds something else than episodes.
    """
    who = agent if callable(agent) else os.fspath(agent)
    if trust:
        sign_named(who)
    written_episodes(
        *(who, Path(file), episodes, env, env_args, seed, n_workers),
        worker_timeout=worker_timeout,
        env_python=env_python and interpreter(env_python),
        ignore_unknown=ignore_unknown,
    )
    return Path(file)


def evaluate(
    run: PathLike,
    episodes: int = 100,
    *,
    env: MakeEnv | str | None = None,
    seed: int = 0,
    greedy: bool | None = None,
    n_workers: int | None = None,
    worker_timeout: float = 60.0,
    trust: bool = False,
    env_python: str = "",
    **settings: Any,
) -> Evaluation | ChallengeScore:
    """Score an agent, as the command `evaluate` does.

    Args:
        run: a run's folder, a checkpoint or policy file, or the name of a released or a scripted
            agent.
        episodes: number of episodes, on CAGE-2 in each cell.
        env: the function that makes the environment, if it was given to `train`. Or the name of the
            environment of a scripted agent, by default CAGE-2.
        seed: the same seed gives the same returns, whatever the number of workers.
        greedy: choose the likeliest actions, or else sample them as in training; None: as the run's
            config says, see `play` of TrainConfig.
        n_workers: processes; None: one for each core.
        worker_timeout: seconds within which each call of the environment must return.
        trust: sign the run's files as the user's own, and import and call what the files name.
        env_python: the interpreter that plays the environment, by default that of the training.
        settings: what else the command can choose in this environment, such as red_agent.

    Returns:
        The score by the challenge's evaluation, if the environment is of a challenge. Otherwise the
        returns of episodes on the environment of the training. Both have `mean` and `interval_95`.

    Raises:
        UserError: there is no agent in `run` that can be used.
        ConfigError: the environment has no such setting, or not this value of it, or cannot be
            made; or the agent cannot be scored.
        ValueError: fewer episodes than 1, or a negative seed.
        TooManyFailuresError: workers failed too often, or an episode cannot be played or scored. A
            score is of all the episodes.
    """
    played: dict[str, Any] = {"episodes": episodes, "seed": seed, "n_workers": n_workers}
    played |= {"worker_timeout": worker_timeout, "quiet": True}
    env_id = default_env() if env is None or callable(env) else env
    require_guest(env_id)
    if trust:
        sign_named(run)
    if callable(env) or not is_scripted(str(run), env_id):
        make_env = env if callable(env) else None
        python = interpreter(env_python)
        player = load_player(Path(run), None, greedy, make_env, worker_timeout, True, python)
        name = scored_as(Path(run))
        played |= {"is_own": callable(env), "trained": return_at_the_end(Path(name).parent)}
        return score_agent(name, *player, settings, **played)
    return score_agent(str(run), None, None, {"agent": str(run), **settings}, env_id, **played)


def learning_curves(*runs: PathLike, labels: Sequence[str] = ()) -> Figure:
    """Draw the returns of runs against episodes, env steps and wall time.

    Runs that differ in their seed alone are one line, their mean, with its 95% confidence
    interval. A notebook shows the figure that is returned.

    Args:
        runs: folders of runs or of populations, or the folder of a duel.
        labels: what the legend calls several lines, in the order of their first runs; by default,
            what the folders are called. The picture of one population or duel takes none.

    Raises:
        UserError: a folder is no run's.
        ConfigError: there are more or fewer labels than lines, or two are equal.
    """
    from workflow_rl.studies.policies_figure import figure_of_folder  # It loads matplotlib.

    paths = [Path(run) for run in runs]
    figure = figure_of_folder(paths[0]) if len(paths) == 1 else None
    if figure is not None and labels:
        raise ConfigError("label", f"the lines of {paths[0]} have the names of its policies")
    if figure is not None:
        return figure
    folders = runs_in(*paths)
    names = distinct_names(folders)
    folder_of = dict(zip(names, folders, strict=True))
    metrics = with_returns({name: read_metrics(folder) for name, folder in folder_of.items()})
    names = list(metrics)
    configs = [read_config(folder_of[name]) for name in names]
    about = [
        {**config.flat(), "init_from": begins_with_another(folder_of[name])}
        for name, config in zip(names, configs, strict=True)
    ]
    groups = {name: [names[n] for n in group] for name, group in groups_of(names, about).items()}
    warn_of_short_runs(metrics, groups.values())
    if labels:
        if not len({*labels}) == len(labels) == len(groups):
            told = f"{', '.join(labels)}: give different labels, one for each line:"
            raise ConfigError("label", f"{told} {', '.join(groups)}")
        groups = dict(zip(labels, groups.values(), strict=True))
    return learning_curve.learning_curve_figure(metrics, known_to_all(configs), groups)
