import json
import re
import shutil
from pathlib import Path

import pytest

from tests.bad_input.refusals import digests
from tests.cli import TINY, call, output_of, refused, said_by
from tests.tiny_runs import same_weights
from workflow_rl.runs.read_checkpoint import load_checkpoint


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ("size=4", 4),
        ("size=0.5", 0.5),
        ("size=true", True),
        ("size=False", False),
        ('size="4"', "4"),
        ("size=large", "large"),
        ("size=[1,2]", [1, 2]),
        ("size=a=b", "a=b"),
        ("size=", ""),
    ],
)
def test_arguments_are_json_where_they_are_json(given: str, value: object) -> None:
    words = ["train-async", "--env", "tests.any_envs:any_size", "--dry-run", "--env-arg"]
    assert f"env_args: { ({'size': value}) }" in output_of(*words, given)


def test_a_run_folder_has_the_environments_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said_by("train-async --env tests.any_envs:tests/Target-v0 --env-arg length=5", TINY)
    (run,) = (tmp_path / "runs").iterdir()
    assert re.fullmatch(r"\d{8}-\d{6}-async-tests\.any_envs-tests-Target-v0", run.name)


def test_a_warning_once_where_a_seed_does_not_determine_an_episode(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    said_by("train-async --env tests.lying_envs:NoisyStepEnv", TINY, "--run-dir", tmp_path / "run")
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 1, warnings
    assert "tests.lying_envs:NoisyStepEnv is not determined by its seed" in warnings[0]
    assert "the reward after step 1" in warnings[0]


@pytest.mark.parametrize("further", ["", "--async-rl --eval-every 1"])
def test_a_number_that_is_none_is_an_error_of_one_line(further: str, tmp_path: Path) -> None:
    env, run = "--env tests.lying_envs:AlwaysSpoiltEnv", tmp_path / "run"
    not_kept = "--on-update builtins:print --final-evaluation 5"
    said = said_by("train-async", env, TINY, further, not_kept, "--run-dir", run, code=1)
    first, batch, second = said.strip().splitlines()[-3:]
    assert batch == f"The batch is in {run / 'diverged.npz'}"
    assert first.startswith("Error: the environment's reward is not finite at step 2 of episode 0")
    assert second.startswith("A checkpoint is saved; correct the environment, then go on with: ")
    assert second.endswith(f"train-async --resume {run} {not_kept}")
    assert load_checkpoint(run / "checkpoint.safetensors").training.updates == 0


def test_resuming_a_finished_run(cart_pole_run: Path, tmp_path: Path) -> None:
    resume, before = ("train-async --resume", cart_pole_run), digests(cart_pole_run)
    finished = said_by(*resume, "--total-steps 60")
    assert "is finished" in finished
    assert "--total-steps" in finished
    done = load_checkpoint(cart_pole_run / "checkpoint.safetensors").training.env_steps
    assert done > 60  # A rollout is of complete episodes.
    for steps in (50, 61, done):
        refused(call(*resume, f"--total-steps {steps}"), f"--total-steps: {steps}", f"after {done}")
    refused(call(*resume, "--total-episodes 500"), "--total-episodes: 500", "none")
    refused(call(*resume, "--env Pendulum-v1"), "--env", "Pendulum-v1", "CartPole-v1")
    refused(call(*resume, "--env-arg g=5"), "--env-arg", "{'g': 5}", "has {}")
    refused(call(*resume, "--red-agent mixed"), "--red-agent", "CartPole-v1")
    assert digests(cart_pole_run) == before
    copy = shutil.copytree(cart_pole_run, tmp_path / "copy")
    said_by("train-async --total-steps 400 --quiet --resume", copy)
    assert json.loads((copy / "summary.json").read_text())["env_steps"] >= 400
    assert not same_weights(copy, cart_pole_run)
