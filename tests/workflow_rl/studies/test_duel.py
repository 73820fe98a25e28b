import dataclasses
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli import call, refused
from workflow_rl.agents.policies.team_policy import TeamParameters, load_policy_or_team
from workflow_rl.cage2.guest import Cage2Guest
from workflow_rl.cage2.red.roster import LIBRARY
from workflow_rl.environments.environment import weights_of
from workflow_rl.environments.episode import SeedStream, episode_spec
from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment
from workflow_rl.environments.source import make_environment
from workflow_rl.errors import ConfigError, UserError
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.execute import require_ready
from workflow_rl.runs.folder import read_config
from workflow_rl.runs.learner import Learner
from workflow_rl.runs.trust import sign
from workflow_rl.studies import duel
from workflow_rl.studies.attackers import played
from workflow_rl.studies.duel import run_duel
from workflow_rl.studies.duel_config import DuelConfig
from workflow_rl.studies.duel_dir import DuelRecord, read_duel
from workflow_rl.studies.exploit import attack

MATRIX = "examples.small_games:Matrix"
SETTINGS = DuelConfig(generations=2, payoff_episodes=20, warm_start=True)


class Killed(BaseException):
    """Nothing is saved after this, as after SIGKILL."""


def config_of(mode: str = "async", n_workers: int = 1, **changes: Any) -> TrainConfig:
    given = {"env": MATRIX, "total_episodes": 64, "episodes_per_update": 16, "checkpoint_every": 1}
    return TrainConfig(
        mode, 10, n_workers=n_workers, envs_per_worker=10 // n_workers,
        settings={"hidden_sizes": (4,), "learning_rate": 0.1}, **{**given, "seed": 3, **changes},
    )  # fmt: skip


def cage2(**changes: Any) -> TrainConfig:
    return TrainConfig(
        **{"mode": "async", "env": Cage2Guest.env_id, "env_args": {"max_steps": 30}},
        **{"total_episodes": 8, "n_envs": 4, "n_workers": 1, "episodes_per_update": 4, **changes},
        settings={"hidden_sizes": (8,)},
    )


