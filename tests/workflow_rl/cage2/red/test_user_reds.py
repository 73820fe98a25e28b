import dataclasses
import functools
import itertools
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli import output_of
from tests.strangers.folders import poison
from tests.tiny_runs import same_weights
from tests.workflow_rl.runs.small_runs import COMPILED as ON_COMPILED
from tests.workflow_rl.runs.small_runs import PPO, config_of
from workflow_rl import api
from workflow_rl.cage2.cyborg.simulators import make_simulator
from workflow_rl.cage2.env.cage2_env import Cage2Env
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage2.env.vector_env import CompiledVectorEnv
from workflow_rl.cage2.red.roster import REDS
from workflow_rl.cage2.scenario.simulator_protocol import MAX_STEPS
from workflow_rl.cage2.scenario2 import ENV_ID, RED_AGENTS, RED_ENV_ID
from workflow_rl.cage2.scoring.protocol import cell_spec
from workflow_rl.cage4.scenario.scenario4 import RED_ENV_ID as CAGE4_RED_ENV_ID
from workflow_rl.collection import try_in_worker
from workflow_rl.environments.episode import EpisodeSpec
from workflow_rl.environments.named_by_file import require_named
from workflow_rl.environments.source import make_environment
from workflow_rl.errors import ConfigError
from workflow_rl.runs.checkpoint import Checkpoint, save_checkpoint
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.loop import train_policy
from workflow_rl.runs.read_checkpoint import load_checkpoint
from workflow_rl.runs.resume import resumed_plan
from workflow_rl.runs.saved_agent import load_player

OF_CYBORG, COMPILED = "tests.own_reds:RestlessRed", "tests.own_reds:Restless"


def run(path: Path, config: TrainConfig, resumed: Checkpoint | None = None) -> None:
    train_policy(config, path, resumed, quiet=True)


