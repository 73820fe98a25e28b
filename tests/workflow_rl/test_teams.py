"""Runs of a team: the same weights for any number of workers, kinds of training, and resumes."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli import output_of
from tests.tiny_teams import Doors, Kinds, ShiftEnv, Shifts
from workflow_rl import TrainConfig, evaluate, learning_curves, load_agent, record, train
from workflow_rl.agents.policies.distributions import Categorical
from workflow_rl.agents.policies.numpy_policy import PolicyParameters
from workflow_rl.agents.policies.team_policy import TeamParameters
from workflow_rl.agents.team import TeamLayout
from workflow_rl.cage2.scoring.players import load_trained
from workflow_rl.collection.schedule import BegunBatch, Share
from workflow_rl.environments.agent_player import Team
from workflow_rl.environments.episode import SeedStream, episode_spec
from workflow_rl.errors import ConfigError, ObservationError, UserError
from workflow_rl.runs.checkpoint import save_checkpoint
from workflow_rl.runs.folder import read_metrics, weights_digest
from workflow_rl.runs.read_checkpoint import load_checkpoint

pytestmark = pytest.mark.system

LAYOUT = TeamLayout(("alone",), (3,), (2,))
WEIGHT, BIAS = np.arange(6, dtype=np.float32).reshape(3, 2), np.zeros(2, np.float32)
SETTINGS = {
    **{"hidden_sizes": (16,), "minibatch_size": 64, "epochs": 2},
    **{"learning_rate": 0.01, "learning_rate_final": 0.01},
}


def trained(
    path: Path,
    mode: str = "async",
    resume: bool = False,
    env: type[Any] = ShiftEnv,
    init_from: Path | None = None,
    **changes: Any,
) -> str:
    given = {"n_envs": 3, "total_episodes": 24, "episodes_per_update": 6, "n_workers": 1, **changes}
    settings = {**SETTINGS, **given.pop("settings", {})}
    config = TrainConfig(mode, env="shift", settings=settings, **given)
    train(config, path, env=env, resume=resume, init_from=init_from)
    return weights_digest(load_checkpoint(path / "checkpoint.safetensors").agent["network"])


@pytest.mark.parametrize("network", ["gru", "lstm", "frame-stack"])
def test_a_memory_goes_on_with_the_decisions_of_its_agent(tmp_path: Path, network: str) -> None:
    """The learner computes the log-probabilities with which the workers acted."""
    whole = {"network": network, "minibatch_size": 10**6, "epochs": 1}
    trained(tmp_path / "run", n_envs=4, settings=whole)
    for row in read_metrics(tmp_path / "run"):
        assert abs(row["approx_kl"]) < 1e-9
        assert row["clip_fraction"] == 0
    # Alone, step by step, as a user plays it.
    team = load_agent(tmp_path / "run", env=ShiftEnv)
    assert played(team, 2) == played(load_agent(tmp_path / "run", env=ShiftEnv), 2)


def test_a_checkpoint_keeps_the_policies_of_a_batch_that_is_being_collected(
    tmp_path: Path,
) -> None:
    trained(tmp_path / "run", total_episodes=6)
    saved = load_checkpoint(tmp_path / "run" / "checkpoint.safetensors")
    parameters = TeamParameters(
        LAYOUT, {"own": (0,)}, {"own": PolicyParameters((WEIGHT,), (BIAS,), "tanh")}
    )
    begun = [BegunBatch(parameters.actor(3), Share(6, 6))]
    save_checkpoint(tmp_path / "begun.safetensors", replace(saved, begun=begun))
    (batch,) = load_checkpoint(tmp_path / "begun.safetensors").begun
    assert batch.share == Share(6, 6)
    assert batch.policy.policy_version == 3
    assert batch.policy.parameters.layout == LAYOUT
    assert batch.policy.parameters.policies == {"own": (0,)}
    (member,) = batch.policy.parameters.parameters.values()
    assert member.weights[0].tolist() == WEIGHT.tolist()
    assert member.distribution == Categorical(2)


def test_a_team_does_not_play_cage_2(tmp_path: Path) -> None:
    trained(tmp_path / "run", total_episodes=6)
    with pytest.raises(UserError, match="run is a team, which does not play CAGE-2"):
        load_trained(tmp_path / "run")


def test_a_team_learns(tmp_path: Path) -> None:
    trained(tmp_path / "run", total_episodes=600, episodes_per_update=20, settings={"epochs": 4})
    scores = evaluate(tmp_path / "run", episodes=3, env=ShiftEnv, n_workers=1)
    assert scores.mean > 10  # Chance gives 6, the best is 8 + 3 or so.
    assert played(load_agent(tmp_path / "run", env=ShiftEnv), 3) == scores.returns
    output_of("export", tmp_path / "run", "--format", "npz", "--output", tmp_path / "team.npz")
    assert played(load_agent(tmp_path / "team.npz", env=ShiftEnv), 3) == scores.returns
    assert played(load_agent(tmp_path / "team.npz", env=Shifts), 3) == scores.returns


def test_agents_may_have_actions_of_any_kind(tmp_path: Path) -> None:
    """Numbers, choices, several choices with a mask of another agent, and numbers and choices."""
    weights = {
        trained(tmp_path / f"{mode}-{n}", mode, env=Kinds, n_workers=n)
        for mode, n in (("async", 1), ("async", 2), ("sync", 2))
    }
    assert len(weights) == 1
    run = tmp_path / "async-2"
    assert trained(run, resume=True, env=Kinds, total_episodes=30) not in weights
    scores = evaluate(run, episodes=3, env=Kinds, n_workers=1)
    assert played(load_agent(run, env=Kinds), 3, Kinds()) == pytest.approx(scores.returns)
    output_of("export", run, "--format", "npz", "--output", tmp_path / "team.npz")
    again = load_agent(tmp_path / "team.npz", env=Kinds)
    assert played(again, 3, Kinds()) == pytest.approx(scores.returns)


def test_agents_learn_actions_of_any_kind(tmp_path: Path) -> None:
    trained(
        *(tmp_path / "run", "sync"),
        **{"env": Kinds, "total_episodes": 500, "episodes_per_update": 25},
        settings={"epochs": 4, "minibatch_size": 128, "log_std_init": -1.0},
    )
    scores = evaluate(tmp_path / "run", episodes=20, env=Kinds, n_workers=1)
    assert scores.mean > -6.0  # Doing nothing gives -10.


POOLING = {"network": "entities", "network_args": {"heads": 0}, "normalise_obs": True}


def test_a_team_learns_on_entities(tmp_path: Path) -> None:
    """Every file of the team plays the same, and another run copies it."""
    run, settings = tmp_path / "run", {**POOLING, "epochs": 6, "minibatch_size": 150}
    trained(run, env=Doors, total_episodes=160, episodes_per_update=20, settings=settings)
    scores = evaluate(run, episodes=3, env=Doors, n_workers=1)
    assert scores.mean > 25  # Chance gives 7, the best is 30.
    assert played(load_agent(run, env=Doors), 3, Doors()) == scores.returns
    file = tmp_path / "team.npz"
    output_of("export", run, "--format", "npz", "--output", file)
    assert played(load_agent(file, env=Doors), 3, Doors()) == scores.returns
    lessons = {"teacher": str(run), "teacher_episodes": 20, "teacher_epochs": 4}
    copy = trained(tmp_path / "copy", env=Doors, total_episodes=6, settings=settings, **lessons)
    assert json.loads((tmp_path / "copy" / "teacher.json").read_text())["agreement"] > 0.9
    file = record(run, tmp_path / "episodes.npz", 20, env=Doors)
    lessons = {"teacher": str(file), "teacher_epochs": 4}
    changes = {"env": Doors, "settings": settings, **lessons}
    assert trained(tmp_path / "same", total_episodes=6, **changes) == copy
    changes["settings"] = {**settings, "teacher_coef": 1.0, "teacher_until": 1.0}
    kept = trained(tmp_path / "kept", total_episodes=12, **changes)
    assert trained(tmp_path / "two", "sync", n_workers=2, total_episodes=12, **changes) == kept
    trained(tmp_path / "kept", resume=True, **changes)
    assert all(row["teacher_loss"] > 0 for row in read_metrics(tmp_path / "kept"))


def test_another_run_begins_with_a_team_on_entities(tmp_path: Path) -> None:
    first = {"env": Doors, "settings": POOLING, "total_episodes": 6}
    trained(tmp_path / "first", **first)
    one = trained(tmp_path / "next", init_from=tmp_path / "first", **first)
    assert one != trained(tmp_path / "new", **first)
    described = load_checkpoint(tmp_path / "next" / "checkpoint.safetensors").agent["team"]
    other = type("Other", (Doors,), {"doors": {"north": 3, "south": 3, "chief": 5}})
    with pytest.raises(UserError, match="does not fit this run"):
        trained(tmp_path / "other", init_from=tmp_path / "first", **{**first, "env": other})
    assert [len(tables["features"]) for tables in described["entities"]] == [3, 3, 4]


def test_metrics_of_each_agent_and_each_policy(tmp_path: Path) -> None:
    trained(tmp_path / "run", total_episodes=12)
    rows = read_metrics(tmp_path / "run")
    for row in rows:
        own = row["return_mean_early"], row["return_mean_late"]
        assert min(own) > 0
        assert sum(own) == pytest.approx(row["return_mean"])
        # 8 decisions of the one agent for each 3 of the other.
        assert row["decisions"] % 11 == 0
        mean = np.average([row["entropy_early"], row["entropy_late"]], weights=[8, 3])
        assert mean == pytest.approx(row["entropy"])
    figure = learning_curves(tmp_path / "run")
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["all", "early", "late"]
    output_of("report", tmp_path / "run", "--output", tmp_path / "page.html")
    assert ">late<" in (tmp_path / "page.html").read_text()


def played(team: Any, episodes: int, env: Any = None) -> list[float]:
    """Play an evaluation's episodes with PettingZoo's own loop. Returns the returns."""
    assert isinstance(team, Team)
    returns = []
    for number in range(episodes):
        spec, env = episode_spec(0, number, (), SeedStream.EVALUATION), env or ShiftEnv()
        observations, infos = env.reset(seed=spec.env_seed)
        team.reset(spec.action_seed)
        returns.append(0.0)
        while env.agents:
            actions = team.act({name: observations[name] for name in env.agents}, infos)
            observations, rewards, _, _, infos = env.step(actions)
            returns[-1] += sum(rewards.values())
    return returns


@pytest.mark.parametrize(
    ("observations", "problem"),
    [
        ({"other": np.zeros(2)}, "other is not of this team: early, late"),
        ({"early": np.zeros(3)}, r"\(3,\)"),
        ({"early": np.zeros(2)}, "give act the infos too"),
    ],
)
def test_what_a_team_cannot_act_on(tmp_path: Path, observations: Any, problem: str) -> None:
    trained(tmp_path / "run", total_episodes=6)
    team = load_agent(tmp_path / "run", env=ShiftEnv)
    team.reset()
    with pytest.raises(ObservationError, match=problem):
        team.act(observations)


def test_a_team_on_entities_is_exported_as_onnx_models(tmp_path: Path) -> None:
    """A file for each policy; also into a folder that is there, if it is empty."""
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    trained(tmp_path / "run", env=Doors, total_episodes=6, settings=POOLING)
    (tmp_path / "team").mkdir()
    words = ["export", tmp_path / "run", "--format", "onnx", "--output", tmp_path / "team"]
    output_of(*words)
    team, env = load_agent(tmp_path / "run", env=Doors), Doors()
    for file in json.loads((tmp_path / "team" / "team.json").read_text()):
        session = onnxruntime.InferenceSession(str(tmp_path / "team" / file["file"]))
        for seed in range(40):
            seen, _ = env.reset(seed=seed)
            expected = team.act(seen)
            given = {"obs": np.stack([seen[name] for name in file["agents"]])}
            if len(given["obs"]) > 1:
                given["agent"] = np.arange(len(given["obs"]))
            (outputs,) = session.run(None, given)
            assert [expected[name] for name in file["agents"]] == outputs.argmax(1).tolist()
    assert "is not empty" in output_of(*words, code=2)


def test_teams_collect_while_they_learn(tmp_path: Path) -> None:
    trained(tmp_path / "run", async_rl=True, batching="first-come")
    assert read_metrics(tmp_path / "run")[-1]["episodes"] >= 24


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"num_steps_per_env": 4, "episodes_per_update": None}, "num_steps_per_env"),
        ({"settings": {"network": "entities"}}, "network"),
        ({"settings": {"policy_of": "*=all"}}, "policy_of"),
    ],
)
def test_what_does_not_go_with_a_team(tmp_path: Path, changes: Any, field: str) -> None:
    with pytest.raises(ConfigError) as error:
        trained(tmp_path / "run", **changes)
    assert error.value.field_name == field


def test_other_algorithms_learn_for_no_team(tmp_path: Path) -> None:
    config = TrainConfig("async", env="shift", make_env=ShiftEnv, algorithm="sac", n_workers=1)
    with pytest.raises(ConfigError, match="algorithm: sac cannot learn"):
        train(config, tmp_path / "run")
