"""Both collectors on workers of a pool, by default of this machine."""

from collections.abc import Callable
from functools import partial

import pytest

from workflow_rl.collection.async_collector import AsyncCollector
from workflow_rl.collection.local_pool import LocalPool
from workflow_rl.collection.rollout import Rollout
from workflow_rl.collection.sync_collector import SyncCollector
from workflow_rl.environments.env_batch import SerialEnvs

Collector = Callable[..., Rollout]


def collect_async(
    make_env, policy, specs, n_workers=2, per_request=3, pool_of=LocalPool, **pool_options
) -> Rollout:
    with pool_of(partial(SerialEnvs, make_env), n_workers, **pool_options) as pool:
        return AsyncCollector(pool, per_request).collect(policy, specs)


def collect_sync(
    make_env, policy, specs, n_workers=2, per_worker=2, pool_of=LocalPool, **pool_options
) -> Rollout:
    with pool_of(partial(SerialEnvs, make_env), n_workers, per_worker, **pool_options) as pool:
        return SyncCollector(pool, n_workers * per_worker).collect(policy, specs)


COLLECTORS = [pytest.param(collect_async, id="async"), pytest.param(collect_sync, id="sync")]
