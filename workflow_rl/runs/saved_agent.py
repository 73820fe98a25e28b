"""Load a trained agent from a run folder, a checkpoint or a policy file."""

import contextlib
import dataclasses
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from workflow_rl.agents.policies.numpy_policy import Actor, NumpyPolicy, Policy
from workflow_rl.agents.policies.team_policy import TeamPolicy, load_policy_or_team
from workflow_rl.agents.policy_from_checkpoint import policy_on, saved_number
from workflow_rl.collection import try_in_worker
from workflow_rl.environments.action_mask import without_privileged
from workflow_rl.environments.agent_player import Agent as Agent
from workflow_rl.environments.agent_player import Critic, Team, team_of
from workflow_rl.environments.environment import ENV, Environment
from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment
from workflow_rl.environments.named_by_file import needs_signature
from workflow_rl.environments.source import guests, make_environment, played_by
from workflow_rl.errors import ConfigError, UserError
from workflow_rl.plug_ins import plug_ins
from workflow_rl.runs.checkpoint import Checkpoint, save_checkpoint
from workflow_rl.runs.handed_in import LIST
from workflow_rl.runs.read_checkpoint import load_checkpoint, own_config, own_policy, own_settings
from workflow_rl.runs.signature import changed, made_here, signed
from workflow_rl.suggestions import question, word_meant

POLICY_FILE = "policy.npz"
"""The agent's file in a folder for the Hugging Face Hub."""

_log = logging.getLogger(__name__)


def policy_of(checkpoint: Checkpoint, path: Path, greedy: bool | None = None) -> Policy:
    """Return a checkpoint's actor. greedy: None means as the run's config says.

    Warns if an evaluation in the run's folder has found that likeliest actions play much worse than
    sampled actions. Raises UserError, naming `path`.
    """
    parameters = own_policy(checkpoint, path)
    try:
        policy_version = saved_number(checkpoint.agent, "policy_version")
    except ValueError as error:
        raise UserError(f"{path} cannot be used: {error}") from None
    if checkpoint.config.get("play") == "sampled":
        parameters = parameters.to_be_sampled()
    policy = parameters.player(policy_version, greedy)
    if greedy is None and policy.greedy:
        from workflow_rl.evaluation.evaluate import known_shortfall  # This imports collection.

        if (short := known_shortfall(path)) is not None:
            _log.warning("%s: %s", path, short)
    return policy


def critic_at(path: Path, policy: Policy) -> Critic | None:
    """Return the critic in a policy's file; None without a critic that needs only the policy's
    inputs."""
    if not isinstance(policy, NumpyPolicy) or path.suffix == ".npz":
        return None
    # A critic with a memory would need the episode before each observation.
    if policy.network.memory_size or policy.parameters.n_further:
        return None
    with contextlib.suppress(UserError):
        return critic_of(load_checkpoint(path), path)
    return None


def critic_of(checkpoint: Checkpoint, path: Path) -> Critic:
    """Return a function from observations [N, D], which are the policy's inputs, to values.

    The values are float64 [N], the discounted returns that the critic expects, in the environment's
    own rewards. Raises UserError, naming `path`.
    """
    its_algorithm, settings = own_settings(checkpoint, path)
    try:
        parameters, unit = its_algorithm.saved_critic(settings, checkpoint.agent)
    except ValueError as error:
        raise UserError(f"{path} cannot be used: {error}") from None
    except (RuntimeError, LookupError, TypeError, AttributeError):
        raise UserError(f"{path} has no critic that its config describes") from None
    critic = NumpyPolicy(parameters)
    n_inputs = critic.obs_dim  # A critic sees no mask.
    return lambda obs: critic.outputs(obs[:, :n_inputs])[:, 0].astype(np.float64) / unit


class SavedAgent(NamedTuple):
    """A policy, and the environment that it plays in, usually the environment of its training."""

    policy: Policy
    environment: Environment


