import pickle
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli import output_of
from tests.workflow_rl.cage4.red_files import write_red_team
from workflow_rl.cage.attackers import Attacker
from workflow_rl.cage.red_program import action_index
from workflow_rl.cage.trial import found_by_trying
from workflow_rl.cage4 import parallel_env
from workflow_rl.cage4.agent.views import SLEEP
from workflow_rl.cage4.attackers import ACTION_NAMES, AgentSees, PythonReds
from workflow_rl.cage4.compiled.red_simulator import RedSimulator
from workflow_rl.cage4.env.environment import Cage4
from workflow_rl.cage4.red import red_api
from workflow_rl.cage4.red.roster import LIBRARY
from workflow_rl.cage4.scenario.scenario4 import AGENTS, ENV_ID
from workflow_rl.environments.episode import episode_spec
from workflow_rl.environments.named_by_file import require_named
from workflow_rl.environments.source import make_environment
from workflow_rl.errors import ConfigError

STEPS = 60
HERE = __name__


class Kinds:
    """Draws a kind of action, then a target."""

    def begin(self, random: random.Random) -> None:
        self.random = random

    def act(self, seen: AgentSees) -> str:
        kinds = sorted({name.partition(" ")[0] for name in seen.possible})
        kind = self.random.choice(kinds)
        return self.random.choice([name for name in seen.possible if name.startswith(kind)])


class Careless(Kinds):
    """Draws from what a seed does not determine."""

    def act(self, seen: AgentSees) -> str:
        return str(np.random.default_rng().choice(seen.possible))


class Wrong(Kinds):
    def act(self, seen: AgentSees) -> str:
        return "Impakt"


class NoProgram:
    def act(self) -> None:
        pass


def totals(red_agent: Any, episodes: int = 4) -> list[float]:
    environment = Cage4(red_agent=red_agent, max_steps=STEPS)
    envs = pickle.loads(pickle.dumps(environment)).make_envs(episodes)
    numbers = range(episodes)
    envs.reset(numbers, [episode_spec(5, n, environment.variants) for n in numbers])
    sleep = np.tile(SLEEP, (episodes, 1))
    rewards = [envs.step(numbers, sleep).reward for _ in range(STEPS - 1)]
    return [float(total) for total in np.sum(rewards, axis=0)]


def test_an_attacker_sees_what_its_agent_knows() -> None:
    simulator = RedSimulator(1)
    simulator.reset([0])
    simulator.play(SLEEP[None], np.zeros((1, 5, 8), np.int8), np.ones(1, np.bool_))
    seen = AgentSees(0, 1, simulator.rows[0])
    (own,) = seen.sessions
    assert own.startswith("contractor_network")
    assert seen.known == seen.sessions
    assert seen.roots == []
    assert seen.phase == 0
    assert seen.step == 1
    assert seen.ports(own) == []
    assert seen.possible[0] == "Sleep"
    assert seen.possible == [name for name in ACTION_NAMES[0] if seen.can(name)]
    assert f"Impact {own}" in seen.possible


def test_a_scan_shows_ports_and_an_escalation_shows_root() -> None:
    simulator = RedSimulator(1)
    simulator.reset([0])
    silence, chosen = np.zeros((1, 5, 8), np.int8), np.ones(1, np.bool_)
    own = AgentSees(0, 0, simulator.rows[0]).sessions[0]
    for action in (f"AggressiveServiceDiscovery {own}", f"PrivilegeEscalate {own}"):
        choices = np.zeros((1, 6), np.int64)
        choices[0, 0] = action_index(action, ACTION_NAMES[0])
        simulator.choose(choices)
        for _ in range(2):
            simulator.play(SLEEP[None], silence, chosen)
    seen = AgentSees(0, 4, simulator.rows[0])
    assert set(seen.ports(own)) <= set(red_api.PORTS)
    assert seen.ports(own)
    assert seen.roots == [own]
    assert seen.success is True


def test_actions_are_names_or_indices() -> None:
    names = ACTION_NAMES[3]
    assert action_index("Sleep", names) == 0
    assert action_index(np.int64(2), names) == 2
    for wrong in ("Impakt", -1, len(ACTION_NAMES[3]), 1.5, None):
        with pytest.raises(ValueError, match=r"red_agent_3's action=.*: it is no index"):
            action_index(wrong, names, "red_agent_3")