@pytest.fixture(scope="module")
def red_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a red agent that has learned next to nothing."""
    path = tmp_path_factory.mktemp("red") / "run"
    args = {"blue_agent": "sleep", "max_steps": 8}
    counts = {"total_episodes": 8, "episodes_per_update": 4}
    run(path, TrainConfig("async", n_envs=4, env=RED_ENV_ID, env_args=args, settings=PPO, **counts))
    return path


def obs_of(red_agent: Any, simulator: str) -> list[Any]:
    env = Cage2Env(red_agent, 30, simulator)
    rows = [env.reset(seed=5)[0].tolist()]
    for action in range(0, 140, 5):
        obs, reward, *_ = env.step(action)
        rows.append((obs.tolist(), reward, env.describe(truth=True)["red_action"]))
    return rows


@pytest.mark.parametrize("red_agent", [OF_CYBORG, COMPILED])
def test_both_simulators_play_the_same_episodes(red_agent: str) -> None:
    assert obs_of(red_agent, "compiled") == obs_of(red_agent, "cyborg")


def test_a_trained_red_agent_plays_by_the_folder_of_its_run(red_run: Path) -> None:
    name = str(red_run)
    assert obs_of(name, "compiled") == obs_of(red_run, "cyborg") == obs_of(name, "compiled")
    assert obs_of(name, "compiled") != obs_of("B_lineAgent", "compiled")


def test_envs_of_a_run_play_each_red_agent_as_it_plays_alone(red_run: Path) -> None:
    names = ["B_lineAgent", OF_CYBORG, COMPILED, str(red_run)]
    for mixture in (names, [names[0], *names[2:]]):  # With CybORG, and in compiled code alone.
        environment = Cage2(",".join(mixture), max_steps=9, simulator="compiled")
        envs = environment.make_envs(len(mixture))
        specs = [EpisodeSpec(i, name, 70 + i, i) for i, name in enumerate(mixture)]
        shown = [envs.reset(range(len(mixture)), specs)]
        shown += [envs.step(range(len(mixture)), np.full(len(mixture), 3)).obs for _ in range(9)]
        for i, name in enumerate(mixture):
            env = Cage2Env(name, 9, "compiled", "uint8")
            alone = [env.reset(seed=70 + i)[0], *(env.step(3)[0] for _ in range(9))]
            assert np.array_equal([rows[i] for rows in shown], alone)


def test_a_vector_env_plays_those_of_compiled_code(red_run: Path) -> None:
    mixture = {"SleepAgent": 1, COMPILED: 1, red_run: 1}
    envs, drawn = CompiledVectorEnv(12, mixture, 5), set()
    obs, infos = envs.reset(seed=11)
    for i in range(12):
        env = Cage2Env(mixture, 5)
        alone, info = env.reset(seed=11 + i)
        assert np.array_equal(obs[i], alone)
        assert infos["red_agent"][i] == info["red_agent"]
    rows = envs.step([0] * 12)[0]
    for i in range(12):
        env.reset(seed=11 + i)
        assert np.array_equal(rows[i], env.step(0)[0])
        assert envs.describe(i) == env.describe()
        drawn.add(envs.describe(i, truth=True)["red_agent"])
    assert drawn == {"SleepAgent", COMPILED, str(red_run)}
    with pytest.raises(ValueError, match="Careless is not one that these envs were made with"):
        envs.reset(options={"red_agent": "tests.own_reds:Careless"})


def test_episodes_of_the_challenges_red_agents_fork_beside_ones_own() -> None:
    mixture = {"B_lineAgent": 1, COMPILED: 1}
    env = Cage2Env(mixture, 12, "compiled")
    seeds = [seed for seed in range(9) if REDS.read(mixture).drawn(seed).name == "B_lineAgent"]
    env.reset(seed=seeds[0])
    alone = Cage2Env("B_lineAgent", 12, "compiled")
    alone.reset(seed=seeds[0])
    for _ in range(3):
        for single in (env, alone):
            single.step(0)
    forks, expected = env.fork(3, seed=5), alone.fork(3, seed=5)
    for _ in range(9):
        rewards = expected.step(np.zeros(3, np.int64))[1]
        assert np.array_equal(forks.step(np.zeros(3, np.int64))[1], rewards)
    env.reset(options={"red_agent": COMPILED}, seed=0)
    with pytest.raises(ValueError, match="of a red agent of your own cannot be forked"):
        env.fork(2)


@pytest.mark.parametrize(
    ("red_agent", "simulator", "message"),
    [
        (COMPILED, "published", "tests.own_reds:Restless does not act as csle-cyborg's agents"),
        ("tests.own_reds:Restles", "cyborg", "Did you mean tests.own_reds:Restless"),
        ("tests.own_reds:Any", "compiled", "Any is no red agent: it needs the methods begin and"),
        ("runs/none", "compiled", "runs/none: there is no such folder or policy file of a tr"),
    ],
)
def test_what_cannot_play_is_named(red_agent: str, simulator: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_simulator(simulator, 9, REDS.read(red_agent).members[0])


def test_an_agent_for_blue_is_no_red_agent() -> None:
    with pytest.raises(ValueError, match=r"red_agent: .*champion.npz was trained on .*CAGE2-v0: a"):
        Cage2Env(Path("workflow_rl/cage2/agent/released/champion.npz"))


def test_episodes_of_all_cells_differ() -> None:
    names = [*RED_AGENTS, COMPILED, OF_CYBORG, "mixed", f"SleepAgent,{COMPILED}"]
    specs = [
        cell_spec(0, max_steps, name, number)
        for name, max_steps in itertools.product(names, (1, 30, MAX_STEPS))
        for number in (*range(100), 999_999)
    ]
    assert len({spec.number for spec in specs}) == len({spec.env_seed for spec in specs}) == 2121
    assert max(spec.number for spec in specs) < 2**63


# --- Runs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("simulator", ["compiled", "cyborg"])
def test_weights_are_those_of_any_number_of_workers_and_of_a_resumed_run(
    tmp_path: Path, red_run: Path, simulator: str
) -> None:
    args = {
        "red_agent": f"{OF_CYBORG},{COMPILED}=2,{red_run},B_lineAgent",
        **{"max_steps": 8, "simulator": simulator, "observation": "belief"},
    }
    configs = [config_of("CAGE-2", env_args=args, n_workers=n) for n in (1, 2)]
    for name, config in zip(("one", "two"), configs, strict=True):
        run(tmp_path / name, config)
    assert same_weights(tmp_path / "one", tmp_path / "two")
    train_policy(configs[0], tmp_path / "resumed", quiet=True, last_update=2)
    checkpoint = load_checkpoint(tmp_path / "resumed" / "checkpoint.safetensors")
    assert checkpoint.training.updates == 2
    assert checkpoint.config["red_agent"] == args["red_agent"]
    run(tmp_path / "resumed", configs[1], checkpoint)
    assert same_weights(tmp_path / "one", tmp_path / "resumed")


def test_what_is_wrong_with_a_red_agent_is_said_before_a_run() -> None:
    for red_agent, message in {
        "tests.own_reds:Careless": "tests.own_reds:Careless cannot play: KeyError",
        "tests.own_reds:Nobody": "tests.own_reds defines no Nobody",
        "runs/nowhere": "runs/nowhere: there is no such folder or policy file",
    }.items():
        with pytest.raises(ConfigError, match=message) as caught:
            Cage2(red_agent).check()
        assert caught.value.field_name == "red_agent"
    assert "DrawsElsewhere with one seed differ" in str(
        Cage2("tests.own_reds:DrawsElsewhere").check()
    )
    assert Cage2(f"{OF_CYBORG},{COMPILED}").check() is None


def test_a_config_takes_a_class_and_keeps_its_name() -> None:
    from tests.own_reds import Restless

    config = TrainConfig("async", env_args={"red_agent": {Restless: 3, "SleepAgent": 1}})
    assert config.to_dict()["red_agent"] == f"{COMPILED}=3,SleepAgent=1"
    assert TrainConfig.from_dict(config.to_dict()) == config
    with pytest.raises(ConfigError, match="red_agent: 'b_line' is no red agent"):
        TrainConfig("async", env_args={"red_agent": "b_line"})


# --- Files of others -----------------------------------------------------------------------------


@pytest.fixture
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A class in a module of the current folder, which nobody has named yet."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    Path("strange_red.py").write_text("from tests.own_reds import Restless\nprint('imported')\n")
    yield "strange_red:Restless"
    sys.modules.pop("strange_red", None)


def test_what_only_a_file_names_is_not_imported(stranger: str) -> None:
    args = {"red_agent": stranger}
    refused = make_environment(ENV_ID, args, named_by_file=True)
    for refusing in (lambda: refused.make_envs(1), lambda: require_named(refused)):
        with pytest.raises(ConfigError, match=r"red_agent strange_red:Rest.*--trust"):
            refusing()
    assert "strange_red" not in sys.modules
    make_environment(ENV_ID, args).make_envs(1)
    assert "strange_red" in sys.modules


@pytest.mark.parametrize("env_id", [RED_ENV_ID, CAGE4_RED_ENV_ID])
def test_a_blue_agent_that_only_a_file_names_is_not_read(stranger: str, env_id: str) -> None:
    args = {"blue_agent": "runs/blue"}
    environment = make_environment(env_id, args, named_by_file=True)
    for refusing in (
        lambda: environment.make_envs(1),
        environment.check,
        lambda: require_named(environment),
    ):
        with pytest.raises(ConfigError, match="only the file mentions runs/blue, a file"):
            refusing()
    require_named(make_environment(env_id, args))
    for known in ("champion", "sleep"):
        require_named(make_environment(env_id, {"blue_agent": known}, named_by_file=True))


def test_commands_do_not_read_a_blue_agent_that_only_a_run_names(
    stranger: str, red_run: Path, tmp_path: Path
) -> None:
    poisoned = shutil.copytree(red_run, tmp_path / "run")
    poison(tmp_path, lambda config: config.update(blue_agent="runs/secret"))
    for command in ("evaluate", "train-async --resume", "verify"):
        said = output_of(*command.split(), poisoned, code=2)
        assert "only the file mentions runs/secret, a file or folder" in said


def resumed(folder: Path, *words: str, code: int) -> str:
    """Return what is said of the run in this folder, which is only shown."""
    asked = ("--resume", folder / "run", "--total-episodes", 99, "--dry-run", *words)
    return output_of("train-async", *asked, code=code)


def test_a_red_agent_that_is_typed_on_a_resume_is_not_asked_for(
    stranger: str, tmp_path: Path
) -> None:
    run(tmp_path / "run", config_of("CAGE-2", env_args=ON_COMPILED))
    poison(tmp_path, lambda config: config.update(red_agent=stranger))
    for typed, code, message in (
        ((), 2, "only the file mentions the red_agent strange_red:Restless"),
        (("--red-agent", "B_lineAgent"), 2, "but the run to resume has strange_red:Restless"),
        (("--red-agent", stranger), 0, "red_agent: strange_red:Restless"),
    ):
        assert message in resumed(tmp_path, *typed, code=code)


def test_a_study_asks_for_the_red_agent_of_the_run_that_it_resumes(
    stranger: str, tmp_path: Path
) -> None:
    """A study asks for all of a config, which has the environment's arguments by their names."""
    run(tmp_path / "run", config_of("CAGE-2", env_args=ON_COMPILED))
    poison(tmp_path, lambda config: config.update(red_agent=stranger))
    asked = load_checkpoint(tmp_path / "run" / "checkpoint.safetensors").config
    (config,) = resumed_plan(tmp_path / "run", {**asked, "total_episodes": 99}).configs
    assert isinstance(config.environment, Cage2)
    assert (config.environment.red_agent, config.environment.named_by_file) == (stranger, False)


