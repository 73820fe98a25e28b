"""The recipe as one command, small: what it leaves, and what it refuses."""

import hashlib
import json
import re
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.cli import output_of
from tests.workflow_rl.cage2.agent.test_views import BELIEF, policy_for
from workflow_rl import TrainConfig, train
from workflow_rl.agents.policies.numpy_policy import NumpyPolicy
from workflow_rl.cage.recipe import AGENT_FILE, Recipe
from workflow_rl.cage.selection import tournament
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage2.presets import CHAMPION
from workflow_rl.cage2.scenario.files import write_scenario
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scoring import selection
from workflow_rl.cage2.scoring.selection import candidate_score, score
from workflow_rl.errors import UserError
from workflow_rl.evaluation.intervals import Mean
from workflow_rl.runs.read_checkpoint import load_checkpoint
from workflow_rl.runs.saved_agent import load_saved, policy_of, saved_path

SMALL = ("--selection-episodes", "32", "--episodes", "2", "--quiet")


@pytest.fixture
def small_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    small = {
        "env_args": {**CHAMPION["env_args"], "max_steps": 10},
        "settings": {**CHAMPION["settings"], "hidden_sizes": (8,)},
        **{"n_envs": 4, "episodes_per_update": 4, "keep_every": 1},
    }
    for name, value in small.items():
        monkeypatch.setitem(CHAMPION, name, value)


@pytest.mark.usefixtures("small_recipe")
def test_train_champion(tmp_path):
    run = tmp_path / "run"
    command = ["--run-dir", str(run), "--seed", "5", "--total-episodes", "12", *SMALL]
    assert "chosen: " in output_of("train-champion", *command)
    card = json.loads((run / "card.json").read_text())
    assert card["command"] == " ".join(["workflow-rl train-champion", *command[2:-1]])
    assert card["config"]["observation"] == "belief"
    assert card["made_with"]["processor"]
    evaluation = json.loads((run / "evaluation.json").read_text())
    assert card["evaluation"].keys() == evaluation.keys()
    assert card["evaluation"]["total"] == evaluation["total"]
    means = [cell["mean"] for cell in evaluation["cells"]]
    assert [cell["mean"] for cell in card["evaluation"]["cells"]] == means
    assert card["selection"]["candidates"] == 3
    chosen = load_checkpoint(run / card["selection"]["chosen"])
    best = load_checkpoint(run / "best.safetensors")
    assert best.agent["policy_version"] == chosen.agent["policy_version"]

    # It learned without the clock that it plays by.
    assert card["config"]["actions"] == "by-host"
    for file in ("best.safetensors", AGENT_FILE):
        assert load_saved(run / file).environment.args["actions"] == card["plays_with"]
    assert chosen.config["actions"] == "by-host"

    # Called again, it trains no more, and comes to the same.
    before = (run / "metrics.csv").read_text()
    output_of("train-champion", *command)
    assert (run / "metrics.csv").read_text() == before
    new = json.loads((run / "card.json").read_text())
    assert new["evaluation"]["total"] == card["evaluation"]["total"]
    assert new["seconds"]["training"] == card["seconds"]["training"]

    other = output_of("train-champion", *command[:2], "--seed", "6", *SMALL, code=2)
    assert "whose total_episodes is 12" in other

    (run / "kept" / "000002.safetensors").write_bytes(b"nothing")
    assert "000002.safetensors" in output_of("train-champion", *command, code=2)


def test_no_option_is_blamed_for_what_the_machine_lacks(monkeypatch, tmp_path):
    def fails(*given: object) -> None:
        raise UserError("workers need a shorter TMPDIR")

    monkeypatch.setattr(Recipe, "train", fails)
    said = output_of("train-champion", "--run-dir", tmp_path / "run", *SMALL, code=2)
    assert "Error: workers need a shorter TMPDIR" in said


@pytest.mark.usefixtures("small_recipe")
def test_another_run_is_left_alone(tmp_path):
    run = tmp_path / "run"
    config = TrainConfig(
        *("async", 4), env="CartPole-v1", n_workers=1, total_episodes=8, episodes_per_update=4
    )
    train(config, run)
    before = (run / "best.safetensors").read_bytes()
    said = output_of("train-champion", "--run-dir", run, *SMALL, code=2)
    assert "holds another run, whose env is CartPole-v1" in said
    assert (run / "best.safetensors").read_bytes() == before
    (run / "checkpoint.safetensors").unlink()
    said = output_of("train-champion", "--run-dir", run, *SMALL, code=2)
    assert "give the --env of its run" in " ".join(said.split())


def test_a_score_sums_the_cells(monkeypatch):
    """30, 50 and 100 steps of the same episodes, against both attackers."""
    rewards, lengths = np.repeat([0.0, -1.0], [30, 70]), []

    def play(make_envs: Any, actor: Any, specs: Any, together: int) -> list[Any]:
        lengths.append(make_envs.__self__.max_steps)
        return [SimpleNamespace(reward=rewards[: lengths[-1]])] * len(specs)

    monkeypatch.setattr(selection, "play", play)
    policy = policy_for(Cage2())
    assert score(policy, Cage2("attackers"), episodes=2) == Mean(-2 * (20 + 70), 0.0)
    assert score(policy, Cage2("B_lineAgent"), episodes=2).mean == -(20 + 70)
    assert score(policy, Cage2("B_lineAgent", 50), episodes=2).mean == -20
    assert lengths == [100, 100, 100, 50]