def run_killed(
    monkeypatch: Any, of: Any, name: str, number: int, config: Any, path: Path, settings: Any = None
) -> None:
    """Begin a duel, or go on with it, until the call of this number of a function, which kills."""
    left, call = [number], getattr(of, name)

    def counted(*arguments: Any, **options: Any) -> Any:
        left[0] -= 1
        if not left[0]:
            raise Killed
        return call(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(of, name, counted)
        with pytest.raises(Killed):
            run_duel(config, path, settings or SETTINGS)


def weights(path: Path) -> dict[str, Any]:
    """Return the arrays of all policy files of a duel, and its payoffs."""
    found: dict[str, Any] = {"payoffs": read_duel(path).payoffs}
    for file in sorted(path.rglob("*.npz")):
        loaded, _ = load_policy_or_team(file)
        (policy,) = loaded.parameters.values() if isinstance(loaded, TeamParameters) else [loaded]
        found[str(file.relative_to(path))] = [*map(np.ndarray.tolist, policy.weights)]
    return found


def init_from(path: Path) -> Any:
    return json.loads((path / "machine.json").read_text())["init_from"]


def duel_of(path: Path, settings: DuelConfig, record: DuelRecord) -> Any:
    sides: Any = {"first": None, "second": None}
    return duel._Duel(path, config_of(), settings, sides, record, print, True)


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("duel") / "duel"
    run_duel(config_of(), path, SETTINGS)
    return path


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("begun") / "duel"
    run_duel(config_of(), path, SETTINGS.changed(generations=1))
    return path


@pytest.mark.parametrize(
    "case", ["link", "link below", "link to nothing", "notes", "notes in a begun run", "a file"]
)
def test_nothing_of_the_users_goes(case, begun, tmp_path):
    path, own = tmp_path / "duel", tmp_path / "own"
    shutil.copytree(begun, path)
    own.mkdir()
    (own / "notes").write_text("the user's")
    generation, side = path / "generation-2", path / "generation-2" / "first"
    if case == "link":
        generation.symlink_to(own)
    elif case.startswith("notes"):
        side.mkdir(parents=True)
        (side / "notes").write_text("the user's")
    else:
        generation.mkdir()
    if case == "a file":
        side.write_text("the user's")
    if case in ("link below", "link to nothing"):
        side.symlink_to(own if case == "link below" else own / "none")
    if case == "notes in a begun run":
        (side / "run_id").write_text("0" * 32)

    def content() -> dict[Path, Any]:
        return {file: file.is_file() and file.read_bytes() for file in tmp_path.rglob("*")}

    before = content()
    with pytest.raises(UserError, match=r"is a link|is not empty|cannot be used") as refused:
        run_duel(config_of(), path, SETTINGS)
    assert "\n" not in str(refused.value)
    after = content()
    assert {file: after[file] for file in before} == before
    assert [file.name for file in own.iterdir()] == ["notes"]


@pytest.mark.parametrize(
    ("mode", "n_workers", "at_update"),
    [
        ("sync", 2, 14),  # In the middle of the second side's second run.
        pytest.param("async", 5, 6, marks=pytest.mark.slow),
        pytest.param("async", 2, 10, marks=pytest.mark.slow),
        pytest.param("sync", 1, 9, marks=pytest.mark.slow),
        pytest.param("sync", 5, 1, marks=pytest.mark.slow),
    ],
)
def test_weights_are_the_same_after_kills_and_for_any_workers(
    mode, n_workers, at_update, reference, tmp_path, monkeypatch
):
    path = tmp_path / "duel"
    for of, name, at in ((Learner, "learn_once", at_update), (duel, "played", 1)):
        run_killed(monkeypatch, of, name, at, config_of(mode, n_workers), path)
    run_duel(config_of(mode, 5 if n_workers == 2 else n_workers), path, SETTINGS)
    assert weights(path) == weights(reference)
    assert (path / "duel.png").stat().st_size > 10_000


def test_a_generation_meets_the_mixture_of_the_one_before(reference):
    record = read_duel(reference)
    assert record.opponents == record.mixtures[:-1]
    assert np.shape(record.payoffs) == (3, 3)
    config = read_config(reference / "generation-2" / "first")
    met = weights_of(config.env_args["opponents"])
    shares = record.weights(reference, "second", record.mixtures[1])
    for agent, share in shares.items():
        assert met.get(agent, 0) == pytest.approx(1000 * share, abs=0.5)
    # What was learned goes on from generation to generation.
    assert init_from(reference / "generation-2" / "first")


def test_a_duel_goes_on_past_its_end_and_is_no_other_duel(reference, tmp_path):
    path = tmp_path / "duel"
    shutil.copytree(reference, path)
    for config, settings in (
        (config_of(seed=4), SETTINGS),
        (config_of(), SETTINGS.changed(opponents="latest")),
    ):
        with pytest.raises(UserError, match="go on with the same"):
            run_duel(config, path, settings)
    before = read_duel(path)
    record = run_duel(config_of(), path, SETTINGS.changed(generations=3))
    assert len(record.opponents) == 3
    by_kind, was = (of.by_kind["fixed"]["random"] for of in (record, before))
    assert len(by_kind) == 4
    assert by_kind[:3] == was
    assert np.array_equal(np.array(record.payoffs)[:3, :3], before.payoffs)
    with pytest.raises(ConfigError, match="no side"):
        run_duel(config_of(), tmp_path / "other", SETTINGS, {"third": ["x"]})


def test_payoffs_are_told_by_kind_of_opponent(reference):
    record, payoffs = read_duel(reference), np.array(read_duel(reference).payoffs)
    learned = record.agents["second"][1:]
    start = {"start/second.npz": payoffs[:, 0].tolist()}
    by_table = dict(zip(learned, payoffs[:, 1:].T.tolist(), strict=True))
    assert record.by_kind == {"fixed": record.by_kind["fixed"], "start": start, "learned": by_table}
    side = duel.sides_of(GymnasiumEnvironment(MATRIX), "")["first"]
    specs = [episode_spec(3, n, (), SeedStream.SELECTION) for n in range(20)]
    for agent, mean in zip(record.agents["first"], record.by_kind["fixed"]["random"], strict=True):
        actor, args = duel.actor_for_side(str(reference / agent), side, {"random": 1.0})
        (returns,) = played(make_environment(side.env, args), [(actor, specs)], config_of())
        assert mean == pytest.approx(np.mean(returns))


@pytest.mark.parametrize(
    ("opponents", "first", "second"),
    [
        ("latest", [0, 0, 1], [0, 0, 1]),
        ("uniform", [1 / 3] * 3, [1 / 3] * 3),
        ("prioritised", [0.5, 0, 0.5], [4 / 5, 1 / 5, 0]),
    ],
)
def test_whom_a_generation_meets_is_chosen(opponents, first, second, tmp_path):
    record = DuelRecord(
        {}, {}, {"first": ["a", "b", "c"], "second": ["d", "e", "f"]},
        [[0, 1, 2], [2, 1, 0], [0, 1, 2]], [[0] * 3] * 3,
    )  # fmt: skip
    shares = duel_of(tmp_path, SETTINGS.changed(opponents=opponents), record).opponents()
    np.testing.assert_allclose(shares["first"], first)
    np.testing.assert_allclose(shares["second"], second)


def test_agents_that_are_kept_are_met_in_a_fixed_share(tmp_path):
    start = {"first": ["a"], "second": ["d", "e"]}
    record = DuelRecord(
        {}, {"start": start}, {"first": ["a", "b"], "second": ["d", "e", "f"]},
        [[0, 1, 2], [2, 1, 0]], [[0] * 3] * 2,
    )  # fmt: skip
    settings = SETTINGS.changed(opponents="uniform", keep="d=0.3,e=0.1")
    of = duel_of(tmp_path, settings, record)
    np.testing.assert_allclose(of.opponents()["second"], [0.5, 0.3, 0.2])
    np.testing.assert_allclose(of.opponents()["first"], [0.5, 0.5])
    # The sum of these shares is 1.0000000000000002.
    agents = {"first": ["a", "b"], "second": ["d", "e", "f", "g", "h"]}
    whole = dataclasses.replace(record, agents=agents, payoffs=[[0.0] * 5] * 2)
    settings = settings.changed(keep="d=0.65,e=0.05,f=0.2,g=0.1")
    shares = dataclasses.replace(of, settings=settings, record=whole).opponents()["second"]
    assert min(shares) >= 0
    np.testing.assert_allclose(shares, [0.65, 0.05, 0.2, 0.1, 0])
    for keep, what in (("x=0.5", "x is no agent of --start"), ("d=0.8,e=0.4", "second are more")):
        with pytest.raises(ConfigError, match=what):
            run_duel(config_of(), tmp_path / "duel", settings.changed(keep=keep), start)


def test_a_side_may_train_several_policies_in_a_generation(reference, tmp_path, monkeypatch):
    settings, paths = SETTINGS.changed(responses="second=2"), [tmp_path / "one", tmp_path / "two"]
    # In the middle of the second of the second side's policies.
    run_killed(monkeypatch, Learner, "learn_once", 10, config_of(), paths[0], settings)
    for path, n_workers in zip(paths, (1, 2), strict=True):
        run_duel(config_of(n_workers=n_workers), path, settings)
    assert weights(paths[0]) == weights(paths[1])
    # The first of them is the one that a side trains alone.
    of, alone = weights(paths[0]), weights(reference)
    first, second = (of[f"generation-1/second{name}.npz"] for name in ("", ".2"))
    assert first == alone["generation-1/second.npz"] != second
    record = read_duel(paths[0])
    assert np.shape(record.payoffs) == (3, 5)
    assert record.of_generation("second", 0) == ["start/second.npz"]
    assert record.of_generation("second", 2) == record.agents["second"][3:]
    assert record.of_generation("first", 2) == ["generation-2/first.npz"]
    assert init_from(paths[0] / "generation-2" / "second.2")
    other = SETTINGS.changed(responses="second=3")
    with pytest.raises(UserError, match="is a duel with responses second=2, not second=3"):
        run_duel(config_of(), paths[0], other)


def test_copies_of_attackers_written_by_hand_are_the_same_for_any_workers(tmp_path, monkeypatch):
    settings = DuelConfig(generations=1, payoff_episodes=6, copy_known=True, responses="Red=3")
    numbers = {"n_envs": 5, "total_episodes": 10, "episodes_per_update": 5, "checkpoint_every": 1}
    path, found = tmp_path / "killed", []
    # In the middle of the second of Red's policies.
    run_killed(monkeypatch, Learner, "learn_once", 6, cage2(**numbers), path, settings)
    for folder, n_workers in ((path, 5), (tmp_path / "one", 1), (tmp_path / "two", 2)):
        run_duel(cage2(**numbers, n_workers=n_workers), folder, settings)
        found.append(weights(folder))
    assert found[0] == found[1] == found[2]
    generation = path / "generation-1"
    by_kind = read_duel(path).by_kind
    assert by_kind["by hand"].keys() == LIBRARY.keys()
    assert [len(of) for of in by_kind["by hand"].values()] == [2] * len(LIBRARY)
    first, second, third, blue = (
        read_config(generation / name).teacher for name in ("Red", "Red.2", "Red.3", "Blue")
    )
    assert len({first, second} & LIBRARY.keys()) == 2
    assert third is blue is None


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"copy_known": True}, "Matrix brings no attackers"),
        ({"responses": "third=2"}, "third is no side"),
        ({"responses": "second=1.5"}, "a whole number"),
        ({"responses": "second=0"}, "is not side=number"),
        ({"warm_start_side": "third"}, "third is no side"),
        ({"warm_start_side": "first", "warm_start": False}, "goes with --warm-start"),
        # Sides have folders of their own.
        ({"sides": "first=a b,*=a/b"}, "a b and a/b would have the same folders"),
        ({"env_python": sys.executable}, "a duel plays in this interpreter"),
    ],
)
def test_settings_that_cannot_be(changes, what, tmp_path):
    of_config = {name: changes.pop(name) for name in {"env_python"} & changes.keys()}
    with pytest.raises(ConfigError, match=what):
        run_duel(config_of(**of_config), tmp_path / "duel", SETTINGS.changed(**changes))


