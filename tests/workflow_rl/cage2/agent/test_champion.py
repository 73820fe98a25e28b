"""The recipe as one command, small: what it leaves, and what it refuses."""

from __future__ import annotations

import hashlib
import json
import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from tests.workflow_rl.cage2.agent.test_views import BELIEF, policy_for
from workflow_rl import TrainConfig, train
from workflow_rl.async_train_workflow_rl import train_async
from workflow_rl.cage.commands.train_champion import train_champion
from workflow_rl.cage.recipe import AGENT_FILE, Recipe
from workflow_rl.cage.selection import tournament
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage2.presets import CHAMPION
from workflow_rl.cage2.scenario.files import write_scenario
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scoring import selection
from workflow_rl.cage2.scoring.selection import candidate_score, score
from workflow_rl.commands.evaluate import evaluate
from workflow_rl.environments.episode import EpisodeSpec, SeedStream, episode_spec
from workflow_rl.errors import UserError
from workflow_rl.evaluation.intervals import Mean
from workflow_rl.runs.checkpoint import load_checkpoint
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
def test_train_champion(tmp_path: Path) -> None:
    run = tmp_path / "run"
    command = ["--run-dir", str(run), "--seed", "5", "--total-episodes", "12", *SMALL]
    result = CliRunner().invoke(train_champion, command)
    assert result.exit_code == 0, result.output
    assert "chosen: " in result.output
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
    again = CliRunner().invoke(train_champion, command)
    assert again.exit_code == 0, again.output
    assert (run / "metrics.csv").read_text() == before
    new = json.loads((run / "card.json").read_text())
    assert new["evaluation"]["total"] == card["evaluation"]["total"]
    assert new["seconds"]["training"] == card["seconds"]["training"]

    other = CliRunner().invoke(train_champion, [*command[:2], "--seed", "6", *SMALL])
    assert other.exit_code == 2
    assert "whose total_episodes is 12" in other.output

    (run / "kept" / "000002.safetensors").write_bytes(b"nothing")
    damaged = CliRunner().invoke(train_champion, command)
    assert damaged.exit_code == 2
    assert "000002.safetensors" in damaged.output


def test_no_option_is_blamed_for_what_the_machine_lacks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fails(*given: object) -> None:
        raise UserError("workers need a shorter TMPDIR")

    monkeypatch.setattr(Recipe, "train", fails)
    result = CliRunner().invoke(train_champion, ["--run-dir", str(tmp_path / "run"), *SMALL])
    assert result.exit_code == 2
    assert "Error: workers need a shorter TMPDIR" in result.output


@pytest.mark.usefixtures("small_recipe")
def test_another_run_is_left_alone(tmp_path: Path) -> None:
    run = tmp_path / "run"
    config = TrainConfig(
        *("async", 4), env="CartPole-v1", n_workers=1, total_episodes=8, episodes_per_update=4
    )
    train(config, run)
    before = (run / "best.safetensors").read_bytes()
    result = CliRunner().invoke(train_champion, ["--run-dir", str(run), *SMALL])
    assert result.exit_code == 2
    assert "holds another run, whose env is CartPole-v1" in result.output
    assert (run / "best.safetensors").read_bytes() == before
    (run / "checkpoint.safetensors").unlink()
    result = CliRunner().invoke(train_champion, ["--run-dir", str(run), *SMALL])
    assert result.exit_code == 2
    assert "give the --env of its run" in " ".join(result.output.split())


def test_selection_has_seeds_of_its_own() -> None:
    streams = [
        {episode_spec(0, n, stream=stream).env_seed for n in range(200)} for stream in SeedStream
    ]
    for one in streams:
        assert sum(len(one & other) for other in streams) == len(one)


def test_a_score_sums_the_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """30, 50 and 100 steps of the same episodes, against both attackers."""
    horizons: list[int] = []

    class Envs:
        n_envs = 2

        def reset(self, envs: list[int], specs: list[EpisodeSpec]) -> np.ndarray:
            self.t = 0
            return np.zeros((len(envs), 52), np.uint8)

        def step(self, envs: list[int], actions: np.ndarray) -> object:
            from workflow_rl.environments.env_batch import StepAnswers

            self.t += 1
            n, ends = len(envs), self.t == horizons[-1]
            return StepAnswers(
                np.zeros((n, 52), np.uint8),
                np.full(n, -1.0 if self.t > 30 else 0.0),
                np.zeros(n, bool),
                np.full(n, ends),
            )

        def close(self) -> None: ...

    def make_envs(environment: Cage2, n_envs: int) -> Envs:
        horizons.append(environment.max_steps)
        return Envs()

    monkeypatch.setattr(Cage2, "make_envs", make_envs)
    result = score(policy_for(Cage2()), Cage2("attackers"), episodes=2)
    assert result == Mean(-2 * (20 + 70), 0.0)
    assert score(policy_for(Cage2()), Cage2("B_lineAgent"), episodes=2).mean == -(20 + 70)
    assert score(policy_for(Cage2()), Cage2("B_lineAgent", 50), episodes=2).mean == -20
    assert horizons == [100, 100, 100, 50]


