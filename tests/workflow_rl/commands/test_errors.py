"""What messages say of a user's own words, and of ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from tests.workflow_rl.commands.any_env_commands import CART_POLE, TINY, invoke, refused
from workflow_rl.agents import algorithm
from workflow_rl.agents.settings import ConfigError
from workflow_rl.commands.options import spelling
from workflow_rl.runs.config import TrainConfig

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


def test_every_name_is_kept_where_it_is_the_users() -> None:
    for name in {*TrainConfig.model_fields, *algorithm.find("mbpo").settings.model_fields}:
        error = ConfigError("env", f"{name} does not go with ", name, f", {name}")
        assert error.told(spelling) == f"{name} does not go with {spelling(name)}, {name}"
        assert str(error) == f"env: {name} does not go with {name}, {name}"
