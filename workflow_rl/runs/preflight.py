"""Before a run begins: check what can be checked, and tell the user what may surprise."""

from __future__ import annotations

import logging
import math

from workflow_rl import portable
from workflow_rl.agents.policies.networks import NETWORKS
from workflow_rl.collection.cluster_address import NONE
from workflow_rl.environments.environment import InvalidEnvironmentError
from workflow_rl.environments.guests import guests
from workflow_rl.environments.waiting import MUCH_WAITING
from workflow_rl.runs.config import ConfigError, TrainConfig, usable_cores
from workflow_rl.runs.presets import preset_named
from workflow_rl.runs.spec import LEAST_EPISODES, LEAST_OF_LONG, STEPS_PER_UPDATE, off_policy_args

FEW_UPDATES = 2
MANY_A_CORE = 4
"""Worker processes that a core still serves without much waiting."""
MANY_NUMBERS = 10_000
OUTPUTS_PER_SECOND = 2e7
"""How many of a policy's outputs a core learns from, roughly: most of the time goes into memory."""
_log = logging.getLogger(__name__)


def warn_if_results_vary(config: TrainConfig) -> None:
    """Try the processor and the environment, and log why results may differ from run to run.

    Raises ConfigError if the processor or the environment cannot be used.
    """
    if not portable.is_native():
        if not portable.is_supported():
            raise ConfigError(
                "device",
                "this processor lacks AVX2 with FMA, without which its weights would differ from "
                f"other processors' weights: {portable.NATIVE}=1 trains with what it has",
            )
        if departures := portable.departures():
            _log.warning(
                "the weights may differ from another processor's, and between the trainers: %s",
                "; ".join(departures),
            )
    from workflow_rl.collection import trial  # It imports Gymnasium.

    try:
        difference = trial.check(config.environment, config.worker_timeout)
        spaces = config.environment.spaces()
        config.plug_in.distribution(spaces, config.settings)
    except InvalidEnvironmentError as error:
        raise ConfigError(error.argument, str(error)) from None
    if difference is not None:
        _log.warning(
            "%s is not determined by its seed: %s. Runs of it will vary. An episode that has to be "
            "played again goes otherwise: after --resume, a lost worker, or, with "
            "--num-steps-per-env, an evaluation",
            config.env,
            difference,
        )


def hints(config: TrainConfig) -> list[str]:
    """Return sentences: how often the run learns, how many envs play, what would be faster."""
    steps = env_steps_of(config)
    found = [
        _about_updates(config, steps),
        _about_complete_episodes(config),
        _about_envs(config),
        _about_workers(config),
        _about_waiting(config),
        _about_args(config),
        _about_evaluations(config),
        _about_images(config),
        _about_actions(config),
        _about_masks(config),
        _about_what_is_left_out(config),
    ]
    if config.env in guests:
        network = getattr(config.settings, "network", "")
        found += guests[config.env].hints(config.env_args, steps, network)
    return [hint for hint in found if hint is not None]


def _about_updates(config: TrainConfig, steps: int | None) -> str | None:
    needed = config.plug_in.steps_before_learning(config.settings)
    if needed and steps is not None and steps <= needed:
        return (
            f"this run learns nothing: its {steps:,} steps are no more than --warm-up-steps "
            f"{needed:,}"
        )
    n_updates = updates_of(config)
    unit = "steps" if config.episodes_per_update is None else "episodes"
    per_update = config.episodes_per_update or config.steps_per_update
    if n_updates is None:
        if per_update is None or steps is None or steps > FEW_UPDATES * per_update:
            return None
        often = (
            f"only a few times, from its first {config.episodes_of_rollout(0)} episodes and then "
            f"from about {per_update:,} steps each time"
        )
    elif n_updates > FEW_UPDATES:
        return None
    elif unit == "steps" and config.num_steps_per_env is None:
        often = "once" if n_updates == 1 else "twice"
    else:
        often = f"once, from {per_update:,} {unit}"
        if n_updates > 1:
            often = f"twice, from {per_update:,} {unit} each time"
    total = "steps" if config.total_episodes is None else "episodes"
    return (
        f"this run learns {often}: a larger --total-{total} or a smaller --{unit}-per-update lets "
        "it learn more often"
    )


def _about_complete_episodes(config: TrainConfig) -> str | None:
    """Return a hint if the steps that were asked for decide how many episodes an update has."""
    steps = config.given.get("steps_per_update")
    if steps is None or config.min_episodes_per_update or config.batching == "first-come":
        return None
    return (
        f"the first update has {LEAST_EPISODES} complete episodes; a later one has at least "
        f"{LEAST_OF_LONG}, or at least {LEAST_EPISODES} if {LEAST_EPISODES} have no more than "
        f"{2 * steps:,} steps (twice --steps-per-update)"
    )


def _about_envs(config: TrainConfig) -> str | None:
    """Return a hint if an update takes fewer episodes than there are envs, or else None."""
    if config.num_steps_per_env is not None or config.batching == "first-come":
        return None
    episodes = config.episodes_of_rollout(0)
    # Asynchronous workers begin with the next batch before the last episode of one is over.
    at_a_time = 2 * episodes if config.async_rl and config.mode == "async" else episodes
    if at_a_time >= config.n_envs:
        return None
    takes = "an update takes" if config.episodes_per_update else "the first update takes"
    return (
        f"{takes} {episodes} episodes, so {at_a_time} of the {config.n_envs} envs play "
        f"at a time; --episodes-per-update {config.n_envs} lets all of them play"
    )


