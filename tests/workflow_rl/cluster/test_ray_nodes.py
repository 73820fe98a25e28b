import functools
import time

import pytest

from tests.nodes import running
from tests.tiny_envs import SleepyEnv
from workflow_rl.cluster import ray_pool
from workflow_rl.cluster.ray_pool import RayPool
from workflow_rl.collection.async_collector import AsyncCollector
from workflow_rl.environments.env_batch import SerialEnvs

pytest.importorskip("ray")


def test_a_node_that_joins_with_other_software_is_left_out(policy, specs, monkeypatch, caplog):
    make_envs = functools.partial(SerialEnvs, functools.partial(SleepyEnv, 0.01))
    with running(3) as nodes, RayPool(make_envs, 3, address=nodes.address) as pool:
        collector = AsyncCollector(pool)
        collector.collect(policy, specs)
        monkeypatch.setattr(ray_pool, "PATIENCE_SECONDS", 1.0)
        other = nodes.add(env_vars={"WORKFLOW_RL_NATIVE": "1"})
        nodes.kill_oldest()
        deadline = time.monotonic() + 60
        while not pool._refused and time.monotonic() < deadline:
            collector.collect(policy, specs)
        assert pool._refused == [other]
        collector.collect(policy, specs)
        homes = {worker.actor.host.node for worker in pool._workers if worker.actor}  # type: ignore[union-attr]
        assert other not in homes
    assert sum("The node is not used" in record.message for record in caplog.records) == 1
    assert "did not start, and was silent" not in caplog.text
