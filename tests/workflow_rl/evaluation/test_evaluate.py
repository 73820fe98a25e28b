"""A score is of all the episodes asked for, and of none that the agent was chosen on."""

import functools
import itertools
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.any_envs import SeedEnv
from tests.cli import output_of
from workflow_rl import api as interface
from workflow_rl.cage2.scenario2 import RED_AGENTS
from workflow_rl.cage2.scoring.protocol import cell_spec
from workflow_rl.collection.messages import TooManyFailuresError
from workflow_rl.environments.episode import SeedStream, episode_spec
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.folder import read_metrics, read_summary
from workflow_rl.runs.read_checkpoint import load_checkpoint

EDGE = "ArithmeticError: the coin stands on its edge"


def seeds_of(stream: SeedStream, numbers: Iterable[int]) -> frozenset[int]:
    return frozenset(episode_spec(0, n, (), stream).env_seed for n in numbers)


def env_of(stream: SeedStream, numbers: Iterable[int] = ()) -> functools.partial[SeedEnv]:
    """Episodes of these numbers raise, of a run or an evaluation with seed 0."""
    return functools.partial(SeedEnv, seeds_of(stream, numbers))


def run(path: Path, env: Any = SeedEnv, resume: bool = False, **changes: Any) -> Path:
    fields = {"n_workers": 1, "env": "seeds", "total_episodes": 8, "episodes_per_update": 4}
    settings = {"hidden_sizes": (2,), "minibatch_size": 4, "epochs": 1}
    config = TrainConfig("async", 2, settings=settings, device="cpu", **{**fields, **changes})
    return interface.train(config, path, env=env, resume=resume)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(tmp_path_factory.mktemp("runs") / "run")


@pytest.mark.parametrize("numbers", [[3], [0, 3, 7, 9, 19], range(20)])
def test_survivors_have_no_score(numbers, trained):
    env = env_of(SeedStream.EVALUATION, numbers)
    with pytest.raises(TooManyFailuresError) as raised:
        interface.evaluate(trained, 20, env=env, n_workers=1)
    (line,) = str(raised.value).splitlines()
    assert EDGE in line
    for number in list(numbers)[:5]:
        assert f" {number}" in line
    if len(list(numbers)) <= 10:
        assert f" {len(list(numbers))} of the 20 episodes" in line
    assert len(interface.evaluate(trained, 20, env=SeedEnv, n_workers=1).returns) == 20


@pytest.mark.parametrize(("name", "value"), [("episodes", 0), ("episodes", -3), ("seed", -1)])
def test_an_evaluation_that_there_cannot_be(name, value, trained):
    with pytest.raises(ValueError, match=f"^{name} is {value}: give [01] or more$"):
        interface.evaluate(trained, **{name: value}, env=SeedEnv)


def test_rewards_that_are_no_numbers_have_no_score(trained):
    env = functools.partial(SeedEnv, unknown=seeds_of(SeedStream.EVALUATION, [3]))
    with pytest.raises(TooManyFailuresError, match="reward is not finite at step 0 of episode 3"):
        interface.evaluate(trained, 5, env=env, n_workers=1)


def test_the_command_says_so_and_writes_nothing(trained, monkeypatch):
    def load_player(*arguments: Any, **options: Any) -> Any:
        return loaded(trained, env=env_of(SeedStream.EVALUATION, [2, 4]))

    from workflow_rl.runs import saved_agent

    loaded = saved_agent.load_player
    monkeypatch.setattr(saved_agent, "load_player", load_player)
    arguments = [str(trained), "--episodes", "6", "--n-workers", "1", "--quiet"]
    result = output_of("evaluate", *arguments, code=1)
    line = result.splitlines()[-1]
    assert line.startswith("Error: ")
    assert "2 of the 6 episodes" in line
    assert "2, 4" in line
    assert EDGE in line
    assert not (trained / "evaluation.json").exists()


