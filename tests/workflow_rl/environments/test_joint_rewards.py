from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from tests.tiny_teams import Shifts
from workflow_rl.agents.team import split
from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.collection.player import play_episodes
from workflow_rl.environments.env_batch import EpisodeError
from workflow_rl.environments.episode import episode_spec
from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment
from workflow_rl.teaching.teachers import actor_of

AGENTS = ("a", "b", "c")
THERE, AWAY, DEAD, CUT = "there", "away", "dead", "cut"
Script = list[dict[str, tuple[str, int]]]
"""By step, each agent's state after it and what it is paid."""


class Scripted:
    """Agents come and go, and are paid, as a script says. The last step ends what is left."""

    possible_agents = AGENTS

    def __init__(self, script: Script, kind: Any = float) -> None:
        self.script, self.kind = script, kind

    def observation_space(self, agent: str) -> Any:
        return spaces.Box(0, 1, (1,))

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(2)

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.agents, self.steps = list(AGENTS), 0
        return dict.fromkeys(AGENTS, np.zeros(1, np.float32)), {}

    def step(self, actions: Any) -> Any:
        told, before = self.script[self.steps], set(self.agents)
        self.steps += 1
        state = {agent: state for agent, (state, _) in told.items()}
        if self.steps == len(self.script):
            state = {agent: DEAD if agent in before else of for agent, of in state.items()}
            state = {agent: AWAY if of == THERE else of for agent, of in state.items()}
        self.agents = [agent for agent in AGENTS if state[agent] == THERE]
        seen = [*self.agents, *(agent for agent in AGENTS if state[agent] == CUT)]
        rewards = {agent: self.kind(paid) for agent, (_, paid) in told.items()}
        dead, cut = ({agent: of == end for agent, of in state.items()} for end in (DEAD, CUT))
        return dict.fromkeys(seen, np.zeros(1, np.float32)), rewards, dead, cut, {}


def played(make_env: Any) -> tuple[Trajectory, Any]:
    environment = GymnasiumEnvironment("mine", {}, make_env)
    layout, actor = environment.spaces().team, actor_of(lambda obs, *mask: 0, environment)
    ((joint,),) = play_episodes(environment.make_envs(1), actor, [episode_spec(0, 0)])
    return joint, layout


def learned(joint: Trajectory, layout: Any) -> dict[str, float]:
    policies = {agent: (k,) for k, agent in enumerate(layout.agents)}
    parts = split(joint, layout, policies, discount=1.0)
    return {agent: float(of.reward.sum()) for agent, of in parts}


def always(reward: int, *states: tuple[str, ...]) -> Script:
    return [
        {agent: (state, reward) for agent, state in zip(AGENTS, of, strict=True)} for of in states
    ]


@pytest.mark.parametrize("kind", [np.uint8, np.float16, np.int16, np.float32, int, float])
def test_rewards_of_a_team_are_added_up_in_float64(kind):
    script = always(200, *[(THERE,) * 3] * 10)
    joint, layout = played(lambda: Scripted(script, kind))
    assert joint.reward.tolist() == [600.0] * 10
    assert sum(learned(joint, layout).values()) == 6000
    most = {np.float16: 60_000}.get(kind, 200)
    joint, _ = played(lambda: Scripted(always(most, *[(THERE,) * 3] * 2), kind))
    assert joint.episode_return == 6 * most


def test_what_an_agent_is_paid_after_its_end_counts_for_nothing():
    begun = always(1, (THERE,) * 3, (THERE, DEAD, CUT))
    alone = [*begun, *always(100, *[(THERE, DEAD, CUT)] * 4)]
    together = [*begun, *always(100, *[(THERE, DEAD, AWAY)] * 4)]
    for make_env in (lambda: Scripted(alone), batched(together)):
        joint, layout = played(make_env)
        assert joint.episode_return == 6 + 400
        assert learned(joint, layout) == {"a": 402, "b": 2, "c": 2}
        assert layout.own_returns([joint]).tolist() == [[402, 2, 2]]


def test_what_an_agent_is_paid_until_it_is_back_counts_for_its_last_decision():
    states = [(THERE,) * 3, (THERE, DEAD, AWAY), (THERE, DEAD, AWAY), (THERE,) * 3, (THERE,) * 3]
    joint, layout = played(lambda: Scripted(always(10, *states)))
    assert joint.episode_return == 150
    assert learned(joint, layout) == dict.fromkeys(AGENTS, 50)


states = st.sampled_from([THERE, THERE, AWAY, DEAD, CUT])
scripts = st.lists(
    st.fixed_dictionaries({agent: st.tuples(states, st.integers(-9, 9)) for agent in AGENTS}),
    min_size=1,
    max_size=8,
)


@given(script=scripts)
def test_the_score_is_the_sum_of_what_agents_learn_from(script):
    for make_env in (lambda: Scripted(script), batched(script)):
        joint, layout = played(make_env)
        assert joint.episode_return == sum(learned(joint, layout).values())
        assert joint.episode_return == layout.own_returns([joint]).sum()


def batched(script: Script, kind: Any = np.int8) -> Any:
    """The class of a BatchedTeamEnv that plays a script. The first agent stays to the end."""

    class Many(Shifts):
        observation_spaces = {agent: spaces.Box(0, 1, (1,)) for agent in AGENTS}  # noqa: RUF012
        action_spaces = dict.fromkeys(AGENTS, spaces.Discrete(2))

        def __init__(self, n_envs: int) -> None:
            self.steps = np.zeros(n_envs, int)
            self.script = script

        def reset(self, indices: Any, seeds: Any) -> Any:
            self.steps[indices] = 0
            m = len(indices)
            return np.zeros((m, 3), np.float32), np.full((m, 3), self.ACTS)

        def step(self, indices: Any, actions: Any) -> Any:
            told = self.script[int(self.steps[indices[0]])]
            self.steps[indices] += 1
            by_state = {THERE: self.ACTS, CUT: self.CUT_OFF}
            status = [by_state.get(told[agent][0], self.ABSENT) for agent in AGENTS]
            ended = self.steps[indices] == len(self.script)
            status[0] = self.CUT_OFF if ended[0] else self.ACTS
            paid = np.array([[told[agent][1] for agent in AGENTS]], kind)
            obs = np.zeros((1, 3), np.float32)
            return obs, np.array([status]), paid, np.zeros_like(ended), ended

        def action_masks(self, indices: Any) -> Any:
            return np.ones((len(indices), 6))

    return Many


@pytest.mark.parametrize("size", [1e300, -1e39])
def test_a_reward_that_rows_cannot_hold_is_refused(size):
    script = always(size, (THERE,) * 3)
    for make_env in (lambda: Scripted(script), batched(script, np.float64)):
        envs = GymnasiumEnvironment("mine", {}, make_env).make_envs(1)
        envs.reset([0], [episode_spec(0, 0)])
        with pytest.raises(EpisodeError) as error:
            envs.step([0], np.zeros((1, 3), np.int64))
        assert "float32 cannot hold" in str(error.value.__cause__)
