import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli import output_of
from tests.playing import save_untrained
from workflow_rl.environments.source import make_environment
from workflow_rl.workflows import ENV_ID

HOSTS = ("User1", "User2", "User3", "User4", "Op_Host0", "Op_Host1", "Op_Host2", "Op_Server0")
EIGHT = "; ".join(f"g{n}: {host}" for n, host in enumerate(HOSTS))
ONE_ORDER = {"workflow": "a: User1; b: User2; a < b"}
TWO_ORDERS = {"workflow": "a: User1; b: Enterprise1", "red_agent": "B_lineAgent"}
CAGE2 = {"env_id": "workflow_rl/CAGE2-v0", "observation": "belief", "actions": "by-host"}


def agent(path: Path, env_id: str = ENV_ID, **args: Any) -> str:
    return str(save_untrained(path, make_environment(env_id, args), (4,)))


def refused(*arguments: str, output: Path) -> str:
    said = output_of("search-workflow", *arguments, "--output", output, code=2)
    assert not any(output.iterdir())
    return said.splitlines()[-1]


def searched(*arguments: object, output: Path) -> tuple[Any, str]:
    """Return the scores that are written, and what the command says."""
    said = output_of("search-workflow", *arguments, "--quiet", "--output", output)
    return json.loads((output / "workflow.json").read_text()), said


@pytest.mark.parametrize(
    ("agents", "options", "problems"),
    [
        ([ONE_ORDER], [], ["one order, a,b: there is nothing to search"]),
        ([ONE_ORDER], ["--orders", "3"], ["one order, a,b: there is nothing to search"]),
        ([{"workflow": EIGHT}], [], ["more than 5,040 orders", "--orders"]),
        ([{}, {"max_steps": 30}], [], ["1.npz has max_steps 30, the first of RUNS has 100"]),
        ([{}, {"workflow": EIGHT}], [], ["1.npz has another workflow"]),
        ([{}, CAGE2], [], ["1.npz is a run of workflow_rl/CAGE2-v0"]),
        ([CAGE2], [], ["CAGE2-v0 takes no order"]),
    ],
)
def test_what_cannot_be_searched_is_refused(agents, options, problems, tmp_path):
    runs = [agent(tmp_path / f"{n}.npz", **args) for n, args in enumerate(agents)]
    said = refused(*runs, *options, output=tmp_path / "found")
    assert all(problem in said for problem in problems), said


def test_all_orders_are_ranked(tmp_path):
    run, output = agent(tmp_path / "a.npz", obedience="penalty", **TWO_ORDERS), tmp_path / "found"
    scores, said = searched(run, "--episodes", 4, output=output)
    assert {row["order"] for row in scores["orders"]} == {"a,b", "b,a"}
    page = (output / "workflow.html").read_text()
    for row in scores["orders"]:
        mean = f"{row['mean']:.2f}"
        assert mean in said
        assert mean.replace("-", "−") in page  # noqa: RUF001
    assert f"best order: {scores['best']['order']}" in said


def test_a_run_that_is_given_twice_is_refused(tmp_path):
    run = agent(tmp_path / "a.npz")
    assert "given twice" in refused(run, run, output=tmp_path / "found")


def test_scores_are_not_written_through_a_link(tmp_path):
    run, output = agent(tmp_path / "a.npz", **TWO_ORDERS), tmp_path / "found"
    precious = tmp_path / "precious.txt"
    precious.write_text("the user's")
    output.mkdir()
    (output / "workflow.json").symlink_to(precious)
    asked = (run, "--episodes", 2, "--quiet", "--output", output)
    assert "workflow.json is a link" in output_of("search-workflow", *asked, code=2)
    assert precious.read_text() == "the user's"
    assert (output / "workflow.json").is_symlink()


def test_some_orders_are_scored_as_among_all(tmp_path):
    run = agent(tmp_path / "a.npz", red_agent="B_lineAgent")
    means = []
    for orders in ([], ["--orders", "5"]):
        scores, _ = searched(run, *orders, "--episodes", 2, output=tmp_path / "found")
        means.append({row["order"]: row["mean"] for row in scores["orders"]})
    assert (len(means[0]), len(means[1])) == (24, 5)
    assert means[1].items() <= means[0].items()


def test_two_agents_with_the_same_weights_say_as_much_as_one_of_them(tmp_path):
    runs = [agent(tmp_path / f"{name}.npz", **TWO_ORDERS) for name in "ab"]
    of_both, of_one = (
        searched(*given, "--episodes", 4, output=tmp_path / "found")[0]
        for given in (runs, runs[:1])
    )
    assert [of_both["agents"], of_one["agents"]] == [2, 1]
    for both, alone in zip(of_both["orders"], of_one["orders"], strict=True):
        assert both["order"] == alone["order"]
        assert both["mean"] == alone["mean"]
        assert both["interval_95"] == pytest.approx(alone["interval_95"])
        assert alone["interval_95"] > 1


def test_what_cannot_be_written_is_told_before_an_episode_is_played(tmp_path):
    run, output = agent(tmp_path / "a.npz"), tmp_path / "found"
    (output / "workflow.json").mkdir(parents=True)
    said = output_of("search-workflow", run, "--output", output, code=2)
    assert "workflow.json is a folder" in said
