"""Which of the challenge's red agents can play where, and how envs say so."""

import functools
from typing import Any

import pytest

from tests.workflow_rl.cage2.descriptions import described
from workflow_rl.cage2.env.cage2_env import Cage2Env
from workflow_rl.cage2.env.vector_env import CompiledVectorEnv
from workflow_rl.cage2.red.roster import REDS, able_reds, problem_of_reds, refusals
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scenario2 import RED_AGENTS

CHALLENGE = Scenario.scenario2()
MOVED = CHALLENGE.enter_at("User1")


def test_red_agents_play_where_their_plans_exist():
    assert able_reds(CHALLENGE) == RED_AGENTS
    assert able_reds(MOVED) == RED_AGENTS[1:]
    lost = refusals(CHALLENGE.remove_host("Op_Server0"))
    assert "third host" in str(lost["B_lineAgent"])
    problem = problem_of_reds(MOVED, REDS.read("mixed"))
    assert str(problem).endswith("; choose RedMeanderAgent or SleepAgent")


def test_b_line_does_not_play_where_what_it_scans_shows_nothing():
    description = CHALLENGE.description()
    closed = {"User": {"in": "None", "out": "all"}, "all": {"in": "all", "out": "all"}}
    description["Subnets"]["Enterprise"]["NACLs"] = closed
    reasons = refusals(described(description))
    assert "Enterprise, which is closed to User" in str(reasons["B_lineAgent"])
    assert reasons["RedMeanderAgent"] is None
    description["Subnets"]["Enterprise"]["NACLs"] = {}
    assert refusals(described(description))["B_lineAgent"] is not None
    description = CHALLENGE.description()
    for process in description["Hosts"]["Enterprise2"]["Processes"]:
        process.pop("Connections", None)
    reasons = refusals(described(description))
    assert "an open port on Enterprise2" in str(reasons["B_lineAgent"])


@pytest.mark.parametrize("make", [Cage2Env, functools.partial(CompiledVectorEnv, 2)])
def test_an_env_refuses_a_red_agent_that_cannot_play(make: Any):
    told = "red_agent: B_lineAgent cannot play in .*: its plan begins on User0"
    with pytest.raises(ValueError, match=told):
        make(red_agent="mixed", scenario=MOVED)
    envs = make(red_agent="SleepAgent", scenario=MOVED)
    with pytest.raises(ValueError, match=told):
        envs.reset(options={"red_agent": "B_lineAgent"})
    envs.reset(options={"red_agent": "RedMeanderAgent"})
