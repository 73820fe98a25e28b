"""The commands on any Gymnasium environment, and one clear line for every mistake."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner, Result

from tests.tiny_runs import same_weights
from workflow_rl.commands.main import main
from workflow_rl.runs.checkpoint import load_checkpoint, save_checkpoint
from workflow_rl.runs.folder import read_config

TINY = [
    *("--n-envs", "2", "--n-workers", "1", "--total-steps", "60", "--steps-per-update", "30"),
    *("--hidden-sizes", "8", "--epochs", "1", "--device", "cpu", "--quiet"),
]
CART_POLE = ["--env", "CartPole-v1"]
HAS_MOVIEPY = importlib.util.find_spec("moviepy") is not None


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def refused(result: Result, *parts: str) -> None:
    assert result.exit_code == 2, result.output
    error = result.output.strip().splitlines()[-1]
    assert error.startswith("Error: ")
    for part in parts:
        assert part in error
    assert "Traceback" not in result.output


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on CartPole."""
    path = tmp_path_factory.mktemp("runs") / "finished"
    result = invoke("train-async", *CART_POLE, *TINY, "--run-dir", str(path))
    assert result.exit_code == 0, result.output
    assert f"run folder:      {path}" in result.output
    assert "is not determined" not in result.output
    return path


# check-env


@pytest.mark.parametrize(
    ("arguments", "spaces"),
    [
        (["CartPole-v1"], "4 numbers observed, 2 actions"),
        (["Pendulum-v1", "--env-arg", "g=5"], "3 numbers observed, actions of 1 number"),
        (["tests.any_envs:sized_target", "--env-arg", "length=3"], "2 numbers observed"),
        (["examples.own_simulator:Corridors", "--env-arg", "length=3"], "2 numbers observed"),
    ],
)
def test_an_environment_that_can_be_trained_on(arguments: list[str], spaces: str) -> None:
    result = invoke("check-env", *arguments, "--steps", "50", "--seconds", "2")
    assert result.exit_code == 0, result.output
    assert f"spaces        ok: {spaces}" in result.output
    assert "gymnasium     ok" in result.output
    assert "seeds         ok" in result.output
    assert "steps/s, resets included" in result.output


def test_an_environment_whose_steps_wait_is_told_of_more_processes() -> None:
    result = invoke("check-env", "tests.any_envs:SlowEnv", "--steps", "5")
    assert result.exit_code == 0, result.output
    assert "of the time is waiting: train with --n-workers 8 --n-envs 8, or more" in result.output


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("NoisyStepEnv", "the reward after step 1 of seed 0 is another when it is played again"),
        ("NoisyResetEnv", "the observation after reset of seed 0 is another"),
        ("RememberingEnv", "the reward after step 1 of seed 0 is another"),
    ],
)
def test_an_environment_that_its_seed_does_not_determine(name: str, words: str) -> None:
    result = invoke("check-env", f"tests.any_envs:{name}", "--steps", "20")
    assert result.exit_code == 1, result.output
    assert "seeds         fail: " in result.output
    assert words in result.output
    assert "Traceback" not in result.output


def line_of(name: str, code: str) -> str:
    lines = Path("tests/any_envs.py").read_text().splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith(f"class {name}"))
    return f"any_envs.py, line {1 + start + [code in line for line in lines[start:]].index(True)})"


def test_an_environment_that_raises_is_told_by_file_and_line() -> None:
    result = invoke("check-env", "tests.any_envs:FailingResetEnv", "--steps", "20")
    assert result.exit_code == 1, result.output
    where = line_of("FailingResetEnv", "raise OSError")
    assert f"OSError: the map is missing (tests/{where}" in result.output
    assert "episodes      fail: " in result.output
    assert "Traceback" not in result.output
    refused(invoke("check-env", "tests.any_envs:BrokenEnv"), line_of("BrokenEnv", "raise OSError"))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("AlwaysSpoiltEnv", "numbers       fail: the reward of step 3 is nan"),
        ("ShowsNoNumberEnv", "numbers       fail: the observation of step 2 holds inf"),
    ],
)
def test_a_number_that_is_not_finite_is_told_by_its_step(name: str, words: str) -> None:
    result = invoke("check-env", f"tests.any_envs:{name}", "--steps", "20")
    assert result.exit_code == 1, result.output
    assert words in result.output