def _about_workers(config: TrainConfig) -> str | None:
    """Return a hint if the barriers of many processes on few cores cost more than the steps."""
    cores = usable_cores()
    if config.mode != "sync" or config.n_workers <= MANY_A_CORE * cores or config.cluster != NONE:
        return None
    return (
        f"{config.n_workers} worker processes wait for each other at every step, on {cores} "
        f"core{'s' * (cores > 1)}; --n-workers {cores} gives the same weights, and is faster "
        "unless the steps themselves wait"
    )


def _about_waiting(config: TrainConfig) -> str | None:
    """Return a hint if workers would wait for the environment most of the time, or else None."""
    waits, n_workers = getattr(config.environment, "waits", 0.0), config.n_workers
    assert n_workers is not None
    if config.cluster != NONE or waits < MUCH_WAITING or n_workers >= config.n_envs:
        return None
    return (
        f"{waits:.0%} of the time a worker waits for the environment: --n-workers {config.n_envs} "
        "collects faster, and gives the same weights"
    )


def _about_args(config: TrainConfig) -> str | None:
    """Return a hint that names the arguments that follow from the algorithm; None without any."""
    of_preset = preset_named(config.preset).get("env_args", {})
    asked = {**of_preset, **(config.given.get("env_args") or {})}
    args = off_policy_args(config.plug_in, config.env, asked)
    if not args:
        return None
    options = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in args.items())
    return (
        f"--algorithm {config.algorithm} plays with {options} unless you choose otherwise: with an "
        "observation that shows too little it would not learn"
    )


def _about_images(config: TrainConfig) -> str | None:
    """Return a hint if a network sees images, or very many numbers, as a row; or else None."""
    spaces, network = config.environment.spaces(), getattr(config.settings, "network", "")
    images, is_long = spaces.images, spaces.obs_dim >= MANY_NUMBERS
    if (images is None and not is_long) or network not in NETWORKS:
        return None
    # A network of the user's own knows what it sees.
    if NETWORKS[network].declared == "images" or NETWORKS[network].needs is not None:
        return None
    if images is None:
        return (
            f"{network} sees {spaces.obs_dim:,} numbers in a row, and learns a weight of each for "
            "each of its first units: show fewer, or images of bytes for PPO's --network cnn"
        )
    return (
        f"its observations hold images ({images}), which {network} sees as rows of numbers: PPO's "
        "--network cnn sees images"
    )


def _about_actions(config: TrainConfig) -> str | None:
    """Return a hint if there are very many actions, which says what an update takes; or None."""
    n_outputs = config.environment.spaces().distribution.n_outputs
    if n_outputs < MANY_NUMBERS:
        return None
    epochs = getattr(config.settings, "epochs", 1)
    steps = config.steps_per_update or STEPS_PER_UPDATE
    minutes = max(1, round(epochs * steps * n_outputs / OUTPUTS_PER_SECOND / 60))
    return (
        f"there are {n_outputs:,} actions, and the policy has an output for each: an update of "
        f"{steps:,} steps takes about {minutes:,} minute{'s' * (minutes > 1)} of a core; fewer "
        "actions, or several small choices (MultiDiscrete), take less"
    )


def _about_masks(config: TrainConfig) -> str | None:
    """Return a hint that says what masks are read from; None without masks."""
    masks_from = getattr(getattr(config.environment, "facts", None), "masks_from", "")
    if not masks_from:
        return None
    return f"{masks_from} rules actions out; --no-action-mask lets all be chosen"


def _about_what_is_left_out(config: TrainConfig) -> str | None:
    left_out = getattr(getattr(config.environment, "facts", None), "left_out", ())
    if config.ignore_unknown and not left_out:
        return "--ignore-unknown leaves nothing out: leave the option out"
    return f"observations are shown without {', '.join(left_out)}" if left_out else None


def _about_evaluations(config: TrainConfig) -> str | None:
    """Return a hint if short updates make evaluations frequent, or if there will be none."""
    if (updates := updates_of(config)) is not None and updates < config.eval_every:
        return (
            f"--eval-every {config.eval_every} never evaluates, as the run has {updates} updates: "
            "best.pt will be the last agent"
        )
    if not config.eval_every or config.steps_per_update is None:
        return None
    steps = config.eval_every * config.steps_per_update
    if steps >= STEPS_PER_UPDATE:
        return None
    return (
        f"--eval-every {config.eval_every} evaluates after every {steps:,} env steps, and plays "
        f"{config.eval_episodes} episodes each time: a larger --eval-every takes less time"
    )


def updates_of(config: TrainConfig) -> int | None:
    """Return the number of updates, or None if nobody knows it: episodes differ in length."""
    length, total = config.environment.episode_steps, env_steps_of(config)
    if config.num_steps_per_env is not None:
        assert config.steps_per_update is not None
        return None if total is None else math.ceil(total / config.steps_per_update)
    episodes = config.total_episodes
    if episodes is None and total is not None and length is not None:
        episodes = math.ceil(total / length)
    if episodes is None:
        return None
    if config.episodes_per_update is None and (length is None or config.async_rl):
        return None
    # The first rollout is sized before any episode has told how long it is, and overlapped
    # collecting sizes further ones so.
    first, size = config.episodes_of_rollout(0), config.episodes_of_rollout(length or 0)
    return 1 + max(0, math.ceil((episodes - first) / size))


def env_steps_of(config: TrainConfig) -> int | None:
    """Return the run's env steps, or None if nobody knows how long the episodes are."""
    if config.total_steps is not None:
        return config.total_steps
    assert config.total_episodes is not None
    steps = config.environment.episode_steps
    return None if steps is None else config.total_episodes * steps