@pytest.mark.parametrize("content", ["[]", "5", "{", '{"env": ["CartPole-v1"]}'])
def test_a_run_of_an_odd_config_is_refused_in_a_line(content, tmp_path):
    (tmp_path / "config.json").write_text(content)
    result = output_of("evaluate", str(tmp_path), "--episodes", "2", code=2)
    assert result.splitlines()[-1].startswith("Error: ")


@pytest.mark.parametrize(
    ("how", "numbers", "said"),
    [
        ("broken", [1], "1 of the 3 episodes of its evaluation raise exceptions (1)"),
        ("broken", [0, 1, 2], "3 of the 3 episodes of its evaluation raise exceptions (0, 1, 2)"),
        ("unknown", [1], "no score after update 1: the environment's reward is not finite"),
    ],
)
def test_an_evaluation_in_training_without_all_its_episodes_chooses_nothing(
    how, numbers, said, tmp_path, caplog
):
    seeds = seeds_of(SeedStream.VALIDATION, numbers)
    env = functools.partial(SeedEnv, **{how: seeds})
    path = run(tmp_path / "run", env, eval_every=1, eval_episodes=3)
    assert all(math.isnan(row["eval_return_mean"]) for row in read_metrics(path))
    assert read_summary(path)["best_score"] is None
    assert said in caplog.text


@pytest.mark.parametrize("n_broken", [1, 3])
def test_training_episodes_choose_the_best_unless_too_many_raise(n_broken, tmp_path):
    """By the mean of the last 100, of which one may raise."""
    broken = range(110, 110 + n_broken)
    counts = {"total_episodes": 250, "episodes_per_update": 10}
    path = run(tmp_path / "run", env_of(SeedStream.TRAINING, broken), **counts)
    specs = [episode_spec(0, n) for n in range(250) if n not in broken]
    returns = [spec.env_seed / 2**32 for spec in specs]
    scores = {}
    for update in range(1, 26):
        n_ended = 10 * update - sum(n < 10 * update for n in broken)
        n_recent = sum(10 * update - 100 <= n < 10 * update for n in broken)
        if n_ended >= 100 and n_recent <= 1:
            scores[update] = np.mean(returns[n_ended - 100 : n_ended])
    best = load_checkpoint(path / "best.safetensors").training
    assert best.updates == max(scores, key=lambda update: scores[update])


def test_without_a_score_the_best_is_the_last_of_an_extended_run_too(tmp_path):
    for total in (8, 12):
        run(tmp_path / "run", resume=total == 12, total_episodes=total)
        assert load_checkpoint(tmp_path / "run" / "best.safetensors").training.episodes == total


def test_what_chooses_the_best_is_not_what_scores_it(tmp_path):
    path = run(tmp_path / "run", eval_every=1, eval_episodes=1)
    (chosen_on,) = {row["eval_return_mean"] for row in read_metrics(path)}
    assert chosen_on not in interface.evaluate(path, 50, env=SeedEnv, n_workers=1).returns


SEEDS = st.integers(0, 2**63 - 1)
NUMBERS = st.lists(st.integers(0, 10**6 - 1), min_size=1, max_size=3)


@example(7, 7, 4, [0, 1, 2, 3, 4, 5])
@example(7, 7, 5, [0, 1, 2, 3, 4, 5])
@given(SEEDS, SEEDS, st.integers(0, 5), NUMBERS)
def test_what_chooses_shares_no_episode_with_what_scores(seed, other_seed, upper, numbers):
    """Whatever the run's and the evaluation's seeds: NumPy splits a seed into words."""
    seeds = {seed, other_seed, seed % 2**32, seed % 2**32 + upper * 2**32}
    validation, ranking, evaluation = (
        {
            episode_spec(one, number, (), stream)[2:]
            for one, number in itertools.product(seeds, numbers)
        }
        for stream in (SeedStream.VALIDATION, SeedStream.RANKING, SeedStream.EVALUATION)
    )
    cells = {
        cell_spec(one, 30, red_agent, number)[2:]
        for one, red_agent, number in itertools.product(seeds, RED_AGENTS, numbers)
    }
    assert not validation & ranking
    assert not (validation | ranking) & (evaluation | cells)