def test_an_environment_that_shows_what_its_space_does_not_hold() -> None:
    result = invoke("check-env", "tests.any_envs:LaterLyingEnv", "--steps", "20")
    assert result.exit_code == 1, result.output
    assert "space         fails: the environment's observation of step 3 holds 300" in result.output
    assert "runs will vary" not in result.output


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["NoSuchEnv-v0"], ["ENV_ID", "NoSuchEnv-v0 cannot be made"]),
        (["tests.any_envs:BrokenEnv"], ["ENV_ID", "OSError", "licence"]),
        (["tests.any_envs:TextEnv"], ["ENV_ID", "observation space", "not supported"]),
        (["CartPole-v1", "--env-arg", "wheels"], ["--env-arg", "key=value"]),
    ],
)
def test_what_cannot_be_checked(arguments: list[str], parts: list[str]) -> None:
    refused(invoke("check-env", *arguments), *parts)


# The trainers


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--env", "NoSuchEnv-v0"], ["--env", "NoSuchEnv-v0 cannot be made"]),
        (["--env", "no_such_module:make"], ["--env", "no_such_module"]),
        (["--env", "tests.any_envs:BrokenEnv"], ["--env", "OSError", "licence"]),
        (["--env", "tests.any_envs:FailingResetEnv"], ["--env", "cannot be played", "the map"]),
        (["--env", "tests.any_envs:TextEnv"], ["--env", "observation space", "Text"]),
        (["--env", "tests.any_envs:BinaryActionEnv"], ["--env", "action space MultiBinary(4)"]),
        (["--env", "tests.any_envs:no_env"], ["--env", "made a str"]),
        ([*CART_POLE, "--env-arg", "wheels=3"], ["--env", "wheels"]),
        ([*CART_POLE, "--env-arg", "wheels"], ["--env-arg", "'wheels'", "key=value"]),
        ([*CART_POLE, "--env-arg", "=3"], ["--env-arg", "key=value"]),
        ([*CART_POLE, "--red-agent", "B_lineAgent"], ["--red-agent", "CAGE2", "CartPole-v1"]),
        ([*CART_POLE, "--simulator", "compiled"], ["--simulator", "CAGE2", "CartPole-v1"]),
        ([*CART_POLE, "--max-steps", "9"], ["--max-steps", "CAGE2", "--env-arg"]),
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


def test_what_a_run_is_made_of(finished: Path) -> None:
    config = read_config(finished)
    assert (config.env, config.total_steps, config.total_episodes) == ("CartPole-v1", 60, None)
    assert config.settings.normalise_obs
    assert config.settings.gae_lambda == 0.95
    assert config.settings.hidden_sizes == (8,)
    names = {path.name for path in finished.iterdir()}
    assert names > {"config.json", "checkpoint.pt", "best.pt", "learning_curve.png", "summary.json"}


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
    env = ["--env", "tests.any_envs:NoisyStepEnv"]
    result = invoke("train-async", *env, *TINY, "--run-dir", str(tmp_path / "run"))
    assert result.exit_code == 0, result.output
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 1, warnings
    assert "tests.any_envs:NoisyStepEnv is not determined by its seed" in warnings[0]
    assert "the reward after step 1" in warnings[0]


def test_a_number_that_is_none_is_an_error_of_one_line(tmp_path: Path) -> None:
    run = str(tmp_path / "run")
    env = ["--env", "tests.any_envs:AlwaysSpoiltEnv"]
    result = invoke("train-async", *env, *TINY, "--run-dir", run)
    assert result.exit_code == 1, result.output
    first, batch, second = result.output.strip().splitlines()[-3:]
    assert batch == f"The batch is in {tmp_path / 'run' / 'diverged.npz'}"
    assert first.startswith("Error: the environment's reward is not finite at step 2 of episode 0")
    assert second.startswith("A checkpoint is saved; correct the environment, then go on with: ")
    assert second.endswith(f" train-async --resume {run}")
    assert load_checkpoint(tmp_path / "run" / "checkpoint.pt").training.updates == 0


