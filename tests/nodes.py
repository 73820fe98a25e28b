"""A Ray cluster of several nodes on this machine."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil
import pytest

from tests.processes import descendants, survivors

NODE: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 80 * 2**20}


class Nodes:
    """A cluster whose head has no workers, and whose other nodes have a core each."""

    def __init__(self, n_nodes: int) -> None:
        from ray.cluster_utils import Cluster

        head = {**NODE, "num_cpus": 0, "include_dashboard": False}
        self._cluster = Cluster(initialize_head=True, head_node_args=head)
        self.address: str = self._cluster.address
        self.nodes: list[Any] = []
        for _ in range(n_nodes):
            self.add()

    def add(self, **options: Any) -> Any:
        """A node more, and its id."""
        self.nodes.append(self._cluster.add_node(**NODE, **options))
        return self.nodes[-1].node_id

    def kill_oldest(self) -> None:
        self._cluster.remove_node(self.nodes.pop(0), allow_graceful=False)

    def kill_head(self) -> None:
        self._cluster.remove_node(self._cluster.head_node, allow_graceful=False)

    def shutdown(self) -> None:
        self._cluster.shutdown()


@contextmanager
def running(n_nodes: int) -> Iterator[Nodes]:
    """In here there are so many nodes, and a minute after it none of their processes: agents of a
    killed node try so long to say so."""
    before = descendants()
    with pytest.MonkeyPatch.context() as patch:
        # Nodes are started from any thread, and signals stay those of the tests.
        patch.setattr("ray._private.utils.set_sigterm_handler", lambda handler: None)
        nodes = Nodes(n_nodes)
        try:
            yield nodes
        finally:
            nodes.shutdown()
    started = [child for child in descendants() if child not in before]
    assert not survivors([child for child in started if is_of_ray(child)], 75)


def is_of_ray(process: psutil.Process) -> bool:
    """Whether it is one of Ray's own, or a worker."""
    command = " ".join(process.cmdline())
    is_own = "multiprocessing" in command  # Whose search path names Ray's folder, too.
    return not is_own and ("/ray/" in command or command.startswith("ray::"))
