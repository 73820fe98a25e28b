"""Whole runs of --algorithm mbpo: as reproducible, and as well told, as PPO's."""

import math
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests import tiny_runs
from tests.workflow_rl.runs import preset_runs
from workflow_rl.agents import algorithm
from workflow_rl.collection.trace import LEARNER, Activity
from workflow_rl.errors import ConfigError, UserError
from workflow_rl.reporting.timeline import read_trace
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.execute import warn_if_results_vary
from workflow_rl.runs.folder import read_metrics
from workflow_rl.runs.learner import make_agent
from workflow_rl.runs.loop import train_policy
from workflow_rl.runs.metrics import METRICS, return_columns
from workflow_rl.runs.read_checkpoint import load_checkpoint
from workflow_rl.runs.saved_agent import load_saved

FOR_EITHER = {"batch_size": 16, "gradient_steps": 0.2}
MBPO = {**preset_runs.MBPO, **FOR_EITHER, "warm_up_steps": 60}
SELDOM = {**MBPO, "model_every": 50}


def config_of(mode: str = "async", **changes: Any) -> TrainConfig:
    fields = {"algorithm": "mbpo", "settings": MBPO, "total_episodes": 24, **changes}
    settings = {"activation": "relu", **(fields.pop("settings") or {})}
    return tiny_runs.config_of(mode, settings, **fields)


def learned(path: Path) -> Any:
    """All of the agent, its model and its memory."""
    return tiny_runs.all_of(tiny_runs.remembering_agent(path))


BOX = {"env": "tests.any_envs:tests/Target-v0", "env_args": {"length": 20}}


@pytest.mark.parametrize(
    "changes",
    [{}, {"async_rl": True, "settings": SELDOM}, {**BOX, "async_rl": True}],
    ids=["in turn", "exact lag, a fit in every third update", "bounded numbers"],
)
def test_the_same_for_any_workers_in_both_modes_and_after_a_stop(tmp_path, changes):
    paths = [tmp_path / name for name in ("1", "2", "5", "sync", "stopped")]
    for path in paths[:3]:
        tiny_runs.run(path, config_of(n_workers=int(path.name), **changes))
    tiny_runs.run(paths[3], config_of("sync", **changes))
    with pytest.raises(tiny_runs.loop.StopRequested):
        tiny_runs.run(paths[4], config_of(**changes), before=tiny_runs.stop_before(2))
    tiny_runs.run(paths[4], config_of(**changes))
    assert len(tiny_runs.remembering_agent(paths[0]).replay) > 100
    for path in paths[1:]:
        assert learned(path) == learned(paths[0]), path.name


def test_only_the_latest_checkpoint_has_the_steps(tmp_path):
    path, config = tmp_path / "run", config_of(keep_every=1, checkpoint_every=1)
    tiny_runs.run(path, config)
    sizes = {(path / "kept" / f"00000{n}.safetensors").stat().st_size for n in (1, 2, 3, 4)}
    assert max(sizes) - min(sizes) < 1000
    for name in ("best.safetensors", *(f"kept/00000{n}.safetensors" for n in (1, 2, 3, 4))):
        saved = load_checkpoint(path / name)
        assert saved.memory is None
        assert not saved.agent.keys() & {"replay", "imagined"}
    assert load_checkpoint(path / "checkpoint.safetensors").memory
    shutil.rmtree(path / "memory")
    for name in ("best.safetensors", "kept/000002.safetensors", "checkpoint.safetensors"):
        assert load_saved(path / name).policy.policy_version > 0
    begun, best = tmp_path / "begun", load_checkpoint(path / "best.safetensors")
    with tiny_runs.on_counting_envs():
        train_policy(config, begun, init_from=best, quiet=True)
    assert learned(begun) is not None
    further = config.changed(total_episodes=30)
    with pytest.raises(UserError, match=r"checkpoint\.safetensors needs .*memory"):
        tiny_runs.run(path, further)


def test_a_finished_run_goes_on_with_its_steps(tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    settings = {**MBPO, "rollout_length_final": 1}
    for path, total in ((whole, 30), (parts, 12), (parts, 30)):
        tiny_runs.run(path, config_of(total_episodes=total, settings=settings))
    assert learned(whole) == learned(parts)


@pytest.mark.parametrize(("changes", "bits"), [({}, True), (BOX, False)])
def test_the_environment_says_what_its_model_is_of(changes, bits):
    agent = make_agent(config_of(**changes))
    assert agent.dynamics.bits is bits


def test_its_metrics(tmp_path):
    tiny_runs.run(tmp_path, config_of())
    rows = read_metrics(tmp_path)
    own = [one for one in algorithm.find("mbpo").metrics if one not in METRICS]
    assert [*rows[0]] == [*METRICS, *own, *return_columns(config_of()).values()]
    last = rows[-1]
    assert last["real_steps"] == last["env_steps"]
    assert last["imagined_steps"] > 0
    assert math.isfinite(last["model_obs_loss"])
    assert math.isnan(last["approx_kl"])
    assert rows[0]["gradient_steps"] == 0  # Before the warm-up.


def test_sac_is_mbpo_without_a_model(tmp_path):
    of_sac = {**FOR_EITHER, "warm_up_steps": MBPO["warm_up_steps"]}
    tiny_runs.run(tmp_path / "sac", config_of(algorithm="sac", settings=of_sac))
    tiny_runs.run(tmp_path / "mbpo", config_of(settings={**MBPO, "imagined_share": 0.0}))
    (state, *steps), (of_mbpo, *same_steps) = (learned(tmp_path / n) for n in ("sac", "mbpo"))
    assert state.items() <= of_mbpo.items()
    assert steps == same_steps
    assert not {"imagined_steps", "model_epochs"} & read_metrics(tmp_path / "sac")[-1].keys()


def test_what_it_cannot_learn_is_refused_before_the_run():
    with pytest.raises(ConfigError) as caught:
        warn_if_results_vary(config_of(env="tests.any_envs:PuzzleEnv", env_args={}))
    assert caught.value.field_name == "algorithm"


def test_the_trace_tells_learning_a_model_from_learning_to_act(tmp_path):
    trace = tmp_path / "trace.json"
    train_policy(config_of(), tmp_path / "run", quiet=True, trace_path=trace)
    of_run = read_trace(trace)
    activities = of_run.rows[LEARNER].activity.tolist()
    models = sum(row["model_epochs"] > 0 for row in read_metrics(tmp_path / "run"))
    assert models > 2
    assert activities.count(Activity.MODELLING) == models
    assert len(of_run.learning()) == len(read_metrics(tmp_path / "run"))