def test_the_latest_are_all_of_a_generation(tmp_path):
    agents = {"first": ["a", "b"], "second": ["c", "d", "e"]}
    start = {"first": [1.0], "second": [1.0]}
    record = DuelRecord({}, {"responses": "second=2"}, agents, [[0.0] * 3] * 2, mixtures=[start])
    of = duel_of(tmp_path, SETTINGS.changed(opponents="latest"), record)
    assert of.mixtures() == {"first": [0, 1], "second": [0, 0.5, 0.5]}


def test_one_side_alone_begins_with_what_it_learned(tmp_path):
    run_duel(config_of(), tmp_path / "duel", SETTINGS.changed(warm_start_side="second"))
    assert not init_from(tmp_path / "duel" / "generation-2" / "first")
    assert init_from(tmp_path / "duel" / "generation-2" / "second")


@pytest.mark.parametrize(
    "damage",
    [
        *({"payoffs": [[1.0]]}, {"opponents": 3}, {"further": 1}, {"config": [1]}, {"config": 1}),
        *({"by_kind": {"fixed": {"random": [0.0] * 4}}}, {"by_kind": {"fixed": {"random": ["x"]}}}),
        *({"duel": None}, {"duel": {"responses": "second=2"}}, {"duel": {"responses": "x=y"}}),
        {"mixtures": [{"first": [1.0], "second": [1.0]}]},
        {"mixtures": [{"first": [0.0], "second": [1.0]}] * 3},
        {"opponents": [{"first": [2.0], "second": [1.0]}] * 2},
        {"agents": {"first": [1], "second": [2]}},
    ],
)
def test_a_damaged_record_is_one_line(damage, reference, tmp_path):
    values = json.loads((reference / "duel.json").read_text())
    (tmp_path / "duel.json").write_text(json.dumps({**values, **damage}))
    with pytest.raises(UserError, match=r"duel\.json cannot be read"):
        read_duel(tmp_path)


