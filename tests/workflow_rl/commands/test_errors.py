"""What messages say of a user's own words, and of ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from tests.workflow_rl.commands.any_env_commands import CART_POLE, TINY, invoke, refused
from workflow_rl.agents import algorithm
from workflow_rl.agents.algorithm import DivergedError
from workflow_rl.collection.failures import StopRequested, TooManyFailuresError
from workflow_rl.commands.errors import telling, training_errors
from workflow_rl.commands.options import spelling
from workflow_rl.errors import ConfigError, ObservationError, StoppedAtOnce
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.run_dir import NotWrittenError

LIKE_FIELDS = "n_envs/hidden_sizes/eval_every"
"""A user's own words, which are named as fields of the config and of its settings are."""


class MisnamedMask(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Offers a mask of actions under a name that means nothing."""

    def __init__(self) -> None:
        super().__init__(gymnasium.make("CartPole-v1"))

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        return super().reset(**options)[0], {"valid_mask": np.ones(2, np.int8)}


@pytest.mark.parametrize(
    ("command", "word"),
    [
        ("train-async --env", "n_envs:total_steps"),
        ("train-sync --teacher", LIKE_FIELDS),
        ("train-sync --init-from", LIKE_FIELDS),
        ("train-async --env-python", LIKE_FIELDS),
        ("train-async --network", "hidden_sizes:total_steps"),
        ("train-async --algorithm", "n_envs:minibatch_size"),
        ("train-async --scenario", LIKE_FIELDS),
        ("train-async --red-agent", LIKE_FIELDS),
        ("train-async --seed 0 --cluster", "n_envs:total_steps"),
        ("train-workflow --run-dir unused --order", "n_envs,total_steps"),
        ("train-population --env", "n_envs:total_steps"),
        ("tune --trials 1 --env", "n_envs:total_steps"),
    ],
)
def test_a_message_keeps_the_users_words(command: str, word: str) -> None:
    refused(invoke(*command.split(), word), word.partition(",")[0])


def test_a_mask_is_named_as_the_environment_has_to_call_it(tmp_path: Path) -> None:
    env = ("--env", "tests.workflow_rl.commands.test_errors:MisnamedMask")
    result = invoke("train-async", *env, *TINY, "--run-dir", str(tmp_path / "run"))
    refused(result, "'valid_mask'", "from 'action_mask' in info", "--no-action-mask")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("--eval-every 10 --patience 3", "for --patience: 3 does not go with --eval-every, 10"),
        ("--total-steps 9 --total-episodes 9", "does not go with --total-episodes, 9"),
        ("--steps-per-update 9 --episodes-per-update 9", "with --episodes-per-update, 9"),
        ("--n-workers 9", "at most --n-envs, 8,"),
        ("--batching first-come", "first-come needs --async-rl"),
        ("--teacher-epochs 3", "3 goes with --teacher: name one"),
        ("--curriculum --total-episodes 9", "it needs --eval-every: "),
    ],
)
def test_a_message_names_our_own_fields_as_options(options: str, says: str) -> None:
    refused(invoke("train-async", *CART_POLE, *options.split()), says)


def failing(update: object) -> None:
    raise ValueError(f"of {update}")


BEGIN_AGAIN = "begin again with a smaller --lr, from its weights with --init-from"


@pytest.mark.parametrize(
    ("error", "has_batch", "code", "told"),
    [
        (StopRequested(15), False, 143, ["stopped by SIGTERM; go on with: AGAIN"]),
        (
            StoppedAtOnce(1),
            False,
            129,
            ["stopped by SIGHUP; the last checkpoint is kept; go on with: AGAIN"],
        ),
        (
            ObservationError("it is NaN", []),
            *(True, 1),
            [
                *("Error: it is NaN", "The batch is in RUN/diverged.npz"),
                "A checkpoint is saved; correct the environment, then go on with: AGAIN",
            ],
        ),
        (
            TooManyFailuresError("two failed"),
            *(False, 1),
            ["Error: two failed", "A checkpoint is saved; go on with: AGAIN"],
        ),
        (
            NotWrittenError("it is full"),
            *(False, 1),
            ["Error: it is full", "The last checkpoint is kept; go on with: AGAIN"],
        ),
        (
            DivergedError("it is inf"),
            *(True, 1),
            [
                "Error: learning diverged: it is inf",
                "The last checkpoint is kept, and the batch is in RUN/diverged.npz; "
                f"{BEGIN_AGAIN} RUN/checkpoint.safetensors",
            ],
        ),
        (
            DivergedError("it is inf"),
            *(False, 1),
            [
                "Error: learning diverged: it is inf",
                "Nothing is kept; begin again with a smaller --lr",
            ],
        ),
    ],
)
def test_what_ends_a_training_is_told_with_what_is_left(
    error: BaseException,
    has_batch: bool,
    code: int,
    told: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "checkpoint.safetensors").touch()
    if has_batch:
        (tmp_path / "diverged.npz").touch()
    with pytest.raises(SystemExit) as ended, training_errors("AGAIN", tmp_path, "--lr"):
        raise error
    assert ended.value.code == code
    lines = capsys.readouterr().err.splitlines()
    assert lines == [line.replace("RUN", str(tmp_path)) for line in told]


def test_a_second_signal_before_a_checkpoint_leaves_nothing_to_go_on_with(tmp_path: Path) -> None:
    with pytest.raises(StoppedAtOnce), training_errors("AGAIN", tmp_path):
        raise StoppedAtOnce(2)


def test_a_users_function_that_fails_is_told_from_its_own_first_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert telling(None) is None
    told = telling(failing)
    assert told is not None
    with pytest.raises(SystemExit), training_errors("AGAIN", tmp_path):
        told(7)
    lines = capsys.readouterr().err.splitlines()
    assert "test_errors.py" in lines[1]
    assert lines[-3:] == [
        *("ValueError: of 7", "Error: the function of --on-update failed: see above"),
        "A checkpoint is saved; go on with: AGAIN",
    ]


def test_every_name_is_kept_where_it_is_the_users() -> None:
    for name in {*TrainConfig.model_fields, *algorithm.find("mbpo").settings.model_fields}:
        error = ConfigError("env", f"{name} does not go with ", name, f", {name}")
        assert error.told(spelling) == f"{name} does not go with {spelling(name)}, {name}"
        assert str(error) == f"env: {name} does not go with {name}, {name}"
