import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.agents.examples import episode_of
from workflow_rl.agents.policy_from_checkpoint import learner_state
from workflow_rl.agents.ppo.running_statistics import ReturnScale
from workflow_rl.agents.team import (
    ABSENT,
    ACTS,
    BUSY,
    CUT_OFF,
    TeamLayout,
    policy_map,
    split,
    team_layout,
)
from workflow_rl.agents.trajectory import Trajectory

LAYOUT = TeamLayout(("a", "b"), (1, 1), (2, 2))


def joint(status: list[tuple[int, int]], reward: list[float]) -> Trajectory:
    """A joint trajectory; the observations count the steps, from 0, and for b from 10."""
    rows = np.array([(t, 10 + t, *now) for t, now in enumerate(status)], np.float32)
    action = np.arange(2 * len(reward)).reshape(len(reward), 2)
    return episode_of(rows, action, reward, -action.astype(np.float32), episode=7)


def test_steps_without_a_decision_join_the_decision_before() -> None:
    whole = joint(
        [(ACTS, ABSENT), (BUSY, ACTS), (BUSY, BUSY), (ACTS, BUSY), (BUSY, ABSENT)],
        [1.0, 2.0, 4.0, 8.0],
    )
    own = dict(split(whole, LAYOUT, {"one": (0,), "two": (1,)}, 0.5))
    one, two = own["one"], own["two"]
    assert one.durations is not None
    assert two.durations is not None
    assert one.durations.tolist() == [3, 1]
    assert one.reward.tolist() == [1 + 2 / 2 + 4 / 4, 8]
    assert one.action.tolist() == [0, 6]
    assert one.obs[:, 0].tolist() == [0, 3]
    assert one.last_obs.tolist() == [4]
    assert one.truncated
    assert two.durations.tolist() == [3]
    assert two.reward.tolist() == [2 + 4 / 2 + 8 / 4]
    assert two.log_prob.tolist() == [-3]
    assert two.terminated  # It is absent at the end.


def test_an_agent_that_is_cut_off_has_not_terminated() -> None:
    status = [(ACTS, ACTS), (ACTS, CUT_OFF), (ACTS, ABSENT), (CUT_OFF, ABSENT)]
    whole = joint(status, [1.0, 2.0, 4.0])
    own = dict(split(whole, LAYOUT, {"one": (0,), "two": (1,)}, 0.5))
    assert own["one"].reward.tolist() == [1, 2, 4]
    assert own["one"].last_obs.tolist() == [3]
    assert (own["one"].terminated, own["one"].truncated) == (False, True)
    assert own["two"].reward.tolist() == [1]
    assert own["two"].last_obs.tolist() == [11]
    assert (own["two"].terminated, own["two"].truncated) == (False, True)


def test_an_agent_that_comes_back_learns_from_all_that_its_decisions_led_to() -> None:
    status = [(ACTS, ACTS), (ACTS, ACTS), (ACTS, ABSENT), (ACTS, ACTS), (ACTS, ACTS)]
    (_, one), (_, two) = split(joint(status, [1, 2, 4, 8]), LAYOUT, {"a": (0,), "b": (1,)}, 0.5)
    assert one.reward.tolist() == [1, 2, 4, 8]
    assert two.reward.tolist() == [1, 2 + 4 / 2, 8]
    assert two.durations is not None
    assert two.durations.tolist() == [1, 2, 1]
    assert (two.terminated, two.truncated) == (False, True)


def test_agents_of_one_policy_see_which_of_them_they_are() -> None:
    whole = joint([(ACTS, ACTS), (ACTS, ACTS)], [1.0])
    seen = [own.obs.tolist() for _, own in split(whole, LAYOUT, {"both": (0, 1)}, 1.0)]
    assert seen == [[[0, 1, 0]], [[10, 0, 1]]]


def test_the_scale_of_returns_knows_durations() -> None:
    whole = joint([(ACTS, ABSENT), (BUSY, ABSENT), (ACTS, ABSENT), (ACTS, ABSENT)], [1, 2, 4])
    ((_, own),) = split(whole, LAYOUT, {"a": (0,), "b": (1,)}, 0.5)
    scale = ReturnScale(0.5)
    scale.update([own])
    returns = [1 + 2 / 2, 2 / 4 + 4]  # The first decision lasts two steps.
    assert scale.factor == pytest.approx(1 / np.std(returns), rel=1e-4)