def test_a_duel_that_is_trusted_goes_on(reference, tmp_path, monkeypatch):
    """Its record holds a config, which is signed too."""
    shutil.copytree(reference, tmp_path / "duel")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    sign(tmp_path / "duel")
    assert read_duel(tmp_path / "duel").is_own
    run_duel(config_of(), tmp_path / "duel", SETTINGS)


@pytest.mark.parametrize(
    "agent", ["evil:Agent", "/agents/of-the-user.npz", "../mine/x.npz", "two,agents.npz"]
)
def test_what_only_a_file_names_is_not_imported_nor_read(agent, tmp_path):
    settings = {**SETTINGS.to_dict(), "start": {"first": [], "second": []}}
    agents = {"first": ["evil:Other"], "second": ["x.npz"]}
    alone = {"first": [1.0], "second": [1.0]}
    record = DuelRecord(config_of().to_dict(), settings, agents, [[0.0]], [[0.0]], [alone])
    record.write(tmp_path)
    (tmp_path / "x.npz").touch()
    (tmp_path / "evil:Agent").touch()  # It may be gone once the agent plays.
    (tmp_path / "two,agents.npz").touch()
    file = tmp_path / "duel.json"
    file.write_text(file.read_text().replace("evil:Other", agent))
    for goes_on in (
        lambda: attack(str(tmp_path), config_of(), tmp_path / "attackers", "first"),
        lambda: run_duel(config_of(), tmp_path, SETTINGS),
    ):
        with pytest.raises(UserError, match=f"only the file mentions the agent {agent}"):
            goes_on()