def test_resuming_a_finished_run(finished: Path, tmp_path: Path) -> None:
    resume = ["train-async", "--resume", str(finished)]
    refused(invoke(*resume), "finished", "--total-steps")
    refused(invoke(*resume, "--total-steps", "60"), "finished", "--total-steps")
    done = load_checkpoint(finished / "checkpoint.pt").training.env_steps
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
    for file in finished.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    longer = invoke("train-async", "--resume", str(copy), "--total-steps", "400", "--quiet")
    assert longer.exit_code == 0, longer.output
    assert json.loads((copy / "summary.json").read_text())["env_steps"] >= 400
    assert not same_weights(copy, finished)


def test_beginning_with_another_runs_agent(finished: Path, tmp_path: Path) -> None:
    begin = ["--init-from", str(finished), *TINY, "--run-dir", str(tmp_path / "run")]
    result = invoke("train-async", *CART_POLE, *begin, "--learning-rate", "1e-9")
    assert result.exit_code == 0, result.output
    before, after = (
        load_checkpoint(path / name).agent["network"]
        for path, name in ((finished, "best.pt"), (tmp_path / "run", "checkpoint.pt"))
    )
    for name, tensor in before.items():
        torch.testing.assert_close(after[name], tensor, atol=1e-6, rtol=0)
    other = ["--env", "Pendulum-v1", *begin[:-1], str(tmp_path / "other")]
    refused(invoke("train-async", *other), "--init-from", "does not fit", "2 actions")
    assert not (tmp_path / "other").exists()


# evaluate


def test_scores_on_the_environment_of_the_run(finished: Path) -> None:
    result = invoke("evaluate", str(finished), "--episodes", "5", "--n-workers", "2", "--quiet")
    assert result.exit_code == 0, result.output
    assert "CartPole-v1: 5 episodes, seed 0" in result.output
    scores = json.loads((finished / "evaluation.json").read_text())
    assert len(scores["returns"]) == len(scores["lengths"]) == 5
    # CartPole gives 1 for every step.
    assert scores["returns"] == scores["lengths"]
    mean = sum(scores["returns"]) / 5
    assert scores["mean"] == pytest.approx(mean)
    assert scores["actions"] == "greedy"
    row = next(line for line in result.output.splitlines() if "return" in line)
    assert f"{mean:.2f}" in row
    assert f"± {scores['interval_95']:.2f}" in row
    assert f"{min(scores['returns']):.2f}" in row
    # One episode in their place has no interval, and is not taken for as good.
    again = invoke("evaluate", str(finished), "--episodes", "1", "--n-workers", "1", "--quiet")
    assert "(in the place of those of 5 episodes)" in again.output
    assert "nan" not in again.output


def test_a_report_shows_the_scores_of_the_agent_that_is_there(
    finished: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, page = tmp_path / "run", tmp_path / "report.html"
    shutil.copytree(finished, path)
    scored = ["evaluate", str(path), "--episodes", "2", "--n-workers", "1", "--quiet"]
    report = ["report", str(path), "--output", str(page)]
    assert invoke(*scored).exit_code == 0
    assert invoke(*report).exit_code == 0
    assert "not scored yet" not in page.read_text()
    best = load_checkpoint(path / "best.pt")
    best.training.best_score = 1.0
    save_checkpoint(path / "best.pt", best)
    assert invoke(*report).exit_code == 0
    assert "not scored yet" in page.read_text()
    assert f"{path / 'evaluation.json'} does not say that it is of" in caplog.text
    assert invoke(*scored).exit_code == 0
    assert invoke(*report).exit_code == 0
    assert "not scored yet" not in page.read_text()


def test_scores_go_where_they_are_asked_for(finished: Path, tmp_path: Path) -> None:
    (finished / "evaluation.json").unlink(missing_ok=True)
    options = ["--episodes", "1", "--n-workers", "1", "--quiet"]
    sampled = invoke("evaluate", str(finished), "--stochastic", *options)
    assert sampled.exit_code == 0, sampled.output
    assert "sampled actions" in sampled.output
    assert not (finished / "evaluation.json").exists()
    target = tmp_path / "scores.json"
    result = invoke(
        "evaluate", str(finished / "checkpoint.pt"), "--json", str(target), "--seed", "7", *options
    )
    assert result.exit_code == 0, result.output
    scores = json.loads(target.read_text())
    assert scores["seed"] == 7
    assert scores["std"] is scores["interval_95"] is None


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"env": "NoSuchEnv-v0"}, ["NoSuchEnv-v0 cannot be made"]),
        ({"env_args": {"wheels": 3}}, ["wheels"]),
        ({"total_steps": 0}, ["config", "total_steps"]),
    ],
)
def test_a_run_whose_environment_is_not_here(
    change: dict[str, object], parts: list[str], finished: Path, tmp_path: Path
) -> None:
    content = torch.load(finished / "checkpoint.pt", weights_only=True)
    content["config"] |= change
    torch.save(content, tmp_path / "changed.pt")
    refused(invoke("evaluate", str(tmp_path / "changed.pt"), "--quiet"), *parts)


