"""Make the workers, the collector and the schedule of a run, by its config."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from workflow_rl.agents.policies.numpy_policy import Policy
from workflow_rl.agents.ppo.config import REWARD
from workflow_rl.collection.assignments import EnvPosition, first_positions
from workflow_rl.collection.async_collector import AsyncCollector
from workflow_rl.collection.cluster_address import NONE
from workflow_rl.collection.local_pool import LocalPool
from workflow_rl.collection.pool import AnyPool
from workflow_rl.collection.rollout import Collector, Following, Rollout, finite
from workflow_rl.collection.schedule import BegunBatch, CollectorThread, ExactLag, Schedule, Share
from workflow_rl.collection.trace import Trace
from workflow_rl.environments.episode import EpisodeSpec, SeedStream, episode_spec
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.training_state import TrainingState

if TYPE_CHECKING:
    from workflow_rl.environments.env_batch import EnvBatchFactory


def make_pool(
    config: TrainConfig, trace: Trace | None = None, make_envs: EnvBatchFactory | None = None
) -> AnyPool:
    """Return a pool for a run, which is not started. make_envs: another factory of envs."""
    environment = config.environment
    # One env is enough for an asynchronous worker that plays one episode at a time.
    one_env = (
        config.mode == "async"
        and not environment.plays_together
        and config.num_steps_per_env is None
    )
    slow_workers = math.ceil(round(config.slow_worker_share * config.n_workers, 6))
    common: dict[str, Any] = {
        "make_envs": _rewarded(config, make_envs or environment.make_envs),
        "n_workers": config.n_workers,
        "envs_per_worker": 1 if one_env else config.envs_per_worker,
        "timeout": config.worker_timeout,
        "max_failures": config.max_worker_failures,
        "step_delays": [config.slow_worker_ms / 1000] * slow_workers,
        "trace": trace or Trace(),
    }
    if config.cluster == NONE:
        return LocalPool(**common, preload=environment.preload)
    from workflow_rl.cluster.ray_pool import RayPool

    return RayPool(**common, address=config.cluster)


def _rewarded(config: TrainConfig, make_envs: EnvBatchFactory) -> EnvBatchFactory:
    """Return a factory of envs with the reward that the run learns from."""
    if not config.reward_from:
        return make_envs
    from workflow_rl.environments.env_batch import RewardedEnvs  # Workers alone need the others.

    spaces, weights = config.environment.spaces(), dict(config.reward_from)
    of_reward = weights.pop(REWARD, 0.0)
    of_costs = {spaces.costs.index(name): weight for name, weight in weights.items()}
    return functools.partial(RewardedEnvs, make_envs, of_reward, of_costs, spaces.team)


def make_collector(pool: AnyPool, config: TrainConfig) -> Collector:
    """Return the collector, which is the only difference between the two trainers."""
    if config.mode == "sync":
        from workflow_rl.collection.sync_collector import SyncCollector

        # Steps all envs together: one batched forward pass, then a barrier, at every step.
        return SyncCollector(pool, config.n_envs)
    # Hands out episodes to idle workers, at most `envs_per_worker` at a time.
    return AsyncCollector(pool, config.envs_per_worker)


def make_schedule(
    config: TrainConfig,
    thread: CollectorThread,
    collector: Collector,
    state: TrainingState,
    begun: Sequence[BegunBatch] = (),
) -> Schedule:
    """Return the schedule that a config asks for.

    Args:
        collector: plays the episodes or unrolls.
        state: the run's counters, which are read again for every batch.
        begun: the batches that a resumed run had begun.
    """
    if config.num_steps_per_env is not None:
        collector.start_unrolls(_positions(config, state), config.num_steps_per_env)
    play_batch = functools.partial(_play_batch, config, collector)
    next_share = functools.partial(_next_share, config, state)
    if config.batching == "exact-lag":
        lag = config.num_batches_to_accumulate if config.async_rl else 0
        specs_of = None
        if config.num_steps_per_env is None:
            # In an extended run, the batches after its former end have no episodes yet.
            begun = [
                batch._replace(share=None) if batch.share and not batch.share.n_episodes else batch
                for batch in begun
            ]
            specs_of = functools.partial(_specs_of, config)
        return ExactLag(thread, collector, play_batch, next_share, specs_of, lag, begun)
    from workflow_rl.runs.newest_batches import FirstCome, FreeRunning, whole_batches

    if config.batching == "whole-batches":
        batches = whole_batches(play_batch, next_share, state.episodes)
    else:
        assert isinstance(collector, AsyncCollector)
        batches = FirstCome(config, collector, state).batches
    drop = config.when_full == "drop"
    return FreeRunning(
        thread, collector, batches, config.num_batches_to_accumulate, drop, config.take_all
    )


def episode_specs(
    config: TrainConfig, numbers: Sequence[int], stream: SeedStream = SeedStream.TRAINING
) -> list[EpisodeSpec]:
    variants = config.environment.variants
    # An evaluation has no curriculum.
    total = config.total_of_curriculum if stream is SeedStream.TRAINING else None
    return [episode_spec(config.seed, number, variants, stream, total) for number in numbers]


def _positions(config: TrainConfig, state: TrainingState) -> list[EnvPosition]:
    variants, total = config.environment.variants, config.total_of_curriculum
    slots = first_positions(config.seed, variants, config.n_envs, state.episodes, total)
    places = state.slots or [(slot.episode, None, None) for slot in slots]
    skipped = tuple(state.skipped_episodes)
    return [
        slot._replace(
            episode=episode,
            actions=actions,
            skipped=skipped,
            begun_with=None if actions is None else begun_with,
        )
        for slot, (episode, actions, begun_with) in zip(slots, places, strict=True)
    ]


def _next_share(config: TrainConfig, state: TrainingState, begun_episodes: int) -> Share:
    """Return the episodes of the next batch, by the batch's number of episodes or of steps.

    The new episodes' length is estimated by the last episodes' length. The number of envs is not
    used, because it must not decide how well a run learns.
    """
    if config.num_steps_per_env is not None:
        return Share(0, 0)
    first = state.episodes + begun_episodes
    size = config.episodes_of_rollout(state.episode_length)
    if config.total_episodes is not None and config.batching == "exact-lag":
        size = max(0, min(size, config.total_episodes - first))
    return Share(first, size)


def _play_batch(
    config: TrainConfig,
    collector: Collector,
    policy: Policy,
    share: Share,
    following: Following = lambda: None,
) -> Rollout:
    """Return a rollout: equally many steps of every env, or the share's episodes."""
    if config.num_steps_per_env is None:
        return finite(collector.collect(policy, _specs_of(config, share), following))
    assert config.steps_per_update is not None
    round_steps = config.n_envs * config.num_steps_per_env
    return finite(collector.unroll(policy, config.steps_per_update // round_steps))


def _specs_of(config: TrainConfig, share: Share) -> list[EpisodeSpec]:
    return episode_specs(config, range(share.first_episode, share.end))
