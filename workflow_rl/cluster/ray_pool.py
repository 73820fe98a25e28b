"""Workers that are Ray actors, on the nodes of a cluster."""

import functools
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from workflow_rl import portable
from workflow_rl.cluster.cluster import Cluster
from workflow_rl.cluster.ray_connection import RayActor, RayConnection, WorkerMoved
from workflow_rl.cluster.ray_worker import Host, RayWorker, software
from workflow_rl.collection.cluster_address import LOCAL
from workflow_rl.collection.messages import WorkerError
from workflow_rl.collection.pool import POLL_SECONDS, Pool, worker_variables
from workflow_rl.errors import ConfigError

PATIENCE_SECONDS = 10.0
"""How long a worker waits for a core of its own before it shares one."""
LONG_PATIENCE_SECONDS = 30.0
"""How long it waits if the cluster has a core for every worker, which may only be slow to start."""
STORED_POLICIES = 32

_log = logging.getLogger(__name__)


@dataclass(eq=False)
class RayPool(Pool[RayConnection]):
    """A pool of Ray actors with a core each, spread over a cluster's nodes.

    A new worker is asked before it has started, so that the others go on while nodes are lost. With
    fewer cores than workers, some workers share cores until nodes join. `timeout` does not include
    a worker's start.

    address: see `Cluster`. Entering the pool raises ConfigError.
    """

    address: str = LOCAL

    def __post_init__(self) -> None:
        super().__post_init__()
        self._cluster: Cluster | None = None
        self._refused: list[str] = []
        self._has_started = False
        self._shares = False

    def _prepare(self) -> None:
        self._cluster = Cluster(self.address, self.n_workers)
        self.ray = self._cluster.ray
        self._class = self.ray.remote(RayWorker)
        self._stored_make_envs = self.ray.put(self.pickled_make_envs)
        # A policy is stored once for all workers, which are sent the same object.
        self.put = functools.lru_cache(STORED_POLICIES)(self.ray.put)

    def __enter__(self) -> Self:
        super().__enter__()
        self._has_started = True
        return self

    def _start(self, index: int) -> RayConnection:
        return RayConnection(index, self)

    def make_actor(self, index: int, has_core: bool) -> RayActor:
        """Ask Ray to start an actor for one worker, on a node that is not refused."""
        options: dict[str, Any] = {}
        if self._refused:
            options["label_selector"] = {"ray.io/node-id": f"!in({','.join(self._refused)})"}
        actor = self._class.options(
            **options,
            num_cpus=1 if has_core else 0,
            scheduling_strategy="SPREAD",
            runtime_env={"env_vars": node_variables()},
            max_restarts=0,
            enable_task_events=False,
        ).remote(self.envs_per_worker, self.step_delay(index), self.trace.is_on, software())
        return RayActor(self.ray, actor, self._stored_make_envs, has_core)

    def accepts(self, host: Host) -> bool:
        """Return whether a node gives the main process's numbers. If not, the node is refused.

        Raises ConfigError for such a node while the pool starts.
        """
        if host.differences:
            refusal = f"node {host.address} would not give the same weights: " + "; ".join(
                host.differences
            )
            if not self._has_started:
                raise ConfigError("cluster", f"{self.address}: {refusal}")
            if host.node not in self._refused:
                self._refused.append(host.node)
                _log.warning("%s. The node is not used", refusal)
            return False
        for worker in self._workers:
            worker.wait_longer()
        return True

    def _wait_for_new(self, index: int) -> None:
        """Wait only while the pool starts: later the other workers go on meanwhile."""
        if not self._has_started:
            super()._wait_for_new(index)

    def replace(self, index: int, error: WorkerError) -> None:
        if isinstance(error, WorkerMoved):
            self._workers[index].move()
        else:
            super().replace(index, error)

    def may_share(self, waited: float) -> bool:
        """Return whether a worker that waited so many seconds for a core cannot expect one."""
        if self.address == LOCAL or waited < PATIENCE_SECONDS:
            return False
        cores, free = self._cores()
        if free >= 1 or (cores >= self.n_workers and waited < LONG_PATIENCE_SECONDS):
            return False
        if not self._shares:
            self._shares = True
            _log.warning(
                "the cluster has fewer free cores than workers: some workers share cores until "
                "nodes join"
            )
        return True

    def _cores(self) -> tuple[float, float]:
        """Return the cores of the nodes that are not refused, and how many of them are free."""
        cores = of_refused = 0.0
        for node in self.ray.nodes():
            if node["Alive"] and node["NodeID"] in self._refused:
                of_refused += node["Resources"].get("CPU", 0.0)
            elif node["Alive"]:
                cores += node["Resources"].get("CPU", 0.0)
        return cores, self.ray.available_resources().get("CPU", 0.0) - of_refused

    def _heard(self, indices: Sequence[int]) -> set[int]:
        for index in indices:
            self._workers[index].share_if_waited()
        heard = {index for index in indices if self._workers[index].has_message}
        streams = {
            stream: (index, actor)
            for index in indices
            if index not in heard
            for stream, actor in self._workers[index].streams.items()
        }
        seconds = 0.0 if heard else POLL_SECONDS
        ready = self.ray.wait(list(streams), timeout=seconds)[0] if streams else []
        if ready and len(streams) > 1:
            ready, _ = self.ray.wait(list(streams), num_returns=len(streams), timeout=0)
        for index, actor in (streams[stream] for stream in ready):
            worker = self._workers[index]
            # The first of a worker's actors that starts ends the others.
            is_left = actor is worker.actor or actor in worker.starting
            if is_left and worker.note_message(actor):
                heard.add(index)
        return heard

    def close(self) -> None:
        super().close()
        if self._cluster is not None:
            self._cluster.leave()


def node_variables() -> dict[str, str]:
    """Return environment variables of workers on any node: also this process's NumPy kernels."""
    names = [name for name in (*portable.PINS, portable.NATIVE) if name in os.environ]
    return {name: os.environ[name] for name in names} | worker_variables()