def test_mistakes_in_an_evaluation(finished: Path, tmp_path: Path) -> None:
    refused(invoke("evaluate", str(finished / "best.pt"), "--which", "best"), "--which best")
    refused(invoke("evaluate", str(finished), "--stock-simulator"), "--stock-simulator")
    (tmp_path / "file").touch()
    refused(invoke("evaluate", str(finished), "--json", str(tmp_path / "file" / "x")), "--json")
    refused(invoke("evaluate", str(finished), "--video", str(tmp_path / "file")), "--video")


@pytest.mark.skipif(not HAS_MOVIEPY, reason="moviepy is not installed")
def test_a_video_of_the_first_episode(finished: Path, tmp_path: Path) -> None:
    options = ["--episodes", "1", "--n-workers", "1", "--quiet", "--video", str(tmp_path / "v")]
    result = invoke("evaluate", str(finished), *options)
    assert result.exit_code == 0, result.output
    (video,) = (tmp_path / "v").glob("*.mp4")
    assert f"video: {video}" in result.output
    assert video.stat().st_size > 1000


@pytest.mark.skipif(HAS_MOVIEPY, reason="moviepy is installed")
def test_a_video_without_what_it_takes(finished: Path, tmp_path: Path) -> None:
    result = invoke("evaluate", str(finished), "--quiet", "--video", str(tmp_path / "v"))
    refused(result, "--video", "moviepy", "pip install")


def test_no_video_of_an_environment_that_draws_no_pictures(tmp_path: Path) -> None:
    env = ["--env", "tests.any_envs:TargetEnv"]
    result = invoke("train-async", *env, *TINY, "--run-dir", str(tmp_path / "run"))
    assert result.exit_code == 0, result.output
    result = invoke("evaluate", str(tmp_path / "run"), "--quiet", "--video", str(tmp_path / "v"))
    refused(result, "--video", "TargetEnv draws no pictures")


def test_one_evaluate_has_the_options_of_every_environment() -> None:
    result = invoke("evaluate", "--help")
    assert result.exit_code == 0
    for option in ("--simulator", "--video", "--trust"):
        assert option in result.output
    refused(invoke("evaluate", "no-such-run"), "no-such-run")


def test_a_final_evaluation(tmp_path: Path) -> None:
    options = [*CART_POLE, *TINY, "--run-dir", str(tmp_path / "run"), "--final-evaluation", "2"]
    result = invoke("train-sync", *options)
    assert result.exit_code == 0, result.output
    assert "2 episodes, seed 0" in result.output
    assert len(json.loads((tmp_path / "run" / "evaluation.json").read_text())["returns"]) == 2


def test_final_evaluation_of_cage2_is_its_own(tmp_path):
    options = ["--simulator", "compiled", "--total-episodes", "4", "--episodes-per-update", "4"]
    options += ["--red-agent", "mixed"]
    options += ["--hidden-sizes", "4", "--final-evaluation", "1", "--quiet"]
    result = CliRunner().invoke(main, ["train-async", *options, "--run-dir", str(tmp_path / "run")])
    assert result.exit_code == 0, result.output
    assert "RedMeanderAgent" in result.output
    assert (tmp_path / "run" / "evaluation.json").exists()


@pytest.mark.parametrize("value", ["abc", "1.5", "null", "0"])
def test_an_argument_of_cage2_of_another_type_is_refused(value):
    result = CliRunner().invoke(
        main, ["train-async", "--env-arg", f"max_steps={value}", "--dry-run"]
    )
    assert result.exit_code == 2, result.output
    assert "--max-steps" in result.output
