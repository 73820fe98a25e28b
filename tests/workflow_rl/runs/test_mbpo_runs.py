"""Whole runs of --algorithm mbpo: as reproducible, and as well told, as PPO's."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from tests import tiny_runs
from tests.any_envs import TargetEnv
from workflow_rl import api as interface
from workflow_rl.agents import algorithm
from workflow_rl.agents.mbpo.agent import MBPOAgent
from workflow_rl.async_train_workflow_rl import train_async
from workflow_rl.collection.trace import LEARNER, Activity
from workflow_rl.commands.train_population import train_population
from workflow_rl.commands.tune import tune
from workflow_rl.errors import ConfigError, UserError
from workflow_rl.reporting.timeline import read_trace
from workflow_rl.runs.checkpoint import load_checkpoint
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.folder import read_config, read_metrics
from workflow_rl.runs.hints import warn_if_results_vary
from workflow_rl.runs.learner import make_agent
from workflow_rl.runs.loop import train_policy
from workflow_rl.runs.metrics import METRICS, return_columns
from workflow_rl.runs.saved_agent import load_saved

FOR_EITHER = {"batch_size": 16, "gradient_steps": 0.2}
MBPO = {
    **FOR_EITHER,
    "model_members": 2,
    "model_elites": 1,
    "model_hidden_sizes": (8,),
    "model_epochs": 1,
    "warm_up_steps": 60,
}


SELDOM = {**MBPO, "model_every": 50}


def config_of(mode: str = "async", **changes: Any) -> TrainConfig:
    fields = {"algorithm": "mbpo", "settings": MBPO, "total_episodes": 24, **changes}
    settings = {"activation": "relu", **(fields.pop("settings") or {})}
    return tiny_runs.config_of(mode, settings, **fields)


def learned(path: Path) -> Any:
    """All of the agent, its model and its memory."""
    return tiny_runs.all_of(tiny_runs.remembering_agent(path))


BOX = {"env": "tests.any_envs:tests/Target-v0", "env_args": {"length": 20}}


of_each_kind = pytest.mark.parametrize(
    "changes",
    [{}, {"async_rl": True, "settings": SELDOM}, {**BOX, "async_rl": True}],
    ids=["in turn", "exact lag, a fit in every third update", "bounded numbers"],
)


@of_each_kind
def test_the_same_whatever_the_number_of_workers(tmp_path: Path, changes: dict[str, Any]) -> None:
    for n_workers in (1, 2, 5):
        tiny_runs.run(tmp_path / str(n_workers), config_of(n_workers=n_workers, **changes))
    one = learned(tmp_path / "1")
    assert len(tiny_runs.remembering_agent(tmp_path / "1").replay) > 100
    assert one == learned(tmp_path / "2") == learned(tmp_path / "5")


def test_sync_and_async_collect_the_same(tmp_path: Path) -> None:
    for mode in ("sync", "async"):
        tiny_runs.run(tmp_path / mode, config_of(mode))
    assert learned(tmp_path / "sync") == learned(tmp_path / "async")


@of_each_kind
def test_a_resumed_run_ends_alike(tmp_path: Path, changes: dict[str, Any]) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    tiny_runs.run(whole, config_of(**changes))

    with pytest.raises(tiny_runs.loop.StopRequested):
        tiny_runs.run(parts, config_of(**changes), before=stop_after_two)
    tiny_runs.run(parts, config_of(**changes))
    assert learned(whole) == learned(parts)


def stop_after_two(pool: Any, policy: Any, count: int) -> None:
    if count == 2:
        pool.stop_signal = 2


def test_only_the_latest_checkpoint_has_the_steps(tmp_path: Path) -> None:
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
    begun = tmp_path / "begun"
    with tiny_runs.on_counting_envs():
        train_policy(
            config, begun, init_from=load_checkpoint(path / "best.safetensors"), quiet=True
        )
    assert learned(begun) is not None
    further = config.changed(total_episodes=30)
    with pytest.raises(UserError, match=r"checkpoint\.safetensors needs .*memory"):
        tiny_runs.run(path, further)


def test_a_finished_run_goes_on_with_its_steps(tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    tiny_runs.run(whole, config_of(total_episodes=30, settings={**MBPO, "rollout_length_final": 1}))
    for total in (12, 30):
        config = config_of(total_episodes=total, settings={**MBPO, "rollout_length_final": 1})
        tiny_runs.run(parts, config)
    assert learned(whole) == learned(parts)


@pytest.mark.parametrize(("changes", "bits"), [({}, True), (BOX, False)])
def test_the_environment_says_what_its_model_is_of(changes: dict[str, Any], bits: bool) -> None:
    agent = make_agent(config_of(**changes))
    assert isinstance(agent, MBPOAgent)
    assert agent.dynamics is not None
    assert agent.dynamics.bits is bits


def test_its_metrics(tmp_path: Path) -> None:
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


def test_sac_is_mbpo_without_a_model(tmp_path: Path) -> None:
    of_sac = {**FOR_EITHER, "warm_up_steps": MBPO["warm_up_steps"]}
    tiny_runs.run(tmp_path / "sac", config_of(algorithm="sac", settings=of_sac))
    tiny_runs.run(tmp_path / "mbpo", config_of(settings={**MBPO, "imagined_share": 0.0}))
    (state, *steps), (of_mbpo, *same_steps) = (learned(tmp_path / n) for n in ("sac", "mbpo"))
    assert state.items() <= of_mbpo.items()
    assert steps == same_steps
    assert not {"imagined_steps", "model_epochs"} & read_metrics(tmp_path / "sac")[-1].keys()


def test_settings_are_kept_with_the_run(tmp_path: Path) -> None:
    config = config_of()
    again = TrainConfig.from_dict(config.to_dict())
    assert again == config
    assert again.settings.model_hidden_sizes == (8,)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"settings": {"batch_size": 0}}, "batch_size"),
        ({"settings": {"nonsense": 1}}, "nonsense"),
        ({"algorithm": "dqn", "settings": None}, "algorithm"),
        ({"algorithm": "ppo"}, "batch_size"),
        ({"algorithm": "sac", "settings": {"imagined_share": 0.5}}, "imagined_share"),
        ({"device": "cuda"}, "device"),
    ],
)
def test_what_does_not_go_together(changes: dict[str, Any], name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config_of(**changes)
    assert caught.value.field_name == name


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"env": "tests.any_envs:PuzzleEnv", "env_args": {}}, "algorithm"),
        ({"settings": {"target_entropy": 1.5}}, "target_entropy"),
        ({**BOX, "settings": {"target_entropy": 0.7}}, "target_entropy"),
    ],
)
def test_what_does_not_go_with_the_environment(changes: dict[str, Any], name: str) -> None:
    config = config_of(**changes)
    with pytest.raises(ConfigError) as caught:
        warn_if_results_vary(config)
    assert caught.value.field_name == name


@pytest.mark.parametrize(
    ("command", "arguments", "says"),
    [
        (
            train_async,
            ["--batch-size", "8"],
            "option of --algorithm sac, --algorithm mbpo",
        ),
        (train_async, ["--algorithm", "mbpo", "--batch-size", "0"], "--batch-size"),
        (train_async, ["--algorithm", "mbpo", "--model-elites", "9"], "--model-elites: 9"),
        (
            train_async,
            ["--algorithm", "sac", "--replay-capacity", "1999"],
            "--replay-capacity: 1999",
        ),
        (
            train_async,
            ["--algorithm", "sac", "--start-steps", "9"],
            "option of --algorithm mbpo",
        ),
        (
            train_async,
            ["--algorithm", "sac", "--model-members", "9"],
            "option of --algorithm mbpo",
        ),
        (
            train_async,
            ["--algorithm", "sac", "--rollout-length", "9"],
            "option of --algorithm mbpo",
        ),
        (train_async, ["--algorithm", "sac", "--imagined-share", ".5"], "--imagined-share"),
        (
            train_async,
            ["--algorithm", "mbpo", "--clip-range", "0.1"],
            "it is an option of --algorithm ppo",
        ),
        (train_async, ["--algorithm", "mbpo", "--learner-threads", "2"], "--learner-threads"),
        (train_population, ["--algorithm", "mbpo"], "--algorithm"),
        (tune, ["--algorithm", "mbpo", "--trials", "1"], "--algorithm"),
    ],
)
def test_one_line_for_what_is_wrong(command: Any, arguments: list[str], says: str) -> None:
    result = CliRunner().invoke(
        command, [*arguments, "--dry-run"][: 9 if command is not tune else -1]
    )
    assert result.exit_code == 2
    assert says in result.output


def test_the_trace_tells_learning_a_model_from_learning_to_act(tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    train_policy(config_of(), tmp_path / "run", quiet=True, trace_path=trace)
    of_run = read_trace(trace)
    activities = of_run.rows[LEARNER].activity.tolist()
    models = sum(row["model_epochs"] > 0 for row in read_metrics(tmp_path / "run"))
    assert models > 2
    assert activities.count(Activity.MODELLING) == models
    assert len(of_run.learning()) == len(read_metrics(tmp_path / "run"))


@pytest.mark.parametrize("algorithm", ["sac", "mbpo"])
@pytest.mark.parametrize("ppo", [None, {"learning_rate": 0.01}])
def test_from_python_on_the_environments_of_a_function(
    algorithm: str, ppo: dict[str, Any] | None, tmp_path: Path
) -> None:
    def make_env() -> TargetEnv:  # Which nobody can import.
        return TargetEnv(length=8)

    path = tmp_path / "run"
    config = TrainConfig(
        *("async", 1),
        algorithm=algorithm,
        settings={  # type: ignore[arg-type]
            **(MBPO if algorithm == "mbpo" else FOR_EITHER),
            **{"warm_up_steps": 16, **(ppo or {})},
        },
        total_steps=48,
        steps_per_update=24,
    )
    interface.train(config, path, env=make_env)

    assert [row["real_steps"] for row in read_metrics(path)] == [64]
    settings = read_config(path).settings
    assert settings.activation == "relu"
    assert settings.learning_rate == (1e-3 if ppo is None else 0.01)
    assert settings.reward_scale == 1
    assert interface.load_agent(path, env=make_env).act(np.zeros(2, np.float32)).shape == (2,)
    longer = config.changed(total_steps=72)
    interface.train(longer, path, env=make_env, resume=True)
    # Eight episodes of 8 steps; then three, which have the 24 steps of an update.
    assert [row["real_steps"] for row in read_metrics(path)] == [64, 88]
    assert read_metrics(path)[-1]["gradient_steps"] > 0