def test_who_types_the_red_agent_has_no_file_read(stranger: str, tmp_path: Path) -> None:
    """A run holds the content of its scenario. A stranger's may hold a path in its place."""
    run(tmp_path / "run", config_of("CAGE-2", env_args=ON_COMPILED))
    Path("secret.yaml").write_text("hosts: {}")
    poison(tmp_path, lambda config: config.update(red_agent=stranger, scenario="secret.yaml"))
    said = resumed(tmp_path, "--red-agent", stranger, code=2)
    assert "only what the user names is read" in " ".join(said.split())


def test_an_agent_is_scored_without_the_red_agent_that_it_learned_against(
    stranger: str, tmp_path: Path
) -> None:
    config = config_of(
        "CAGE-2", env_args={"red_agent": stranger, "max_steps": 8, "simulator": "compiled"}
    )
    saved = config.to_dict()
    run(tmp_path / "run", config_of("CAGE-2", env_args=ON_COMPILED))
    for path in (tmp_path / "run").glob("*.safetensors"):
        save_checkpoint(path, dataclasses.replace(load_checkpoint(path), config=saved))
    _, environment = load_player(tmp_path / "run")
    assert environment.variants == (stranger,)
    assert api.evaluate(tmp_path / "run", 1, red_agent="B_lineAgent", max_steps=5).mean <= 0
    with pytest.raises(ConfigError, match="only the file mentions"):
        require_named(environment)
    assert "strange_red" not in sys.modules


