from pathlib import Path
from typing import Any

import pytest

from tests import tiny_runs
from tests.tiny_runs import same_weights, stop_before
from tests.workflow_rl.studies.population_runs import configs_of, run, slow
from workflow_rl.collection.messages import StopRequested
from workflow_rl.runs.folder import read_metrics, runs_in
from workflow_rl.runs.learner import Learner


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> list[Path]:
    paths = [tmp_path_factory.mktemp("alone") / str(n) for n in range(3)]
    for path, config in zip(paths, configs_of(3), strict=True):
        tiny_runs.run(path, config)
    return paths


@pytest.mark.parametrize("shape", [{"n_workers": 1}, {"n_workers": 5}])
def test_each_policy_is_that_of_a_run_of_its_own(shape, alone, tmp_path):
    summaries = run(tmp_path / "run", configs_of(3, **shape))
    for path, folder in zip(alone, runs_in(tmp_path / "run"), strict=True):
        assert same_weights(path, folder)
        expected, rows = read_metrics(path), read_metrics(folder)
        assert [row["return_mean"] for row in rows] == [row["return_mean"] for row in expected]
    assert [summary["episodes"] for summary in summaries] == [36] * 3


@pytest.mark.parametrize("changes", [{"mode": "sync"}, {"async_rl": True}])
def test_so_it_is_in_other_modes(changes, tmp_path):
    configs = configs_of(2, **changes)
    run(tmp_path / "run", configs)
    for config, folder in zip(configs, runs_in(tmp_path / "run"), strict=True):
        tiny_runs.run(tmp_path / f"alone-{config.seed}", config)
        assert same_weights(tmp_path / f"alone-{config.seed}", folder)


def test_policies_may_collect_different_amounts(tmp_path):
    configs = [
        tiny_runs.config_of(seed=3, episodes_per_update=2),
        tiny_runs.config_of(seed=4, episodes_per_update=12),
    ]
    seen: list[int] = []

    def note(pool: Any, policy: Any, count: int) -> None:
        seen.append(policy.policy_version)

    summaries = run(tmp_path / "run", configs, before=note)
    assert [summary["updates"] for summary in summaries] == [18, 3]
    for config, folder in zip(configs, runs_in(tmp_path / "run"), strict=True):
        tiny_runs.run(tmp_path / str(config.seed), config)
        assert same_weights(tmp_path / str(config.seed), folder)
    # None is left behind: after two thirds of the batches of the one, so it is with the other.
    assert seen[:14].count(0) == 2
    assert max(seen[:14]) <= 12


def test_the_workers_collect_for_one_while_another_learns(tmp_path, monkeypatch):
    """When a policy has learned, the rollout of the other has been begun already."""
    begun: list[int] = []
    waiting: list[int] = []
    update = tiny_runs.PPOAgent.update

    def noting(agent: Any, trajectories: Any, progress: float) -> Any:
        waiting.append(len(begun) - len(waiting))
        return update(agent, trajectories, progress)

    submit = Learner.begin

    def counting(learner: Learner) -> None:
        before = len(learner.schedule.begun())
        submit(learner)
        begun.extend([learner.config.seed] * (len(learner.schedule.begun()) - before))

    monkeypatch.setattr(Learner, "begin", counting)
    monkeypatch.setattr(tiny_runs.PPOAgent, "update", noting)
    run(tmp_path / "run", configs_of(2))
    assert waiting[:-1] == [2] * 11


@pytest.mark.parametrize("stop_at", [0, slow(1), 5, slow(9), 17])
def test_stopped_anywhere_and_resumed_it_ends_alike(stop_at, alone, tmp_path):
    with pytest.raises(StopRequested):
        run(tmp_path / "run", configs_of(3), before=stop_before(stop_at))
    run(tmp_path / "run", configs_of(3, n_workers=1))
    for path, folder in zip(alone, runs_in(tmp_path / "run"), strict=True):
        assert same_weights(path, folder)
