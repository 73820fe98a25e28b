"""A Ray cluster that is started or joined, and left again."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from types import ModuleType
from typing import TYPE_CHECKING, Any

from workflow_rl.collection.cluster_address import AUTO, LOCAL, host_and_port
from workflow_rl.errors import ConfigError

if TYPE_CHECKING:
    import subprocess

CONNECT_SECONDS = 5.0
LEAVE_SECONDS = 10.0
LOOPBACK = "127.0.0.1"
OBJECT_STORE_BYTES = 200 * 2**20
"""The object store of a cluster that is started here."""

# Variables for this process and Ray's processes. A variable that the user has set stays.
_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_NUM_REDIS_GET_RETRIES": "1",  # Otherwise Ray asks for half a minute where no cluster is.
}
# When this process is killed, the head of the cluster that it started dies with it. Without this
# setting Ray's agents would try for a minute to report their end to the head.
_LOCAL_SETTINGS = {"RAY_gcs_grpc_max_request_queued_max_bytes": "0"}
_log = logging.getLogger(__name__)

_WITNESS = "import sys; sys.stdin.read(); sys.exit(sys.argv[1])"


def require_answer(address: str) -> None:
    """Raise ConfigError if Ray or the cluster is missing. Takes a few seconds."""
    if address == AUTO:
        Cluster(AUTO, 0).leave()  # Only Ray knows where to look.
    else:
        _require_answer(address)


def _require_answer(address: str) -> None:
    if importlib.util.find_spec("ray") is None:
        raise ConfigError(
            "cluster", f"{address} needs Ray, which is not installed: pip install -e '.[ray]'"
        )
    if address in (LOCAL, AUTO):
        return
    import socket  # It and subprocess take a while to import, and few runs join a cluster.

    try:
        socket.create_connection(host_and_port(address), CONNECT_SECONDS).close()
    except OSError as error:
        raise ConfigError(
            "cluster",
            f"no cluster answers at {address} ({error.strerror or error}): start one there with "
            "`ray start --head`, or use workers of this machine with --cluster none",
        ) from None


class Cluster:
    """A connection of this process to a Ray cluster. Raises ConfigError.

    address: "local" starts a cluster on this machine, with room for `n_workers`, for as long as the
    connection lasts. "auto" and "host:port" join a cluster, which must have a node on this machine
    and keeps running. A connection that exists already is used and stays.
    """

    def __init__(self, address: str, n_workers: int) -> None:
        _require_answer(address)
        _set(_SETTINGS)
        self.ray: Any = importlib.import_module("ray")
        self.is_own = not self.ray.is_initialized()
        self._witness: subprocess.Popen[bytes] | None = None
        if not self.is_own:
            return
        options: dict[str, Any] = {}
        reach: AbstractContextManager[None] = nullcontext()
        if address == LOCAL:
            _set(_LOCAL_SETTINGS)
            options = {
                "num_cpus": max(n_workers, len(os.sched_getaffinity(0))),
                "object_store_memory": OBJECT_STORE_BYTES,
                "include_dashboard": False,
                "_node_ip_address": LOOPBACK,
            }
            reach = _loopback_accepted()
        _silence()
        try:
            with _signal_handlers_kept(), reach:
                self.ray.init(address, log_to_driver=False, configure_logging=False, **options)
        except Exception as error:
            raise ConfigError("cluster", _reason(address, error)) from error
        self._witness = _witness(address)
        if address == LOCAL and self.ray.util.get_node_ip_address() != LOOPBACK:
            _log.warning(
                "with this version of Ray, %s, the cluster also answers other machines: if you do "
                "not trust them, use --cluster none",
                self.ray.__version__,
            )

    def leave(self) -> None:
        """Close the connection, and the cluster if it was started here, within a few seconds.

        May be called again.
        """
        if not self.is_own:
            return
        self.is_own = False
        # If the cluster is gone, Ray may wait for answers that never come.
        leaving = threading.Thread(target=self.ray.shutdown, name="leave cluster", daemon=True)
        leaving.start()
        leaving.join(LEAVE_SECONDS)
        if self._witness is not None:
            with self._witness:
                self._witness.kill()


@contextmanager
def connected(address: str, n_workers: int) -> Iterator[None]:
    """Let pools that are entered in here share one connection, and one cluster if "local".

    Raises ConfigError.
    """
    cluster = Cluster(address, n_workers)
    try:
        yield
    finally:
        cluster.leave()


def _witness(address: str) -> subprocess.Popen[bytes]:
    """Start a process that reports when this process ends without leaving its cluster.

    Ray ends this process at once and silently when the cluster is lost.
    """
    import subprocess

    below_the_bar = "\n" if sys.stderr.isatty() else ""
    lost = (
        "Error: the main process is gone: it was killed, or Ray ended it because its node or the "
        f"head of the cluster ({address}) was lost. The last checkpoint is kept: continue with "
        "--resume and the run's folder"
    )
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _WITNESS, below_the_bar + lost],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,  # Out of reach of Ctrl-C.
    )


def _set(variables: Mapping[str, str]) -> None:
    for name, value in variables.items():
        os.environ.setdefault(name, value)


def _reason(address: str, error: Exception) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    if address == AUTO and isinstance(error, ConnectionError):
        return (
            "auto finds no cluster that this machine is part of: start one with `ray start --head`,"
            " or join one with `ray start --address HOST:PORT`"
        )
    return f"{address}: {lines[0]}"


def _silence() -> None:
    """Silence Ray's own messages: pools report what happens to workers."""
    logging.getLogger("ray").setLevel(logging.ERROR)
    # Whatever `log_to_driver` says, Ray prints pages about dead processes.
    with suppress(ImportError, AttributeError):
        module: Any = importlib.import_module("ray._private.worker")
        module.print_to_stdstream = lambda *args, **kwargs: None


@contextmanager
def _loopback_accepted() -> Iterator[None]:
    """Make Ray accept the loopback address of a node, so that it listens there alone.

    Ray replaces this address unless clusters of several machines are switched off.
    """
    constants = vars(sys.modules.get("ray._private.ray_constants", ModuleType("none")))
    before = constants.get("ENABLE_RAY_CLUSTER")
    constants["ENABLE_RAY_CLUSTER"] = False
    try:
        yield
    finally:
        constants["ENABLE_RAY_CLUSTER"] = before


@contextmanager
def _signal_handlers_kept() -> Iterator[None]:
    """Keep this process's handler of SIGTERM, which Ray would replace."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
