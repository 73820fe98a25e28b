"""The trainers on any Gymnasium environment, and one clear line for every mistake."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from tests.tiny_runs import same_weights
from tests.workflow_rl.commands.any_env_commands import CART_POLE, TINY, invoke, refused
from workflow_rl.commands.main import main
from workflow_rl.runs.checkpoint import load_checkpoint
from workflow_rl.runs.folder import read_config


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--env", "NoSuchEnv-v0"], ["--env", "NoSuchEnv-v0 cannot be made"]),
        (["--env", "no_such_module:make"], ["--env", "no_such_module"]),
        (["--env", "tests.any_envs:BrokenEnv"], ["--env", "OSError", "licence"]),
        (["--env", "tests.any_envs:FailingResetEnv"], ["--env", "cannot be played", "the map"]),
        (["--env", "tests.any_envs:TextEnv"], ["--env", "observation space", "Text"]),
        (
            ["--env", "tests.any_envs:NamedActionEnv"],
            ["--env", "action space Text", "is not supported"],
        ),
        (["--env", "tests.any_envs:no_env"], ["--env", "made a str"]),
        ([*CART_POLE, "--env-arg", "wheels=3"], ["--env", "wheels"]),
        ([*CART_POLE, "--env-arg", "wheels"], ["--env-arg", "'wheels'", "key=value"]),
        ([*CART_POLE, "--env-arg", "=3"], ["--env-arg", "key=value"]),
        ([*CART_POLE, "--red-agent", "B_lineAgent"], ["--red-agent", "CAGE2", "CartPole-v1"]),
        ([*CART_POLE, "--simulator", "compiled"], ["--simulator", "CAGE2", "CartPole-v1"]),
        ([*CART_POLE, "--max-steps", "9"], ["--max-steps", "CAGE2", "CartPole-v1"]),
        (["--max-steps", "9", "--env-arg", "max_steps=8"], ["--env-arg max_steps", "twice"]),
        (
            [*CART_POLE, "--total-steps", "9", "--total-episodes", "9"],
            ["--total-steps", "--total-episodes"],
        ),
        (
            [*CART_POLE, "--steps-per-update", "9", "--episodes-per-update", "9"],
            ["--steps-per-update", "--episodes-per-update"],
        ),
        ([*CART_POLE, "--minibatch-size", "1"], ["--minibatch-size: 1", "2 or greater"]),
        ([*CART_POLE, "--init-from", "nowhere"], ["no checkpoint at nowhere"]),
    ],
)
def test_mistakes_in_the_options(
    arguments: list[str], parts: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refused(invoke("train-async", *arguments), *parts)
    assert not list(tmp_path.iterdir())


def test_the_synchronous_trainer_says_the_same() -> None:
    arguments = ["--env", "tests.any_envs:BrokenEnv", "--quiet"]
    one, other = (
        invoke(command, *arguments).output.splitlines()[-1]
        for command in ("train-sync", "train-async")
    )
    assert one == other


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
    environment = ["--env", "tests.any_envs:any_size", "--env-arg", given]
    result = invoke("train-async", *environment, "--dry-run")
    assert result.exit_code == 0, result.output
    assert f"env_args: { ({'size': value}) }" in result.output


def test_what_a_run_is_made_of(cart_pole_run: Path) -> None:
    config = read_config(cart_pole_run)
    assert (config.env, config.total_steps, config.total_episodes) == ("CartPole-v1", 60, None)
    assert config.settings.normalise_obs
    assert config.settings.gae_lambda == 0.95
    assert config.settings.hidden_sizes == (8,)
    names = {path.name for path in cart_pole_run.iterdir()}
    assert names > {
        "config.json",
        "checkpoint.safetensors",
        "best.safetensors",
        "learning_curve.png",
        "summary.json",
    }


def test_steps_beyond_the_end_are_told_of(tmp_path: Path) -> None:
    env = ["--env", "tests.any_envs:TargetEnv", "--n-envs", "2", "--quiet"]
    for total, told in ((100, "16 episodes of 128 steps (the last update is whole), updates"),
                        (128, "16 episodes, updates")):  # fmt: skip
        result = invoke("train-async", *env, f"--total-steps={total}", "--steps-per-update=64",
                        "--run-dir", str(tmp_path / f"{total}"))  # fmt: skip
        assert result.exit_code == 0, result.output
        assert told in result.output


def test_a_run_folder_has_the_environments_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    env = ["--env", "tests.any_envs:tests/Target-v0", "--env-arg", "length=5"]
    result = invoke("train-async", *env, *TINY)
    assert result.exit_code == 0, result.output
    (run,) = (tmp_path / "runs").iterdir()
    assert re.fullmatch(r"\d{8}-\d{6}-async-tests\.any_envs-tests-Target-v0", run.name)


def test_a_warning_once_where_a_seed_does_not_determine_an_episode(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    env = ["--env", "tests.lying_envs:NoisyStepEnv"]
    result = invoke("train-async", *env, *TINY, "--run-dir", str(tmp_path / "run"))
    assert result.exit_code == 0, result.output
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 1, warnings
    assert "tests.lying_envs:NoisyStepEnv is not determined by its seed" in warnings[0]
    assert "the reward after step 1" in warnings[0]


@pytest.mark.parametrize("further", [[], ["--async-rl", "--eval-every", "1"]])
def test_a_number_that_is_none_is_an_error_of_one_line(further: list[str], tmp_path: Path) -> None:
    run = str(tmp_path / "run")
    env = ["--env", "tests.lying_envs:AlwaysSpoiltEnv"]
    not_kept = ["--on-update", "builtins:print", "--final-evaluation", "5"]
    result = invoke("train-async", *env, *TINY, *further, *not_kept, "--run-dir", run)
    assert result.exit_code == 1, result.output
    first, batch, second = result.output.strip().splitlines()[-3:]
    assert batch == f"The batch is in {tmp_path / 'run' / 'diverged.npz'}"
    assert first.startswith("Error: the environment's reward is not finite at step 2 of episode 0")
    assert second.startswith("A checkpoint is saved; correct the environment, then go on with: ")
    assert second.endswith(shlex.join(["train-async", "--resume", run, *not_kept]))
    assert load_checkpoint(tmp_path / "run" / "checkpoint.safetensors").training.updates == 0


def test_resuming_a_finished_run(cart_pole_run: Path, tmp_path: Path) -> None:
    resume = ["train-async", "--resume", str(cart_pole_run)]
    for finished in (invoke(*resume), invoke(*resume, "--total-steps", "60")):
        assert finished.exit_code == 0, finished.output
        assert "finished" in finished.output
        assert "--total-steps" in finished.output
    done = load_checkpoint(cart_pole_run / "checkpoint.safetensors").training.env_steps
    assert done > 60  # A rollout is of complete episodes.
    for steps in (50, 61, done):
        again = invoke(*resume, "--total-steps", str(steps))
        refused(again, "--total-steps", str(steps), f"after {done}")
    refused(invoke(*resume, "--total-episodes", "500"), "--total-episodes", "500", "none")
    refused(invoke(*resume, "--env", "Pendulum-v1"), "--env", "Pendulum-v1", "CartPole-v1")
    refused(invoke(*resume, "--env-arg", "g=5"), "--env-arg", "{'g': 5}", "has {}")
    refused(invoke(*resume, "--red-agent", "mixed"), "--red-agent", "CartPole-v1")
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in cart_pole_run.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    longer = invoke("train-async", "--resume", str(copy), "--total-steps", "400", "--quiet")
    assert longer.exit_code == 0, longer.output
    assert json.loads((copy / "summary.json").read_text())["env_steps"] >= 400
    assert not same_weights(copy, cart_pole_run)


def test_beginning_with_another_runs_agent(cart_pole_run: Path, tmp_path: Path) -> None:
    begin = ["--init-from", str(cart_pole_run), *TINY, "--run-dir", str(tmp_path / "run")]
    result = invoke("train-async", *CART_POLE, *begin, "--learning-rate", "1e-9")
    assert result.exit_code == 0, result.output
    before, after = (
        load_checkpoint(path / name).agent["network"]
        for path, name in (
            (cart_pole_run, "best.safetensors"),
            (tmp_path / "run", "checkpoint.safetensors"),
        )
    )
    for name, tensor in before.items():
        torch.testing.assert_close(after[name], tensor, atol=1e-6, rtol=0)
    other = ["--env", "Pendulum-v1", *begin[:-1], str(tmp_path / "other")]
    refused(invoke("train-async", *other), "--init-from", "does not fit", "2 actions")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("value", ["abc", "1.5", "null", "0"])
def test_an_argument_of_cage2_of_another_type_is_refused(value):
    result = CliRunner().invoke(
        main, ["train-async", "--env-arg", f"max_steps={value}", "--dry-run"]
    )
    assert result.exit_code == 2, result.output
    assert "--max-steps" in result.output


def test_the_best_agent_of_a_run_without_its_evaluation_is_explained(tmp_path: Path) -> None:
    options = [*CART_POLE, *TINY, "--eval-every", "50", "--run-dir", str(tmp_path / "run")]
    trained = invoke("train-async", *options)
    assert trained.exit_code == 0, trained.output
    assert (
        "best.safetensors, the last: the run ended before the first evaluation, after 50"
        in trained.output
    )


def test_a_report_of_an_agent_that_is_no_run_says_what_to_give(tmp_path: Path) -> None:
    asked = ["report", "champion", "--output", str(tmp_path / "x.html")]
    refused(invoke(*asked), "champion is not a run folder", "Give the folder of a training")


def test_an_error_of_a_hook_shows_the_users_lines_and_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "failing_hook.py").write_text(
        "def send(update):\n    update.log('x', 'no number')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    words = ["train-async", "--env", "CartPole-v1", *TINY, "--on-update", "failing_hook:send"]
    result = invoke(*words, "--run-dir", str(tmp_path / "run"))
    assert result.exit_code == 1, result.output
    told = result.output[result.output.index("Traceback") :]
    assert "in send" in told
    assert "click" not in told
    *_, failed, again = told.strip().splitlines()
    assert failed == "Error: the function of --on-update failed: see above"
    assert again.startswith("A checkpoint is saved; go on with: ")
    assert again.endswith("--on-update failing_hook:send")