def test_what_a_central_critic_sees() -> None:
    both = {"both": (0, 1)}
    whole = joint([(ACTS, ACTS), (ACTS, BUSY)], [1.0])
    (_, one), (_, two) = split(whole, LAYOUT, both, 1.0, central=True)
    assert one.obs.tolist() == [[0, 1, 0, 0, 10, ACTS, ACTS]]
    assert two.last_obs.tolist() == [11, 0, 1, 1, 11, ACTS, BUSY]
    # With a state, and with masks: observations, status, state, masks.
    layout = replace(LAYOUT, state_size=2, masked=True)
    rows = np.array([[3, 4, ACTS, BUSY, 5, 6, 1, 0, 0, 1]])
    assert layout.row_size == rows.shape[1]
    assert layout.seen_by(1, rows, (0, 1), central=True).tolist() == [[4, 0, 1, 5, 6, 0, 1]]
    assert layout.seen_by(1, rows, (1,)).tolist() == [[4, 0, 1]]
    # Rewards of their own stand before the state.
    layout = replace(layout, own_rewards=True)
    rows = np.array([[3, 4, ACTS, BUSY, 7, 8, 5, 6, 1, 0, 0, 1]])
    assert layout.rewards(rows).tolist() == [[7, 8]]
    assert layout.central(rows).tolist() == [[5, 6]]


def test_a_policys_name_may_begin_with_anothers() -> None:
    state = {
        "network": {"zone/w": 1, "zone/server/w": 2},
        "learners": {"zone": {}, "zone/server": {}},
    }
    assert learner_state(state, "zone")["network"] == {"w": 1}
    assert learner_state(state, "zone/server")["network"] == {"w": 2}


def test_the_policy_map() -> None:
    layout = TeamLayout(("x_0", "x_1", "y"), (3, 3, 5), (2, 2, 4))
    assert policy_map(layout, "") == {"x_0": (0, 1), "y": (2,)}
    assert policy_map(layout, "y=far,*=near") == {
        "near": (0, 1),
        "far": (2,),
    }
    alike, other = tables(2), {**tables(2), "traits": [[0.0], [1.0]]}
    layout_with = replace(layout, entities=(alike, alike, tables(4)))
    assert policy_map(layout_with, "") == policy_map(layout, "")
    layout_with = replace(layout, entities=(alike, other, tables(4)))
    assert policy_map(layout_with, "") == {"x_0": (0,), "x_1": (1,), "y": (2,)}
    with pytest.raises(ValueError, match="the policy all: their spaces or entities differ"):
        policy_map(layout_with, "x_*=all")
    for rules, problem in (
        ("*=all", "x_0 and y cannot share the policy all: their spaces differ"),
        ("z=one", "z fits none of the agents x_0, x_1, y"),
        ("*_?=near,x_1=far", "x_1=far comes too late: earlier rules fit x_1"),
        ("x_0", "'x_0' is not agent=policy"),
    ):
        with pytest.raises(ValueError, match=problem):
            policy_map(layout, rules)


def tables(n: int) -> dict[str, Any]:
    """Of n entities, each with a number of the observation and an action."""
    return {"features": np.arange(n)[:, None], "actions": [(0, entity) for entity in range(n)]}


def test_entities_are_kept_as_plain_values_and_seen_with_what_follows_the_observation() -> None:
    layout = TeamLayout(("a", "b"), (2, 2), (2, 2), entities=(tables(2), tables(2)))
    again = team_layout(json.loads(json.dumps(layout.to_plain())))
    assert again.entities == layout.entities
    assert again == layout == replace(layout, entities=())
    seen = layout.entities_seen_by(1, (0, 1))
    assert seen is not None
    assert seen.n_inputs == layout.n_seen_by(1, (0, 1)) == 4
    assert seen.whole.tolist() == [2, 3]
    assert LAYOUT.entities_seen_by(1, (0, 1)) is None


@pytest.mark.parametrize(
    ("entities", "problem"),
    [
        ((tables(2), tables(3)), "b: entities: features holds 2"),
        ((tables(2), {**tables(2), "actions": [(0, 0)]}), "b: entities: actions has 1 rows, not 2"),
        ((tables(2), 7), "b: "),
        ((tables(2), {}), "b: entities: features has no row"),
        ((tables(2),), "shorter"),
    ],
)
def test_entities_that_do_not_fit_the_agents_are_refused(entities: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        TeamLayout(("a", "b"), (2, 2), (2, 2), entities=entities)
