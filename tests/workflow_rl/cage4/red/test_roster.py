"""Trained red teams as opponents: the same episodes in every place where Blue meets them."""

import copy
import pickle
from pathlib import Path

import numpy as np
import pytest

from tests.cli import output_of
from tests.workflow_rl.cage4.lock_step import compare, episode_of
from tests.workflow_rl.cage4.red_files import write_red_team
from workflow_rl.cage4 import parallel_env
from workflow_rl.cage4.agent.trained_teams import RELEASED
from workflow_rl.cage4.agent.views import SLEEP
from workflow_rl.cage4.cyborg.simulators import make_simulator
from workflow_rl.cage4.env.environment import Cage4
from workflow_rl.cage4.red.roster import OneTeam, load_reds
from workflow_rl.cage4.scenario.scenario4 import AGENTS, ENV_ID, RED_ENV_ID
from workflow_rl.cage4.scenario.simulator_protocol import StepResult
from workflow_rl.environments.episode import EpisodeSpec, episode_spec
from workflow_rl.environments.source import make_environment
from workflow_rl.errors import ConfigError
from workflow_rl.runs.copy_teacher import teacher_named

STEPS = 60
NO_PROGRAM = "tests.workflow_rl.cage4.test_attackers:NoProgram"


@pytest.fixture(scope="module")
def red(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_red_team(tmp_path_factory.mktemp("reds") / "red.npz")


def rewards(environment: Cage4, specs: list[EpisodeSpec]) -> list[list[float]]:
    """Blue's rewards in episodes that are played at the same time. Blue sleeps."""
    envs = pickle.loads(pickle.dumps(environment)).make_envs(len(specs))
    numbers = range(len(specs))
    envs.reset(numbers, specs)
    sleep = np.tile(SLEEP, (len(specs), 1))
    return np.array([envs.step(numbers, sleep).reward for _ in range(STEPS - 1)]).T.tolist()


def alone(name: str, red: str, seed: int) -> list[float]:
    simulator = make_simulator(name, load_reds(red), STEPS)
    simulator.reset(seed)
    return [simulator.step(SLEEP.tolist()).reward for _ in range(STEPS - 1)]


def test_an_episode_meets_the_red_team_that_it_draws(red: str) -> None:
    environment = Cage4(red_agent=f"{red}=1,SleepAgent=1", max_steps=STEPS)
    specs = [episode_spec(0, number, environment.variants) for number in range(6)]
    assert {spec.variant for spec in specs} == {red, "SleepAgent"}
    for spec, played in zip(specs, rewards(environment, specs), strict=True):
        if spec.variant == red:
            assert played == alone("compiled", red, spec.env_seed)
        else:
            only = Cage4(red_agent="SleepAgent", max_steps=STEPS)
            assert [played] == rewards(only, [spec])


def test_cyborg_plays_the_same_episodes(checkout: Path, red: str) -> None:
    specs = [EpisodeSpec(3, red, 3, 3)]
    made = [
        Cage4(simulator=simulator, red_agent=red, max_steps=STEPS)
        for simulator in ("compiled", "cyborg")
    ]
    first, second = (rewards(environment, specs) for environment in made)
    assert first == second == [alone("cyborg", red, 3)]
    pair = episode_of("restores", red, 2, 20)
    simulators = [make_simulator(name, "from outside", 21) for name in ("cyborg", "compiled")]
    assert compare(*simulators, pair) == (20, None, "")


def test_a_copy_goes_on_as_the_original(red: str) -> None:
    simulator = make_simulator("compiled", load_reds(red), STEPS)
    simulator.start_stream(4)
    simulator.reset()
    simulator.step(SLEEP.tolist())
    other = copy.deepcopy(simulator)

    def on(of: object) -> list[StepResult]:
        return [of.step(SLEEP.tolist()) for _ in range(20)]  # type: ignore[attr-defined]

    assert repr(on(simulator)) == repr(on(other))
    assert simulator.true_state() == other.true_state()


def test_streams_of_episodes_draw_seeds_of_their_own(
    red: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulator, seeds = make_simulator("compiled", load_reds(red), STEPS), list[int]()
    monkeypatch.setattr(OneTeam, "reset", lambda _, seed: seeds.append(seed))
    for stream in (1, 2, 1):
        simulator.start_stream(stream)
        for _ in range(3):
            simulator.reset()
    assert seeds[:3] == seeds[6:]
    assert len({*seeds}) == 6


def test_the_parallel_env_meets_trained_and_other_reds(red: str) -> None:
    env = parallel_env(red_agent=f"{red}=1,SleepAgent=1", max_steps=STEPS)
    met = set()
    for seed in range(6):
        env.reset(seed=seed)
        met.add(env.red_agent)
        paid = [env.step({})[1][AGENTS[0]] for _ in range(STEPS - 1)]
        if env.red_agent == red:
            assert paid == alone("compiled", red, seed)
    assert met == {red, "SleepAgent"}


def test_commands_play_against_a_trained_red_team(red: str, tmp_path: Path) -> None:
    asked = "--env", ENV_ID, "--red-agent", red, "--max-steps", str(STEPS)
    page = tmp_path / "page.html"
    for words in (
        ["evaluate", "rules", *asked, "--episodes", "2"],
        ["replay", "champion", *asked, "--output", page],
    ):
        assert f"against {red}" in output_of(*words)
    assert page.exists()


@pytest.mark.parametrize(
    ("reds", "told"),
    [
        (str(RELEASED["champion"]), "it is no red team"),
        ("runs/nobody", "there is no such folder or policy file"),
        ("my_red:Mine", "cannot be imported"),
        (NO_PROGRAM, f"{NO_PROGRAM} is no red agent: it needs the methods begin and act"),
        ("FiniteStateRedAgent=1,SleepAgent=1", "names several"),
    ],
)
def test_what_is_no_red_team_is_told(reds: str, told: str) -> None:
    asked = ["--env", ENV_ID, "--red-agent", reds]
    commands = [["evaluate", "rules", *asked], ["replay", "rules", *asked]]
    if told != "names several":
        commands.append(["train-async", *asked, "--total-episodes", "1"])
    for words in commands:
        said = " ".join(output_of(*words, code=2).split())
        assert "--red-agent" in said
        assert told in said


def test_an_attacker_of_the_library_teaches_red(tmp_path: Path) -> None:
    """Its episodes, in which it is asked for its actions, are those that `--red-agent` plays."""
    red_side = make_environment(RED_ENV_ID, {"blue_agent": "sleep", "max_steps": STEPS})
    teacher = teacher_named("impact", red_side)
    envs = teacher.make_envs(2)
    specs = [EpisodeSpec(n, "", n, n) for n in range(2)]
    obs = envs.reset([0, 1], specs)
    returns = np.zeros(2)
    for _ in range(STEPS - 1):
        actions, _ = teacher.actor.act(obs, [0, 1])
        answers = envs.step([0, 1], actions)
        obs, returns = answers.obs, returns + answers.reward
    blue_side = Cage4(red_agent="impact", max_steps=STEPS)
    lost = rewards(blue_side, [EpisodeSpec(n, "impact", n, n) for n in range(2)])
    assert returns.tolist() == [-sum(of) for of in lost]


@pytest.mark.system
def test_a_class_of_cyborgs_plays_in_cyborg(checkout: Path, tmp_path: Path, monkeypatch) -> None:
    """It finds CybORG under its own name, and plays what the class that it derives from plays."""
    (tmp_path / "own_red.py").write_text(
        "from CybORG.Agents import FiniteStateRedAgent\n\n"
        "class Own(FiniteStateRedAgent):\n    pass\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    played = []
    for red_agent in ("own_red:Own", "FiniteStateRedAgent"):
        environment = Cage4(red_agent=red_agent, simulator="cyborg", max_steps=STEPS)
        played.append(rewards(environment, [EpisodeSpec(0, red_agent, 7, 7)]))
    assert played[0] == played[1]
    assert sum(played[0][0]) < 0
    compiled = Cage4(red_agent="own_red:Own", max_steps=STEPS)
    with pytest.raises(ConfigError, match="choose the simulator cyborg"):
        compiled.check()
