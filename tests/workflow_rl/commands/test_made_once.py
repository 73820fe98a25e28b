"""A run makes each policy's config once, and looks up what the config names once."""

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

from tests.cli import CART_POLE, TINY, said_by
from workflow_rl.agents import algorithm
from workflow_rl.environments.source import make_environment
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.execute import new_plan
from workflow_rl.runs.read_checkpoint import load_checkpoint

COUNTED: dict[str, Any] = {
    "config": TrainConfig.__init__,
    "environment": make_environment,
    "algorithm": algorithm.find,
    "checkpoint": load_checkpoint,
}
ONCE = {"config": 1, "environment": 1, "algorithm": 1}


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """Count the calls of the functions in COUNTED."""
    names: dict[CodeType, str] = {called.__code__: name for name, called in COUNTED.items()}
    calls: Counter[str] = Counter()

    def count(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code in names:
            calls[names[frame.f_code]] += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        yield calls
    finally:
        sys.setprofile(before)


def test_a_run_and_its_resumption(tmp_path):
    with counted() as calls:
        said_by("train-async", CART_POLE, TINY, "--run-dir", tmp_path)
    assert calls == ONCE
    with counted() as calls:
        said_by("train-async --total-steps 900 --quiet --resume", tmp_path)
    assert calls == {**ONCE, "checkpoint": 1}


def test_policies_share_what_their_config_names():
    with counted() as calls:
        plan = new_plan(TrainConfig("async", env="CartPole-v1", total_steps=60), n_policies=3)
    assert [config.seed for config in plan.configs] == [0, 1, 2]
    assert calls == {**ONCE, "config": 3}


def test_a_device_is_chosen_while_the_config_is_made():
    with counted() as calls:
        shown = said_by("train-async", CART_POLE, "--device auto --dry-run")
    assert "device: auto" not in shown
    assert calls == ONCE
