import json
import shlex

from tests.cli import call, refused, said_by

GAME = "--env examples.small_games:Matrix --quiet --n-workers 1 --n-envs 8"
PAYOFFS = "'payoffs=[[0, -1, 2], [1, 0, -1], [-2, 1, 0]]'"
OPTIONS = f"--env examples.small_games:Matrix --sides first=first,*=second --env-arg {PAYOFFS}"
SMALL = "--total-episodes 32 --episodes-per-update 16 --hidden-sizes 4"


def test_a_refused_duel_makes_no_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refused(call("train-duel", OPTIONS, GAME, SMALL, "--copy-known"), "brings no attackers")
    assert not [*tmp_path.iterdir()]


def test_the_commands_end_to_end(tmp_path):
    duel, attackers, page = tmp_path / "duel", tmp_path / "attackers", tmp_path / "report.html"
    played = "--generations 1 --payoff-episodes 8 --run-dir"
    train = ("train-duel", OPTIONS, GAME, SMALL, played, duel)
    said = said_by(*train)
    assert "generation 1: first gets" in said
    assert "│ first │ fixed │ start │ learned │" in " ".join(said.split())
    assert shlex.join(["exploit", str(duel), *shlex.split(OPTIONS)]) in " ".join(said.split())
    assert said_by(*train) == said.partition("generation 0")[0] + said[said.index("mixture of") :]
    refused(call(*train, "--seed 1"), "go on with the same")

    picture = tmp_path / "picture.png"
    said_by("plot", duel, "--output", picture)
    assert picture.stat().st_size > 10_000

    short = f"--n-policies 2 --selection-episodes 4 --episodes 6 --env-arg {PAYOFFS} --run-dir"
    exploit = ("exploit", duel, GAME, SMALL, short, attackers, "--side")
    refused(call(*exploit, "third"), "no side")
    for time, why in (("2x", "'2x' is no time"), ("0m", "is no time"), ("2m", "is given instead")):
        refused(call(*exploit, "first --time", time), why)
    said = said_by(*exploit, "second")
    assert "(worst)" in said
    assert "random" in said
    found = json.loads((attackers / "exploit.json").read_text())
    assert (found["attackers_side"], len(found["attackers"])) == ("first", 2)
    said_by("report", attackers, "--output", page)
    assert "the worst, chosen on other episodes" in page.read_text()