def test_an_opening_counts_as_steps() -> None:
    """Two sums of the same episodes: the policy's from its first step on, or after an opening."""
    policy = policy_for(Cage2(observation="belief"), greedy=True)
    opening = ("Restore User1",) * 20
    viewed = Cage2("attackers", observation="belief", opening=opening)
    actor = viewed.actor_on_observations(policy)
    assert score(policy, viewed, 3) == pytest.approx(score(actor, Cage2("attackers"), 3))
    with pytest.raises(ValueError, match="leaves nothing"):
        score(policy, Cage2(opening=("Sleep",) * 30), 3)


def test_better_agents_go_on_to_more_episodes(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_champion1b_is_the_one_of_its_card() -> None:
    path = saved_path(Path("champion1b"))
    card = json.loads(path.with_suffix(".json").read_text())
    assert hashlib.sha256(path.read_bytes()).hexdigest() == card["agent_sha256"]
    _, environment = load_saved(Path("champion1b"))
    assert isinstance(environment, Cage2)
    assert environment.scenario == card["config"]["scenario"] == "scenario1b"
    assert environment.view == ("belief", "by-host", ())
    result = CliRunner().invoke(
        evaluate, ["champion1b", "--episodes", "20", "--max-steps", "30", "--quiet"]
    )
    assert result.exit_code == 0, result.output
    assert "Mindrake" in result.output
    assert "plays as CAGE-1's CybORG" in result.output


def test_any_network_is_the_one_of_its_card_and_plays_what_it_never_saw(tmp_path: Path) -> None:
    path = saved_path(Path("any-network"))
    card = json.loads(path.with_suffix(".json").read_text())
    assert hashlib.sha256(path.read_bytes()).hexdigest() == card["agent_sha256"]
    _, environment = load_saved(Path("any-network"))
    assert isinstance(environment, Cage2)
    assert environment.family is not None
    assert environment.scenario == card["config"]["scenario"]
    office = tmp_path / "office.yaml"
    write_scenario(Scenario.scenario2().add_host("Web0", "OP_Server", "Enterprise"), office)
    arguments = ["any-network", "--scenario", str(office), "--episodes", "4", "--quiet"]
    result = CliRunner().invoke(
        evaluate, [*arguments, "--max-steps", "100", "--red-agent", "RedMeanderAgent"]
    )
    assert result.exit_code == 0, result.output
    (mean,) = re.findall(r"RedMeanderAgent +│ +(-[0-9.]+)", result.output)
    assert -60 < float(mean) < 0  # Asleep, Blue loses more than 900.


@pytest.mark.parametrize("name", ["champion", "robust"])
def test_a_released_agent_is_the_one_of_its_card(name: str) -> None:
    path = saved_path(Path(name))
    card = json.loads(path.with_suffix(".json").read_text())
    assert hashlib.sha256(path.read_bytes()).hexdigest() == card["agent_sha256"]
    assert card["config"]["opening"] == list(CHAMPION["env_args"]["opening"])
    policy, environment = load_saved(Path(name))
    assert isinstance(environment, Cage2)
    assert card["config"]["observation"] == environment.observation
    assert environment.red_agent == "attackers"
    assert name != "champion" or card["config"]["red_agent"] == "attackers"
    assert card["plays_with"] == environment.actions
    total = card["evaluation"]["total"]
    assert score(policy, environment, 300).mean == pytest.approx(total, abs=1.5)


def test_the_released_agent_is_scored_by_its_name() -> None:
    result = CliRunner().invoke(
        evaluate, ["champion", "--episodes", "2", "--max-steps", "30", "--quiet"]
    )
    assert result.exit_code == 0, result.output
    assert "champion (greedy actions) on" in result.output


def test_a_run_leaves_the_best_of_its_candidates(tmp_path: Path) -> None:
    """Not the one whose training episodes happened to go well."""
    run, command = tmp_path / "run", ["--total-episodes", "12", "--n-envs", "4", "--max-steps", "5"]
    options = [*command, "--episodes-per-update", "4", "--n-workers", "1", "--keep-every", "1"]
    arguments = ["--simulator", "compiled", "--red-agent", "mixed", *options, "--quiet"]
    result = CliRunner().invoke(train_async, [*arguments, "--run-dir", str(run)])
    assert result.exit_code == 0, result.output
    chosen = re.search(r", from update (\d)\. Sum of the 2 .*: (-[\d.]+) ±", result.output)
    assert chosen is not None, result.output
    scores, fresh = {}, {}
    for path in (run / "kept" / "000002.safetensors", run / "checkpoint.safetensors"):
        checkpoint = load_checkpoint(path)
        environment = Cage2("mixed", 5, "compiled")
        scores[checkpoint.training.updates] = score(policy_of(checkpoint, path), environment, 16)
        fresh[checkpoint.training.updates] = score(
            policy_of(checkpoint, path), environment, 16, seed=1
        )
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
def test_where_there_is_nothing_to_choose_by_nothing_is_chosen(
    options: list[str], tmp_path: Path
) -> None:
    arguments = ["--simulator", "compiled", "--total-episodes", "8", "--n-envs", "4", "--quiet"]
    arguments += ["--episodes-per-update", "4", "--keep-every", "1", "--n-workers", "1"]
    arguments += ["--max-steps", "3", "--run-dir", str(tmp_path / "run")]
    result = CliRunner().invoke(train_async, [*arguments, *options])
    assert result.exit_code == 0, result.output
    assert list((tmp_path / "run" / "kept").iterdir()), "there are candidates"
    assert "from update" not in result.output