def test_a_seed_plays_the_same_episode_alone_and_among_others() -> None:
    assert totals(f"{HERE}:Kinds") == totals(Kinds)
    assert totals(f"{HERE}:Kinds", 2) == totals(f"{HERE}:Kinds")[:2]
    env = parallel_env(red_agent=Kinds, max_steps=STEPS)
    spec = episode_spec(5, 0, ("",))
    env.reset(spec.env_seed)
    alone = 0.0
    while env.agents:
        alone += env.step(dict(zip(AGENTS, SLEEP.tolist(), strict=True)))[1][AGENTS[0]]
    assert alone == totals(Kinds)[0]


def test_an_attacker_plays_in_cyborg_as_in_compiled_code(checkout: Path) -> None:
    played = []
    for simulator in ("compiled", "cyborg"):
        env = parallel_env(simulator, STEPS, red_agent=Kinds)
        env.reset(7)
        steps = []
        while env.agents:
            observations, rewards, *_ = env.step(dict(zip(AGENTS, SLEEP.tolist(), strict=True)))
            steps.append((rewards[AGENTS[0]], [observations[agent].tolist() for agent in AGENTS]))
        played.append(steps)
    assert played[0] == played[1]


@pytest.mark.parametrize("name", LIBRARY)
def test_attackers_of_the_library_attack(name: str) -> None:
    environment = Cage4(red_agent=name)
    assert environment.foreign == []
    assert sum(totals(name)) < 0 or name in ("patient", "one-zone", "phishing-waiter")


def test_a_mixture_meets_all_of_the_library() -> None:
    assert set(Cage4(red_agent="library").variants) == set(LIBRARY)


@pytest.mark.parametrize(
    ("attacker", "problem"),
    [
        pytest.param("Wrong", r"red_agent_0's action='Impakt'", id="no-action"),
        pytest.param("NoProgram", "needs the methods begin and act", id="no-program"),
        pytest.param("Nobody", "defines no Nobody", id="no-class"),
    ],
)
def test_what_cannot_play_is_refused(attacker: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        Cage4(red_agent=f"{HERE}:{attacker}").check()


class Tires(Kinds):
    def act(self, seen: AgentSees) -> str:
        if seen.step == 250:
            raise LookupError("I am tired")
        return "Sleep"


@pytest.mark.parametrize("command", ["evaluate", "replay"])
def test_an_attacker_that_fails_late_is_one_line(command: str, tmp_path: Path) -> None:
    only = {"evaluate": ["--episodes", "2"], "replay": ["--output", str(tmp_path / "page.html")]}
    asked = [command, "sleep", "--env", ENV_ID, "--red-agent", f"{HERE}:Tires", *only[command]]
    *_, line = output_of(*asked, code=2).splitlines()
    assert line.startswith("Error: Invalid value for --red-agent: ")
    assert "Tires fails in step 250: LookupError: I am tired" in line


def test_a_strangers_file_names_no_attacker() -> None:
    for red_agent in (f"{HERE}:Kinds", "somewhere/red.npz"):
        strange = make_environment(ENV_ID, {"red_agent": red_agent}, named_by_file=True)
        with pytest.raises(ConfigError, match="only the file mentions"):
            strange.check()
        with pytest.raises(ConfigError, match="only the file mentions"):
            strange.make_envs(1)
        with pytest.raises(ConfigError, match="only the file mentions"):
            require_named(strange)
    known = make_environment(ENV_ID, {"red_agent": "greedy", "max_steps": 9}, named_by_file=True)
    known.check()
    known.make_envs(1)


def test_who_draws_from_elsewhere_is_told() -> None:
    careless = Cage4(red_agent=f"{HERE}:Careless")
    assert "with one seed differ" in str(found_by_trying(careless, SLEEP[None], STEPS))
    assert Cage4(red_agent=f"{HERE}:Kinds").check() is None


def test_trained_teams_and_attackers_are_drawn_together(tmp_path: Path) -> None:
    red = write_red_team(tmp_path / "red.npz")
    assert len(totals(f"{red}=1,greedy=1,FiniteStateRedAgent=1", 6)) == 6


def test_one_object_is_copied_for_each_env() -> None:
    team = PythonReds(Attacker("kinds", given=Kinds()))
    team.reset(1, 0)
    team.reset(1, 1)
    simulator = RedSimulator(2)
    rows = simulator.rows
    simulator.reset([4, 4])
    first, _ = team.act(rows, [0, 1])
    assert first[0].tolist() == first[1].tolist()
