"""What search-workflow refuses, in one line, before an episode is played."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from workflow_rl.agents.policies.actor_critic import ActorCritic
from workflow_rl.agents.policies.policy_file import save_policy
from workflow_rl.environments.source import make_environment
from workflow_rl.workflows import ENV_ID
from workflow_rl.workflows.commands.search_workflow import search_workflow

HOSTS = ("User1", "User2", "User3", "User4", "Op_Host0", "Op_Host1", "Op_Host2", "Op_Server0")
EIGHT = "; ".join(f"g{n}: {host}" for n, host in enumerate(HOSTS))


def agent(path: Path, env_id: str = ENV_ID, **args: Any) -> str:
    environment = make_environment(env_id, args)
    spaces = environment.spaces()
    network = ActorCritic(
        spaces.obs_dim, spaces.distribution, (4,), "tanh", seed=1, masked=spaces.masked
    )
    about = {"env": env_id, "env_args": dict(environment.args)}
    save_policy(path, network.policy_parameters(), about)
    return str(path)


def refused(*arguments: str, output: Path) -> str:
    result = CliRunner().invoke(search_workflow, [*arguments, "--output", str(output)])
    assert result.exit_code == 2, result.output
    assert not any(output.iterdir())
    return result.output.splitlines()[-1]


@pytest.mark.parametrize("orders", [[], ["--orders", "3"]])
def test_one_order_leaves_nothing_to_search(orders: list[str], tmp_path: Path) -> None:
    run = agent(tmp_path / "a.npz", workflow="a: User1; b: User2; a < b")
    said = refused(run, *orders, output=tmp_path / "found")
    assert "one order, a,b: there is nothing to search" in said


def test_too_many_orders_are_not_all_scored(tmp_path: Path) -> None:
    run = agent(tmp_path / "a.npz", workflow=EIGHT)
    said = refused(run, output=tmp_path / "found")
    assert "more than 5,040 orders" in said
    assert "--orders" in said


CAGE2 = {"observation": "belief", "actions": "by-host"}


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        ({"max_steps": 30}, "b.npz has max_steps 30, the first of RUNS has 100"),
        ({"workflow": EIGHT}, "b.npz has another workflow"),
        ({"env_id": "workflow_rl/CAGE2-v0", **CAGE2}, "b.npz is a run of workflow_rl/CAGE2-v0"),
    ],
)
def test_runs_of_different_tasks_are_not_compared(
    args: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    runs = [agent(tmp_path / "a.npz"), agent(tmp_path / "b.npz", **args)]
    assert problem in refused(*runs, output=tmp_path / "found")


def test_an_agent_that_takes_no_order_is_refused(tmp_path: Path) -> None:
    run = agent(tmp_path / "a.npz", "workflow_rl/CAGE2-v0", **CAGE2)
    assert "CAGE2-v0 takes no order" in refused(run, output=tmp_path / "found")


def test_all_orders_are_ranked(tmp_path: Path) -> None:
    groups = {"workflow": "a: User1; b: Enterprise1", "red_agent": "B_lineAgent"}
    run, output = agent(tmp_path / "a.npz", obedience="penalty", **groups), tmp_path / "found"
    arguments = [run, "--episodes", "4", "--quiet", "--output", str(output)]
    result = CliRunner().invoke(search_workflow, arguments)
    assert result.exit_code == 0, result.output
    scores = json.loads((output / "workflow.json").read_text())
    assert {row["order"] for row in scores["orders"]} == {"a,b", "b,a"}
    page = (output / "workflow.html").read_text()
    for row in scores["orders"]:
        mean = f"{row['mean']:.2f}"
        assert mean in result.output
        assert mean.replace("-", "−") in page  # noqa: RUF001
    assert f"best order: {scores['best']['order']}" in result.output


def test_a_run_that_is_given_twice_is_refused(tmp_path: Path) -> None:
    run = agent(tmp_path / "a.npz")
    assert "given twice" in refused(run, run, output=tmp_path / "found")


def test_scores_are_not_written_through_a_link(tmp_path: Path) -> None:
    run = agent(tmp_path / "a.npz", workflow="a: User1; b: Enterprise1", red_agent="B_lineAgent")
    precious, output = tmp_path / "precious.txt", tmp_path / "found"
    precious.write_text("the user's")
    output.mkdir()
    (output / "workflow.json").symlink_to(precious)
    arguments = [run, "--episodes", "2", "--quiet", "--output", str(output)]
    result = CliRunner().invoke(search_workflow, arguments)
    assert result.exit_code == 2
    assert "workflow.json is a link" in result.output
    assert precious.read_text() == "the user's"
    assert (output / "workflow.json").is_symlink()


def test_some_orders_are_scored_as_among_all(tmp_path: Path) -> None:
    run = agent(tmp_path / "a.npz", red_agent="B_lineAgent")
    output = tmp_path / "found"
    means = []
    for orders in ([], ["--orders", "5"]):
        arguments = [run, *orders, "--episodes", "2", "--quiet", "--output", str(output)]
        result = CliRunner().invoke(search_workflow, arguments)
        assert result.exit_code == 0, result.output
        scores = json.loads((output / "workflow.json").read_text())
        means.append({row["order"]: row["mean"] for row in scores["orders"]})
    assert (len(means[0]), len(means[1])) == (24, 5)
    assert means[1].items() <= means[0].items()


def test_two_agents_with_the_same_weights_say_as_much_as_one_of_them(tmp_path: Path) -> None:
    groups = {"workflow": "a: User1; b: Enterprise1", "red_agent": "B_lineAgent"}
    runs = [agent(tmp_path / f"{name}.npz", **groups) for name in "ab"]
    rankings = []
    for given in (runs, runs[:1]):
        arguments = ["--episodes", "4", "--quiet", "--output", str(tmp_path / "found")]
        result = CliRunner().invoke(search_workflow, [*given, *arguments])
        assert result.exit_code == 0, result.output
        rankings.append(json.loads((tmp_path / "found" / "workflow.json").read_text()))
    assert [ranking["agents"] for ranking in rankings] == [2, 1]
    for both, alone in zip(rankings[0]["orders"], rankings[1]["orders"], strict=True):
        assert both["order"] == alone["order"]
        assert both["mean"] == alone["mean"]
        assert both["interval_95"] == pytest.approx(alone["interval_95"])
        assert alone["interval_95"] > 1


def test_what_cannot_be_written_is_told_before_an_episode_is_played(tmp_path: Path) -> None:
    run, output = agent(tmp_path / "a.npz"), tmp_path / "found"
    (output / "workflow.json").mkdir(parents=True)
    result = CliRunner().invoke(search_workflow, [run, "--output", str(output)])
    assert result.exit_code == 2, result.output
    assert "workflow.json is a folder" in result.output