def saved_path(source: Path, which: str | None = None) -> Path:
    """Return an agent's file in a run's folder, a released agent's file, or the path itself.

    which: "best" or "latest" in a run's folder. None means best.safetensors if it exists, otherwise
    checkpoint.safetensors, or the policy in a folder for the Hub. Raises UserError for a folder of
    runs.
    """
    if not source.exists():
        guest = guests.bringing("released", str(source))
        return source if guest is None else guest.released[str(source)]
    if not source.is_dir():
        return source
    best, latest = source / "best.safetensors", source / "checkpoint.safetensors"
    if not best.exists() and not latest.exists():
        is_for_challenge = (source / LIST).exists()
        if which is None and not is_for_challenge and (source / POLICY_FILE).exists():
            return source / POLICY_FILE
        _require_no_other_folder(source)
    if which is None:
        return best if best.exists() else latest
    return best if which == "best" else latest


def _require_no_other_folder(folder: Path) -> None:
    """Raise UserError for a folder for a challenge, and for a folder of runs."""
    if (folder / LIST).exists():
        policies = [str(path) for path in sorted(folder.glob("*.npz"))]
        raise UserError(
            f"{folder} is a folder for a challenge: give the policy in it, {' or '.join(policies)}"
        )
    runs = sorted(str(path.parent) for path in folder.glob("*/checkpoint.safetensors"))
    if runs:
        raise UserError(
            f"{folder} is no run, but a folder of runs: give one of "
            f"{', '.join(runs[:10])}{', ...' if len(runs) > 10 else ''}"
        )


def scored_as(source: Path, which: str | None = None) -> str:
    """Return an agent's name in scores: its released name, or its file."""
    return str(saved_path(source, which) if source.exists() else source)


def load_saved(source: Path, which: str | None = None, greedy: bool | None = None) -> SavedAgent:
    """Return the agent of a run folder, a checkpoint, a policy file, or a released agent's name.
    Raises UserError."""
    path = saved_path(source, which)
    if not source.exists() and path == source:
        names = list(plug_ins("released"))
        raise UserError(
            f"there is no checkpoint at {path}, nor a released agent of this name: there is "
            f"{', '.join(names)}.{question(word_meant(str(source), names))}"
        )
    if path.suffix != ".npz":
        checkpoint = load_checkpoint(path)
        policy = policy_of(checkpoint, path, greedy)
        environment = own_config(checkpoint, path).environment
        if isinstance(environment, GymnasiumEnvironment):  # Masks may be new since the training.
            environment = dataclasses.replace(environment, masks=policy.masked)
        return SavedAgent(policy, environment)
    try:
        parameters, about = load_policy_or_team(path)
        actor = parameters.player(greedy=greedy)
        environment = make_environment(
            *(about["env"], about["env_args"], not made_here(about), actor.masked),
            ignore_unknown=True,  # In training, unknown entries were left out or missing.
        )
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None
    except ConfigError as error:
        raise UserError(f"{path}: {error}") from None
    except (KeyError, TypeError, AttributeError):
        raise UserError(f"{path} does not say what environment it is for") from None
    except ValueError as error:
        raise UserError(str(error)) from None
    return SavedAgent(actor, environment)


def named_in_file(environment: Environment) -> dict[str, Any]:
    """Return the names of an environment for a policy file, signed if they name the user's code.
    Without a signature the result depends on no user, so that equal agents have equal files."""
    names = {"env": environment.env_id, "env_args": dict(environment.args)}
    return signed(names) if needs_signature(environment) else names


def save_with(source: Path, target: Path, **changes: Any) -> None:
    """Write a checkpoint with changes of its config to `target`. The result is signed if the source
    is. Raises UserError."""
    saved = load_checkpoint(source)
    save_checkpoint(target, dataclasses.replace(saved, config=changed(saved.config, **changes)))


def play_sampled(run: Path) -> None:
    """Change the agents of a finished run, so that they sample their actions when they play."""
    for file in (run / "best.safetensors", run / "checkpoint.safetensors"):
        if file.exists():
            save_with(file, file, play="sampled")