def test_agents_at_the_start_are_tried_before_the_folder_is_made(reference, tmp_path):
    other_side = str(reference / "generation-1" / "second.npz")
    for start, message in {
        ("second", "random", "random"): "second=random: it is given twice",
        ("first", other_side): "first=.*second.npz: .* is a policy of other agents",
        ("second", "runs/none"): "second=runs/none: .*No such file",
        ("first", "random"): "first=random: there is no checkpoint at random",
        ("second", "a,b"): "second=a,b: a,b has a comma",
    }.items():
        side, *agents = start
        with pytest.raises(ConfigError, match=message) as caught:
            run_duel(config_of(), tmp_path / "duel", SETTINGS, {side: agents})
        assert caught.value.field_name == "start"
    with pytest.raises(ConfigError, match="has a comma"):
        run_duel(config_of(), tmp_path / "a,b", SETTINGS)
    assert not [*tmp_path.iterdir()]


def test_a_folder_may_be_spelled_in_another_way(reference, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(Path.cwd()))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a=1").mkdir()
    run_killed(monkeypatch, Learner, "learn_once", 10, config_of(), Path("a=1/duel"))
    run_duel(config_of(), tmp_path / "a=1" / ".." / "a=1" / "duel", SETTINGS)
    assert weights(Path("a=1/duel")) == weights(reference)


def test_sides_that_draw_from_the_state_of_the_process_do_not_depend_on_the_workers(tmp_path):
    found = []
    for n_workers in (1, 2):
        path = tmp_path / str(n_workers)
        env = "tests.globally_drawing_env:GloballyDrawingGame"
        config = config_of(n_workers=n_workers, env=env, total_episodes=16)
        require_ready(config)
        run_duel(config, path, DuelConfig(generations=1, payoff_episodes=10))
        found.append(weights(path))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "env", ["--simulator compiled", "--env examples.small_games:Kuhn", "--env workflow_rl/CAGE4-v0"]
)
@pytest.mark.parametrize("agent", ["nobody", "text.npz"])
def test_an_agent_that_cannot_be_attacked_leaves_no_folder(env, agent, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("text.npz").write_text("no agent")
    words = f"exploit {agent} {env} --total-episodes 40 --n-workers 1 --quiet --run-dir attacked"
    refused(call(words), f"Error: {agent} cannot be attacked: ")
    assert [path.name for path in tmp_path.iterdir()] == ["text.npz"]


def test_sides_are_two():
    assert [duel.label(side) for side in ("a/b", "..", "x.y")] == ["a-b", "-", "x-y"]
    kuhn = GymnasiumEnvironment("examples.small_games:Kuhn")
    assert list(duel.sides_of(kuhn, "")) == ["first", "second"]
    doors = GymnasiumEnvironment("tests.tiny_teams:Doors")
    sides = duel.sides_of(doors, "chief=boss,*=guards")
    assert {name: side.args["side"] for name, side in sides.items()} == {
        "guards": "north,south",
        "boss": "chief",
    }
    for rules, message in (("", "north, south, chief"), ("*", "agent=side"), ("*=all", "all")):
        with pytest.raises(ConfigError, match=message):
            duel.sides_of(doors, rules)
    with pytest.raises(ConfigError, match="one agent"):
        duel.sides_of(GymnasiumEnvironment("CartPole-v1"), "")
