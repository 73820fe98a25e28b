"""The commands `train-duel` and `exploit`: from end to end."""

from __future__ import annotations

import json
import shlex

from click.testing import CliRunner

from workflow_rl.commands.exploit import exploit
from workflow_rl.commands.plot import plot
from workflow_rl.commands.report import report
from workflow_rl.commands.train_duel import train_duel

GAME = ["--env", "examples.small_games:Matrix", "--quiet", "--n-workers", "1", "--n-envs", "8"]
SIDES, PAYOFFS = "first=first,*=second", "payoffs=[[0, -1, 2], [1, 0, -1], [-2, 1, 0]]"
SMALL = ["--total-episodes", "32", "--episodes-per-update", "16", "--hidden-sizes", "4"]


def invoke(command, *arguments):
    result = CliRunner().invoke(command, [*map(str, arguments)])
    return result.exit_code, " ".join(result.output.split())


def test_the_commands_end_to_end(tmp_path):
    duel, attackers, page = tmp_path / "duel", tmp_path / "attackers", tmp_path / "report.html"
    arguments = [*GAME, *SMALL, "--generations", "1", "--payoff-episodes", "8", "--run-dir", duel]
    arguments += ["--sides", SIDES, "--env-arg", PAYOFFS]
    code, said = invoke(train_duel, *arguments)
    assert code == 0, said
    assert "generation 1: first gets" in said
    words = [str(duel), "--env", GAME[1], "--sides", SIDES, "--env-arg", PAYOFFS]
    assert shlex.join(["exploit", *words]) in said
    assert invoke(train_duel, *arguments) == (
        0,
        said.partition("generation 0")[0] + said[said.index("mixture of first") :],
    )
    code, said = invoke(train_duel, *arguments, "--seed", "1")
    assert code == 2
    assert "go on with the same" in said

    picture = tmp_path / "picture.png"
    assert invoke(plot, duel, "--output", picture)[0] == 0
    assert picture.stat().st_size > 10_000

    options = ["--n-policies", "2", "--selection-episodes", "4", "--episodes", "6"]
    options = [*GAME, *SMALL, *options, "--env-arg", PAYOFFS, "--run-dir", attackers]
    assert "no side" in invoke(exploit, duel, *options, "--side", "third")[1]
    for time, why in (("2x", "'2x' is no time"), ("0m", "is no time"), ("2m", "is given instead")):
        code, said = invoke(exploit, duel, *options, "--time", time)
        assert code == 2
        assert why in said
    code, said = invoke(exploit, duel, *options, "--side", "second")
    assert code == 0, said
    assert "(worst)" in said
    assert "random" in said
    found = json.loads((attackers / "exploit.json").read_text())
    assert (found["attackers_side"], len(found["attackers"])) == ("first", 2)
    assert invoke(report, attackers, "--output", page)[0] == 0
    assert "the worst, chosen on other episodes" in page.read_text()