def load_player(
    source: Path,
    which: str | None = None,
    greedy: bool | None = None,
    env: Callable[..., Any] | None = None,
    worker_timeout: float = try_in_worker.TIMEOUT,
    plays: bool = False,
    env_python: str = "",
) -> SavedAgent:
    """Load an agent as `load_saved` does, and learn its environment's facts in a worker.

    Args:
        source, which, greedy: see `load_saved`.
        env: the function that makes the environment, instead of the name in the file.
        worker_timeout: the time limit in seconds for a call of the environment.
        plays: whether a worker also plays the environment, to check it.
        env_python: the interpreter of the environment, instead of the one in the file.

    Raises:
        UserError: there is no such agent, or only a stranger's file mentions its environment.
        ConfigError: the environment cannot be made.
    """
    policy, environment = load_saved(source, which, greedy)
    if env is not None:  # The arguments still come from the file.
        by_file = getattr(environment, "named_by_file", False)
        environment = GymnasiumEnvironment(
            *(environment.env_id, environment.args, env, policy.masked, by_file),
            ignore_unknown=True,
        )
    else:
        environment = played_by(environment, env_python or None)
    if isinstance(environment, GymnasiumEnvironment):
        try:
            environment.require_named()
        except ConfigError as error:
            raise UserError(f"{source}: {error.message}") from None
    try_in_worker.learn_facts(environment, worker_timeout, plays)
    if env is not None:
        policy = _on_layout(policy, environment, source)
    return SavedAgent(policy, environment)


def _on_layout(policy: Policy, environment: Environment, source: Path) -> Policy:
    """Return the policy for the environment's layout, such as another number of entities. Raises
    UserError."""
    if not isinstance(policy, NumpyPolicy) or not (declared := policy.network.declared):
        return policy
    spaces = environment.spaces()
    if (layout := getattr(spaces, declared)) is None:
        raise UserError(f"{source} needs an environment that declares its {declared}")
    try:
        parameters = policy_on(policy.parameters, layout, spaces.distribution)
    except ValueError as error:
        raise UserError(f"{source} does not fit the environment: {error}") from None
    return NumpyPolicy(parameters, policy.policy_version, policy.greedy)


def require_guest(env_id: str) -> None:
    if env_id not in guests:
        raise ConfigError(ENV, f"{env_id!r}: choose one of {', '.join(guests)}")


def load_agent(
    path: str | os.PathLike[str],
    greedy: bool | None = None,
    env: Callable[..., Any] | str | None = None,
    trust: bool = False,
) -> Agent | Team:
    """Return the agent of a run folder (its best agent, if there is one), a checkpoint or a policy
    file, or a released agent by its name, such as "champion". Several agents are a Team.

    Args:
        path: the folder, file or name.
        greedy: True: choose the likeliest actions; False: sample actions as in training; None: as
            the run's config says, see `play` of TrainConfig.
        env: the function that made the run's environment, if it is not in a module. Or the name of
            an environment of the package, such as "workflow_rl/CAGE4-v0", whose agent of this name
            is returned.
        trust: sign the file as the user's own: see `trust.sign`.

    Raises:
        UserError: there is no agent that can be used.
        ConfigError: its environment cannot be made.
    """
    source = Path(path)
    if trust:
        from workflow_rl.runs.trust import sign  # Few callers need this import.

        sign(source)
    if isinstance(env, str):
        require_guest(env)
    asked = [guests[env]] if isinstance(env, str) else []
    for guest in asked or (guests.importable() if source.exists() else ()):
        if (player := guest.player(source)) is not None:
            return cast(Team, player)
    if not asked and not source.exists():
        has = [g for g in guests.importable() if g.player(source) is not None]
        if has and guests.bringing("released", str(source)) is None:
            places = " or ".join(f"env={guest.env_id!r}" for guest in has)
            raise UserError(f"{source} is no file, but a scripted agent: give {places} too")
    make_env = env if callable(env) else None
    policy, environment = load_player(source, None, greedy, make_env)
    return agent_of(policy, environment, lambda: _critic_there(saved_path(source), policy))


def _critic_there(path: Path, policy: Policy) -> Critic | None:
    if isinstance(policy, NumpyPolicy) and policy.network.declared == "entities":
        return None  # Such a critic knows only the entities of the training.
    return critic_at(path, policy)


def agent_of(
    policy: Any, environment: Environment, critic: Callable[[], Critic | None] = lambda: None
) -> Agent | Team:
    """Return an agent or team that acts on the environment's own observations."""
    if isinstance(policy, TeamPolicy):
        return team_of(policy, environment)

    def actor(greedy: bool) -> Actor:
        return environment.actor_on_observations(
            policy.parameters.actor(policy.policy_version, greedy)
        )

    if not isinstance(environment, GymnasiumEnvironment):
        return Agent(actor, policy.greedy, critic=critic)
    seen = without_privileged(environment.facts.observation)
    return Agent(actor, policy.greedy, seen, environment.facts.action, policy.masked, critic)
