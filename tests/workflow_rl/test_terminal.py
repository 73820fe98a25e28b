"""Output that cannot be written: the work goes on, and says so at its end."""

import errno
import io
import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.any_envs import TargetEnv
from tests.tiny_envs import CountingEnv
from tests.tiny_runs import config_of, recorded_updates, run
from workflow_rl.api import train
from workflow_rl.collection.local_pool import LocalPool
from workflow_rl.collection.messages import Command
from workflow_rl.commands.main import main
from workflow_rl.environments.env_batch import SerialEnvs
from workflow_rl.environments.episode import episode_spec
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.folder import is_finished
from workflow_rl.runs.read_checkpoint import load_checkpoint

pytestmark = pytest.mark.system

ROOT = Path(__file__).resolve().parents[2]
RUN = ["--env", "tests.any_envs:TargetEnv", "--total-episodes", "60", "--episodes-per-update", "6"]
RUN += ["--n-workers", "1", "--final-evaluation", "2"]


class Failing(io.StringIO):
    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    def write(self, text: str) -> int:
        raise OSError(self._number, os.strerror(self._number))


@pytest.mark.parametrize("number", [errno.EPIPE, errno.EIO, errno.ENOSPC])
def test_a_bar_that_cannot_be_shown_stops_no_training(number, tmp_path, monkeypatch):
    config = TrainConfig(
        "async", make_env=TargetEnv, env="target", total_episodes=60, episodes_per_update=6,
        n_workers=1,
    )  # fmt: skip
    monkeypatch.setattr(sys, "stderr", Failing(number))
    assert is_finished(train(config, tmp_path / "run", quiet=False))


def test_a_command_without_readers_does_all_its_work(tmp_path):
    """As `train-async ... 2>&1 | head` has none."""
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "workflow_rl", "train-async", *RUN]
    ended = subprocess.run(
        [*command, "--run-dir", str(tmp_path / "run")], cwd=ROOT, stdout=write, stderr=write
    )
    os.close(write)
    assert is_finished(tmp_path / "run")
    assert len(json.loads((tmp_path / "run" / "evaluation.json").read_text())["returns"]) == 2
    assert ended.returncode == 1  # Its report is lost.


def test_a_command_whose_results_are_lost_says_so(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdout", Failing(errno.ENOSPC))
    with pytest.raises(SystemExit) as end:
        main.main(["--version"])
    assert end.value.code == 1
    assert "No space left on device" in capsys.readouterr().err


class Printing(CountingEnv):
    def reset(self, **options: Any) -> Any:
        full = os.open("/dev/full", os.O_WRONLY)
        os.dup2(full, 1)
        os.dup2(full, 2)
        print("reset", flush=True)
        print("reset", file=sys.stderr, flush=True)
        return super().reset(**options)


def test_an_environment_may_print_where_nobody_reads():
    with LocalPool(partial(SerialEnvs, Printing), 1) as pool:
        pool.send(0, Command.RESET, ([0], [episode_spec(0, 0, ("B_lineAgent",))]))
        pool.receive(0)


def surprise(pool: Any, policy: Any, count: int) -> None:
    if count == 3:
        raise LookupError("nobody expects it")


def test_an_error_that_nobody_expects_saves_what_was_learned(tmp_path):
    with pytest.raises(LookupError):
        run(tmp_path, config_of(checkpoint_every=100), surprise)
    assert load_checkpoint(tmp_path / "checkpoint.safetensors").training.updates == 3


def test_an_update_that_is_half_done_is_not_saved(tmp_path):
    def fail_in_the_third() -> None:
        if len(updates) == 3:
            raise LookupError("nobody expects it")

    with pytest.raises(LookupError), recorded_updates(fail_in_the_third) as updates:
        run(tmp_path, config_of(checkpoint_every=2))
    assert load_checkpoint(tmp_path / "checkpoint.safetensors").training.updates == 2
