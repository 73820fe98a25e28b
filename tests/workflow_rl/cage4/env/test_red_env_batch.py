import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from workflow_rl.agents.team import ACTS, BUSY, CUT_OFF
from workflow_rl.cage4.agent.scripted import make_scripted_team
from workflow_rl.cage4.agent.trained_teams import RELEASED
from workflow_rl.cage4.cyborg.simulators import make_simulator
from workflow_rl.cage4.env.red_environment import Cage4Red
from workflow_rl.cage4.red.red_api import FIRST_RED_CHOICE, red_layout
from workflow_rl.cage4.scenario.scenario4 import FROM_OUTSIDE, RED_ENV_ID
from workflow_rl.environments.episode import EpisodeSpec
from workflow_rl.environments.source import make_environment
from workflow_rl.errors import ConfigError

LAYOUT = red_layout()


def drawn(rows: NDArray[Any], random: np.random.Generator) -> NDArray[np.int64]:
    """One of each agent's possible actions, but no Sleep if there is another."""
    chosen = np.zeros((len(rows), LAYOUT.n_agents), np.int64)
    for i, row in enumerate(rows):
        for agent, mask in enumerate(np.split(row, FIRST_RED_CHOICE)[1:]):
            options = np.flatnonzero(mask)
            chosen[i, agent] = random.choice(options[min(1, len(options) - 1) :])
    return chosen


def specs(*seeds: int) -> list[EpisodeSpec]:
    return [EpisodeSpec(seed, "", seed, seed) for seed in seeds]


@pytest.mark.parametrize("blue", ["rules", "champion", "restore-when-seen", "random"])
def test_blue_plays_in_batches_as_it_plays_alone(blue: str) -> None:
    environment = Cage4Red(blue_agent=blue, max_steps=60)
    envs, random = environment.make_envs(3), np.random.default_rng(0)
    rows = {env: envs.reset([env], specs(env))[0] for env in (2, 0)}
    alone = {env: make_simulator("compiled", FROM_OUTSIDE, 60) for env in rows}
    teams = {env: make_scripted_team(blue) for env in rows}
    seen = {env: simulator.reset(env) for env, simulator in alone.items()}
    for env, team in teams.items():
        team.reset(alone[env].masks, env)
    for step in range(59):
        # One env is a step behind in every second step.
        for env in (2, 0) if step % 2 else (0, 2):
            choices = drawn(rows[env][None], random)
            answers = envs.step([env], choices)
            alone[env].choose(choices[0].tolist(), [-1] * 6)
            result = alone[env].step(*teams[env].act_in(alone[env], seen[env]))
            seen[env], rows[env] = result.observations, answers.obs[0]
            assert answers.reward[0] == -result.reward
            assert np.array_equal(rows[env], alone[env].red_row())
    assert answers.truncated.all()
    assert LAYOUT.status(answers.obs).tolist() == [[CUT_OFF] * 6]


def test_only_agents_with_a_session_decide() -> None:
    envs = Cage4Red(blue_agent="sleep", max_steps=60).make_envs(1)
    rows = envs.reset([0], specs(1))
    assert LAYOUT.status(rows).tolist() == [[ACTS, *[BUSY] * 5]]


def test_a_trained_blue_is_a_file(tmp_path: Path) -> None:
    by_name, by_file = (
        Cage4Red(blue_agent=blue) for blue in ("champion", str(RELEASED["champion"]))
    )
    made = [
        pickle.loads(pickle.dumps(environment)).make_envs(1) for environment in (by_name, by_file)
    ]
    rows, _ = (envs.reset([0], specs(4)) for envs in made)
    random = np.random.default_rng(1)
    for _ in range(30):
        choices = drawn(rows, random)
        first, second = (envs.step([0], choices) for envs in made)
        rows = first.obs
        assert np.array_equal(rows, second.obs)


def test_an_unknown_blue_is_named() -> None:
    environment = make_environment(RED_ENV_ID, {"blue_agent": "nobody"})
    with pytest.raises(ConfigError, match="nobody") as error:
        environment.check()
    assert error.value.field_name == "blue_agent"
