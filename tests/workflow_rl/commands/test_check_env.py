"""`check-env`: what it says of an environment, and one clear line for every mistake."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.any_envs import MaskedPuzzleEnv, TargetEnv
from tests.workflow_rl.commands.any_env_commands import invoke, refused
from workflow_rl.environments import examination
from workflow_rl.environments.examination import SEEDS


@pytest.mark.parametrize(
    ("arguments", "spaces"),
    [
        (["CartPole-v1"], "4 numbers observed, 2 actions"),
        (["Pendulum-v1", "--env-arg", "g=5"], "3 numbers observed, actions of 1 number"),
        (["tests.any_envs:sized_target", "--env-arg", "length=3"], "2 numbers observed"),
        (["examples.own_simulator:Corridors", "--env-arg", "length=3"], "2 numbers observed"),
        (
            ["tests.any_envs:PictureEnv", "--env-arg", "actions=bits"],
            "192 numbers observed, 2 x 2 actions\n"
            "images        8 x 8 x 3 channels: train with --network cnn\n",
        ),
    ],
)
def test_an_environment_that_can_be_trained_on(arguments: list[str], spaces: str) -> None:
    result = invoke("check-env", *arguments, "--steps", "50", "--seconds", "2")
    assert result.exit_code == 0, result.output
    assert f"spaces        ok: {spaces}" in result.output
    assert "gymnasium     ok" in result.output
    assert "seeds         ok" in result.output
    assert "steps/s of one environment; " in result.output
    assert "ms a reset" in result.output


class TiringEnv(TargetEnv):
    """Raises when all its instances have made 200 steps."""

    n_steps = 0

    def step(self, action: Any) -> Any:
        TiringEnv.n_steps += 1
        if TiringEnv.n_steps > 200:
            raise OSError("tired")
        return super().step(action)


def test_an_exception_in_the_measurement_of_speed_is_one_line() -> None:
    result = invoke("check-env", f"{__name__}:TiringEnv", "--steps", "5")
    assert result.exit_code == 1
    assert "episodes      fail: OSError: tired" in result.output
    assert "Traceback" not in result.output


def test_an_environment_whose_steps_wait_is_told_of_more_processes() -> None:
    result = invoke("check-env", "tests.any_envs:SlowEnv", "--steps", "5")
    assert result.exit_code == 0, result.output
    assert "this process waits: train with --n-workers 8 --n-envs 8, or more" in result.output


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "NoisyStepEnv",
            f"the reward after step 1 of seed {SEEDS[0]} is another when it is played again",
        ),
        ("NoisyResetEnv", f"the observation after reset of seed {SEEDS[0]} is another"),
        ("RememberingEnv", f"the reward after step 1 of seed {SEEDS[0]} is another"),
    ],
)
def test_an_environment_that_its_seed_does_not_determine(name: str, words: str) -> None:
    result = invoke("check-env", f"tests.lying_envs:{name}", "--steps", "20")
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
        ("AlwaysSpoiltEnv", "numbers       fail: the reward of step 2 is nan"),
        ("ShowsNoNumberEnv", "numbers       fail: the observation of step 2 holds inf"),
    ],
)
def test_a_number_that_is_not_finite_is_told_by_its_step(name: str, words: str) -> None:
    result = invoke("check-env", f"tests.lying_envs:{name}", "--steps", "20")
    assert result.exit_code == 1, result.output
    assert words in result.output


def test_an_environment_that_shows_what_its_space_does_not_hold() -> None:
    result = invoke("check-env", "tests.lying_envs:LaterLyingEnv", "--steps", "20")
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


def test_what_is_left_out_and_what_masks_are_read_from_are_told() -> None:
    result = invoke("check-env", "tests.any_envs:TalkingPuzzleEnv", "--steps", "5")
    assert result.exit_code == 0, result.output
    assert "without a, said.words, z, since their spaces are not supported" in result.output
    assert "--ignore-unknown" in result.output
    result = invoke("check-env", "tests.any_envs:NamedPuzzleEnv", "--steps", "5")
    assert result.exit_code == 0, result.output
    assert "masks         ok: its method get_action_mask rules actions out" in result.output


class EndlessEnv(TargetEnv):
    """No episode ends."""

    def step(self, action: Any) -> Any:
        obs, reward, *_ = super().step(action)
        return obs, reward, False, False, {}


def test_episodes_that_do_not_end_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examination, "MANY_STEPS", 200)
    result = invoke("check-env", f"{__name__}:EndlessEnv", "--steps", "5")
    assert "episodes      warn: none ended within" in result.output
    assert "--num-steps-per-env" in result.output
    assert "none ended" not in invoke("check-env", "CartPole-v1", "--steps", "5").output


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
def test_gymnasiums_checker_plays_possible_actions(env: str) -> None:
    result = invoke("check-env", env, "--steps", "20")
    assert result.exit_code == 0, result.output
    assert "gymnasium     ok" in result.output