# --- Commands ------------------------------------------------------------------------------------


def call(*arguments: object, code: int = 0) -> str:
    return output_of(*arguments, "--max-steps", 5, code=code)


@pytest.mark.parametrize("kind", ["cyborg", "compiled", "trained"])
def test_commands_take_each_kind(kind: str, red_run: Path, tmp_path: Path) -> None:
    red_agent = {"cyborg": OF_CYBORG, "compiled": COMPILED, "trained": str(red_run)}[kind]
    scored = call("evaluate", "sleep", "--red-agent", red_agent, "--episodes", 2, "--n-workers", 1)
    assert f"│ {red_agent} │" in scored
    page = tmp_path / "page.html"
    shown = call("replay", "champion", "--red-agent", red_agent, "--output", page)
    assert f"champion against {red_agent}, 5 steps" in shown
    assert red_agent in page.read_text()


@pytest.mark.parametrize(
    ("more", "played"),
    [
        ((), "compiled code, which plays as csle"),
        (["SleepAgent"], f"compiled code for {COMPILED}, and"),
    ],
)
def test_what_compiled_code_plays_is_not_said_to_be_of_cyborg(more: list[str], played: str) -> None:
    reds = itertools.chain(*(("--red-agent", red) for red in (COMPILED, *more)))
    counts = ("--episodes", 2, "--n-workers", 1)
    scored = call("evaluate", "sleep", "--simulator", "cyborg", *reds, *counts)
    assert f"sleep on {played}" in scored


def test_an_attacker_that_fails_late_or_hangs_is_blamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ("replay", "sleep", "--output", tmp_path / "page.html", "--red-agent")
    told = "--red-agent: the episode against tests.own_reds:Tires failed: LookupError: I am"
    assert told in output_of(*asked, "tests.own_reds:Tires", code=2)
    monkeypatch.setattr(try_in_worker, "ask", functools.partial(try_in_worker.ask, timeout=2.0))
    said = output_of(*asked, "tests.own_reds:Hangs", code=2)
    assert "--red-agent: tests.own_reds:Hangs cannot be played: " in said


@pytest.mark.parametrize(
    "red_agent", ["b_line", "tests.own_reds:Nobody", "runs/nowhere", "Sleep=x"]
)
@pytest.mark.parametrize("command", ["evaluate sleep", "replay sleep", "train-async --dry-run"])
def test_a_mistake_is_one_line_that_names_the_option(command: str, red_agent: str) -> None:
    *_, line = call(*command.split(), "--red-agent", red_agent, code=2).splitlines()
    assert line.startswith("Error: Invalid value for --red-agent: ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--observation true-state", f"--red-agent: {OF_CYBORG} acts as .*: only compiled"),
        (
            "--teacher decoys",
            f"--teacher: {OF_CYBORG} acts as .*: a teacher with other observations",
        ),
    ],
)
def test_what_compiled_code_alone_does_is_refused_with_a_class_of_cyborg(
    words: str, message: str
) -> None:
    asked = ("train-async", "--dry-run", "--red-agent", OF_CYBORG, *words.split())
    *_, line = call(*asked, code=2).splitlines()
    assert re.search(message, line)
