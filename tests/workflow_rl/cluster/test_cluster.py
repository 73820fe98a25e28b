"""What is said of clusters that are not there. Needs no Ray."""

import importlib.util
import socket
import subprocess
import sys
import time

import pytest

from tests.cli import output_of
from workflow_rl.cluster import cluster
from workflow_rl.cluster.cluster import require_answer
from workflow_rl.collection.cluster_address import host_and_port
from workflow_rl.errors import ConfigError
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.make_schedule import make_pool

HAS_RAY = importlib.util.find_spec("ray") is not None


def refused(*options: str) -> str:
    """The one line of an error."""
    said = output_of("train-async", "--n-envs", 2, "--dry-run", *options, code=2)
    line = said.strip().splitlines()[-1]
    assert line.startswith("Error: ")
    return line


@pytest.mark.parametrize(
    "address", ["", "here", ":6379", "host:", "host:0", "host:65536", "ray://host:10001", "a:b"]
)
def test_an_address_is_none_local_auto_or_host_and_port(address):
    with pytest.raises(ConfigError, match="neither none, local, auto nor host:port") as caught:
        TrainConfig("async", cluster=address)
    assert caught.value.field_name == "cluster"
    assert "--cluster" in refused("--cluster", address)


def test_host_and_port():
    assert host_and_port("10.0.0.1:6379") == ("10.0.0.1", 6379)
    assert host_and_port("::1:6379") == ("::1", 6379)


@pytest.mark.parametrize("address", ["auto", "10.0.0.1:6379"])
def test_of_a_cluster_that_is_joined_the_number_of_workers_is_the_user_s(address):
    with pytest.raises(ConfigError) as caught:
        TrainConfig("async", 8, cluster=address)
    assert caught.value.field_name == "n_workers"
    assert TrainConfig("async", 8, n_workers=5, cluster=address).n_workers == 5
    assert TrainConfig("async", 8, envs_per_worker=2, cluster=address).n_workers == 4
    on_cyborg = TrainConfig("sync", 8, cluster=address, env_args={"simulator": "cyborg"})
    assert on_cyborg.n_workers == 8, "one an env"
    assert TrainConfig("async", 8, cluster="local") == TrainConfig(
        "async", 8, n_workers=TrainConfig("async", 8).n_workers, cluster="local"
    )


def test_without_ray_it_is_one_line(monkeypatch):
    monkeypatch.setattr(cluster.importlib.util, "find_spec", lambda name: None)
    line = refused("--cluster", "local")
    assert "Invalid value for --cluster: local needs Ray, which is not installed" in line
    assert "pip install -e '.[ray]'" in line


@pytest.mark.skipif(not HAS_RAY, reason="no Ray here")
def test_where_no_cluster_is_it_is_one_line_soon():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
        start = time.monotonic()
        line = refused("--cluster", address, "--n-workers", "2")
    assert f"no cluster answers at {address} (Connection refused)" in line
    assert time.monotonic() - start < 10
    with pytest.raises(ConfigError, match="no cluster answers at no-such-host"):
        require_answer("no-such-host.invalid:6379")


@pytest.mark.parametrize("command", ["train-async", "train-population", "tune --trials 1"])
def test_where_auto_finds_no_cluster_no_folder_is_begun(command, tmp_path, monkeypatch):
    def missing(address: str, n_workers: int) -> None:
        raise ConfigError("cluster", f"{address} finds none")

    monkeypatch.setattr(cluster, "Cluster", missing)
    path = tmp_path / "run"
    options = ["--cluster", "auto", "--n-workers", 2, "--run-dir", path]
    said = output_of(*command.split(), *options, code=2)
    assert "Invalid value for --cluster: auto finds none" in said.splitlines()[-1]
    assert not path.exists()


def test_nothing_imports_ray_before_a_run_starts(monkeypatch):
    """Where a cluster is asked for, too. An import of None raises."""
    monkeypatch.setitem(sys.modules, "ray", None)
    make_pool(TrainConfig("async", cluster="local"))


def test_a_process_that_ends_without_leaving_its_cluster_is_spoken_for():
    code = """
import os
from workflow_rl.cluster.cluster import _witness
_witness("10.0.0.1:6379")
os._exit(1)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    (line,) = ended.stderr.splitlines()
    assert line.startswith("Error: the main process is gone")
    assert "10.0.0.1:6379" in line
    assert "--resume" in line
