from pathlib import Path
from typing import Any

import pytest

from tests import any_envs
from tests.any_envs import MaskedPuzzleEnv, TargetEnv
from tests.cli import call, refused, said_by
from workflow_rl.environments import examination
from workflow_rl.environments.examination import SEEDS


@pytest.mark.parametrize(
    ("words", "spaces"),
    [
        ("CartPole-v1", "4 numbers observed, 2 actions"),
        ("Pendulum-v1 --env-arg g=5", "3 numbers observed, actions of 1 number"),
        ("tests.any_envs:sized_target --env-arg length=3", "2 numbers observed"),
        ("examples.own_simulator:Corridors --env-arg length=3", "2 numbers observed"),
        (
            "tests.any_envs:PictureEnv --env-arg actions=bits",
            "192 numbers observed, 2 x 2 actions\n"
            "images        8 x 8 x 3 channels: train with --network cnn\n",
        ),
    ],
)
def test_an_environment_that_can_be_trained_on(words, spaces):
    said = said_by("check-env", words, "--steps 50 --seconds 2")
    assert f"spaces        ok: {spaces}" in said
    assert "gymnasium     ok" in said
    assert "seeds         ok" in said
    assert "steps/s of one environment; " in said
    assert "ms a reset" in said
    assert "none ended" not in said


class TiringEnv(TargetEnv):
    """Raises when all its instances have made 200 steps."""

    n_steps = 0

    def step(self, action: Any) -> Any:
        TiringEnv.n_steps += 1
        if TiringEnv.n_steps > 200:
            raise OSError("tired")
        return super().step(action)


def line_of(name: str, code: str) -> str:
    lines = Path(any_envs.__file__).read_text().splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith(f"class {name}"))
    return f"any_envs.py, line {1 + start + [code in line for line in lines[start:]].index(True)}"


FAILS = line_of("FailingResetEnv", "raise OSError")


LYING = "tests.lying_envs:"
WRONG = [
    (f"{__name__}:TiringEnv --steps 5", "episodes      fail: OSError: tired"),
    ("tests.any_envs:FailingResetEnv", f"fail: OSError: the map is missing (tests/{FAILS}"),
    (f"{LYING}NoisyStepEnv", f"the reward after step 1 of seed {SEEDS[0]} differs when it is"),
    (f"{LYING}AlwaysSpoiltEnv", "numbers       fail: the reward of step 2 is nan"),
    (f"{LYING}ShowsNoNumberEnv", "numbers       fail: the observation of step 2 holds inf"),
]


@pytest.mark.parametrize(("env", "told"), WRONG)
def test_what_is_wrong_with_an_environment_is_told(env, told):
    said = said_by("check-env --steps 20", env, code=1)
    (line,) = [line for line in said.splitlines() if told in line]
    assert " fail: " in line
    assert "Traceback" not in said


def test_an_environment_that_shows_what_its_space_does_not_hold():
    said = said_by("check-env tests.lying_envs:LaterLyingEnv --steps 20", code=1)
    assert "space         fails: the environment's observation of step 3 holds 300" in said
    assert "runs will vary" not in said


def test_an_environment_that_cannot_be_made_is_told_by_file_and_line():
    refused(call("check-env tests.any_envs:BrokenEnv"), line_of("BrokenEnv", "raise OSError"))


def test_an_environment_whose_steps_wait_is_told_of_more_processes():
    said = said_by("check-env tests.any_envs:SlowEnv --steps 5")
    assert "this process waits: train with --n-workers 8 --n-envs 8, or more" in said


def test_what_is_left_out_and_what_masks_are_read_from_are_told():
    said = said_by("check-env tests.any_envs:TalkingPuzzleEnv --steps 5")
    assert "without a, said.words, z, since their spaces are not supported" in said
    assert "--ignore-unknown" in said
    said = said_by("check-env tests.any_envs:NamedPuzzleEnv --steps 5")
    assert "masks         ok: its method get_action_mask rules actions out" in said


class EndlessEnv(TargetEnv):
    """No episode ends."""

    def step(self, action: Any) -> Any:
        obs, reward, *_ = super().step(action)
        return obs, reward, False, False, {}


def test_episodes_that_do_not_end_are_told(monkeypatch):
    monkeypatch.setattr(examination, "MANY_STEPS", 200)
    said = call("check-env", f"{__name__}:EndlessEnv --steps 5").output
    assert "episodes      warn: none ended within" in said
    assert "--num-steps-per-env" in said


class Refusing(MaskedPuzzleEnv):
    """Does not only assert that an action is possible."""

    def step(self, action: Any) -> Any:
        lamps, directions = self.mask
        if not (lamps[action[0] - 1] and directions[action[1]]):
            raise ValueError("an impossible action")
        return super().step(action)


@pytest.mark.parametrize(
    "env",
    ["tests.any_envs:MaskedPuzzleEnv", "tests.any_envs:NamedPuzzleEnv", f"{__name__}:Refusing"],
)
def test_gymnasiums_checker_plays_possible_actions(env):
    assert "gymnasium     ok" in said_by("check-env", env, "--steps 20")