def test_an_opening_counts_as_steps():
    """Two sums of the same episodes: the policy's from its first step on, or after an opening."""
    policy = policy_for(Cage2(observation="belief"), greedy=True)
    opening = ("Restore User1",) * 20
    viewed = Cage2("attackers", observation="belief", opening=opening)
    actor = viewed.actor_on_observations(policy)
    assert score(policy, viewed, 3) == pytest.approx(score(actor, Cage2("attackers"), 3))
    with pytest.raises(ValueError, match="leaves nothing"):
        score(policy, Cage2(opening=("Sleep",) * 30), 3)


def test_better_agents_go_on_to_more_episodes(monkeypatch):
    played: list[tuple[str, int]] = []
    actions: set[str] = set()

    def known(actor: str, environment: Cage2, episodes: int, seed: int) -> Mean:
        played.append((actor, episodes))
        actions.add(environment.actions)
        return Mean(float(actor), 0.1)

    monkeypatch.setattr(selection, "score", known)
    monkeypatch.setattr(selection, "load_saved", lambda path: (path.name, BELIEF))
    paths = [Path(f"-{n}") for n in range(7)]
    ranked = tournament(paths, (10, 20, 30), candidate_score)
    assert ranked == paths
    assert [sum(n == episodes for _, n in played) for episodes in (10, 20, 30)] == [7, 3, 1]
    assert actions == {BELIEF.actions}
    actions.clear()
    tournament(paths, (10,), partial(candidate_score, actions="by-host-timed"))
    assert actions == {"by-host-timed"}


def released(name: str) -> tuple[NumpyPolicy, Cage2, dict[str, Any]]:
    """Return an agent with its environment and the card of its file."""
    path = saved_path(Path(name))
    card = json.loads(path.with_suffix(".json").read_text())
    assert hashlib.sha256(path.read_bytes()).hexdigest() == card["agent_sha256"]
    policy, environment = load_saved(Path(name))
    assert isinstance(environment, Cage2)
    return policy, environment, card


def test_champion1b_is_the_one_of_its_card():
    _, environment, card = released("champion1b")
    assert environment.scenario == card["config"]["scenario"] == "scenario1b"
    assert environment.view == ("belief", "by-host", ())
    said = output_of("evaluate", "champion1b", "--episodes", 20, "--max-steps", 30, "--quiet")
    assert "champion1b (greedy actions) on" in said
    assert "Mindrake" in said
    assert "plays as CAGE-1's CybORG" in said


def test_any_network_is_the_one_of_its_card_and_plays_what_it_never_saw(tmp_path):
    _, environment, card = released("any-network")
    assert environment.family is not None
    assert environment.scenario == card["config"]["scenario"]
    office = tmp_path / "office.yaml"
    write_scenario(Scenario.scenario2().add_host("Web0", "OP_Server", "Enterprise"), office)
    asked = ("--red-agent", "RedMeanderAgent", "--max-steps", 100, "--episodes", 4, "--quiet")
    said = output_of("evaluate", "any-network", "--scenario", office, *asked)
    (mean,) = re.findall(r"RedMeanderAgent +│ +(-[0-9.]+)", said)
    assert -60 < float(mean) < 0  # Asleep, Blue loses more than 900.


@pytest.mark.parametrize("name", ["champion", "robust"])
def test_a_released_agent_is_the_one_of_its_card(name):
    policy, environment, card = released(name)
    assert card["config"]["opening"] == list(CHAMPION["env_args"]["opening"])
    assert card["config"]["observation"] == environment.observation
    assert environment.red_agent == "attackers"
    assert name != "champion" or card["config"]["red_agent"] == "attackers"
    assert card["plays_with"] == environment.actions
    total = card["evaluation"]["total"]
    assert score(policy, environment, 300).mean == pytest.approx(total, abs=1.5)


FEW = "--simulator compiled --n-envs 4 --episodes-per-update 4 --keep-every 1 --n-workers 1 --quiet"


def test_a_run_leaves_the_best_of_its_candidates(tmp_path):
    """Not the one whose training episodes happened to go well."""
    run, asked = tmp_path / "run", "--red-agent mixed --total-episodes 12 --max-steps 5"
    said = output_of("train-async", *asked.split(), *FEW.split(), "--run-dir", run)
    chosen = re.search(r", from update (\d)\. Sum of the 2 .*: (-[\d.]+) ±", said)
    assert chosen is not None, said
    scores, fresh = {}, {}
    for path in (run / "kept" / "000002.safetensors", run / "checkpoint.safetensors"):
        checkpoint = load_checkpoint(path)
        policy, updates = policy_of(checkpoint, path), checkpoint.training.updates
        scores[updates] = score(policy, Cage2("mixed", 5, "compiled"), 16)
        fresh[updates] = score(policy, Cage2("mixed", 5, "compiled"), 16, seed=1)
    best = max(scores, key=lambda updates: scores[updates].mean)
    assert int(chosen[1]) == best == load_checkpoint(run / "best.safetensors").training.updates
    # The episodes that chose it flatter it: others score it.
    assert float(chosen[2]) == pytest.approx(fresh[best].mean, abs=0.06)
    assert abs(fresh[best].mean - scores[best].mean) > 0.1


@pytest.mark.parametrize(
    "options",
    [
        ["--red-agent", "SleepAgent"],
        ["--eval-every", "1", "--eval-episodes", "1"],
        ["--max-steps", "100", *["--opening", "Sleep"] * 30],
    ],
    ids=["no attacker", "evaluations chose", "no step of the cells of 30 steps"],
)
def test_where_there_is_nothing_to_choose_by_nothing_is_chosen(options, tmp_path):
    few = [*FEW.split(), "--total-episodes", "8", "--max-steps", "3"]
    said = output_of("train-async", *few, *options, "--run-dir", tmp_path / "run")
    assert list((tmp_path / "run" / "kept").iterdir()), "there are candidates"
    assert "from update" not in said
